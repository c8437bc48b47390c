import classes from "./CodeBlock.module.css";
import { CopyButton } from "./CopyButton";

export function CodeBlock({ code, label }: { code: string; label?: string }) {
  return (
    <div className={classes.block}>
      <div className={classes.copy}>
        <CopyButton value={code} label={label} />
      </div>
      <pre className={classes.pre} tabIndex={0}>
        <code>{code}</code>
      </pre>
    </div>
  );
}
