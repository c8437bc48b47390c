import type { ReactNode } from "react";
import { CodeBlock } from "./CodeBlock";
import classes from "./States.module.css";

interface Props {
  icon: ReactNode;
  title: string;
  text: string;
  /** A command that does the next step; shown with a copy button. */
  code?: string;
  /** It is the whole page: its title is the page's. */
  page?: boolean;
  children?: ReactNode;
}

/** Nothing here yet, and the next step that changes it. */
export function EmptyState({ icon, title, text, code, page, children }: Props) {
  return (
    <div className={classes.state}>
      <div className={classes.icon}>{icon}</div>
      {page ? <h1 className={classes.title}>{title}</h1> : <div className={classes.title}>{title}</div>}
      <p className={classes.text}>{text}</p>
      {code && (
        <div className={classes.code}>
          <CodeBlock code={code} />
        </div>
      )}
      {children}
    </div>
  );
}
