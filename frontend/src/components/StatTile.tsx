import { Skeleton } from "@mantine/core";
import type { ReactNode } from "react";
import { Hint } from "./Hint";
import classes from "./StatTile.module.css";

interface Props {
  label: string;
  hint: string;
  value: ReactNode;
  unit?: string;
  detail?: ReactNode;
  tone?: "good" | "warn" | "bad";
  loading?: boolean;
  testId?: string;
}

export function StatTile({ label, hint, value, unit, detail, tone, loading = false, testId }: Props) {
  return (
    <div className={classes.tile} data-testid={testId} aria-busy={loading}>
      <div className={classes.label}>
        {label}
        <Hint text={hint} />
      </div>
      {loading ? (
        <Skeleton height={24} width={72} my={4} />
      ) : (
        <div className={`${classes.value} num`} data-tone={tone}>
          {value} {unit && <span className={classes.unit}>{unit}</span>}
        </div>
      )}
      <div className={`${classes.detail} num`}>{(!loading && detail) || "\u00a0"}</div>
    </div>
  );
}

/** Tiles side by side on one surface. */
export function StatTiles({ children, testId }: { children: ReactNode; testId?: string }) {
  return (
    <div className={classes.tiles} data-testid={testId}>
      {children}
    </div>
  );
}
