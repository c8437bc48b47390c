import { Skeleton } from "@mantine/core";
import type { ReactNode } from "react";
import { Hint } from "./Hint";
import classes from "./StatTile.module.css";

interface Props {
  label: string;
  hint: string;
  value: ReactNode;
  unit?: ReactNode;
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

interface TilesProps {
  /** How many stand beside each other where there is room; half as many on a tablet, two on a phone. */
  columns?: 4 | 6;
  testId?: string;
  children: ReactNode;
}

/** Tiles side by side on one surface. */
export function StatTiles({ children, columns = 4, testId }: TilesProps) {
  return (
    <div className={classes.tiles} data-columns={columns} data-testid={testId}>
      {children}
    </div>
  );
}
