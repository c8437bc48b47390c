import { Title } from "@mantine/core";
import type { ReactNode } from "react";
import classes from "./PageHeader.module.css";

interface Props {
  title: ReactNode;
  subtitle?: ReactNode;
  children?: ReactNode;
}

export function PageHeader({ title, subtitle, children }: Props) {
  return (
    <header className={classes.header}>
      <div className={classes.text}>
        <Title order={1} className={classes.title}>
          {title}
        </Title>
        {subtitle && <p className={classes.subtitle}>{subtitle}</p>}
      </div>
      {children && <div className={classes.actions}>{children}</div>}
    </header>
  );
}
