import classes from "./Meter.module.css";

interface Props {
  /** 0 to 1; more is drawn full. */
  value: number;
  label: string;
  tone: "accent" | "good" | "late" | "bad";
  /** Where the target stands, 0 to 1. */
  mark?: number;
}

export function Meter({ value, label, tone, mark }: Props) {
  const width = Math.max(0, Math.min(1, value)) * 100;
  return (
    <div className={classes.track} role="img" aria-label={label}>
      <div className={classes.bar} style={{ width: `${width}%`, background: `var(--b-${tone})` }} />
      {mark !== undefined && <div className={classes.mark} style={{ left: `${mark * 100}%` }} />}
    </div>
  );
}
