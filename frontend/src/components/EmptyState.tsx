import type { ReactNode } from "react";
import classes from "./States.module.css";

interface Props {
  icon: ReactNode;
  title: string;
  text: string;
  children?: ReactNode;
}

/** Nothing here yet, and the next step that changes it. */
export function EmptyState({ icon, title, text, children }: Props) {
  return (
    <div className={classes.state}>
      <div className={classes.icon}>{icon}</div>
      <div className={classes.title}>{title}</div>
      <p className={classes.text}>{text}</p>
      {children}
    </div>
  );
}
