import { t } from "../../i18n";
import { milliseconds } from "../../lib/format";
import classes from "./Requests.module.css";

/** A time and the limit it was judged by, under it. */
export function Against({ value, limit }: { value: number | null; limit: number | null }) {
  const late = value !== null && limit !== null && value > limit;
  return (
    <>
      <span data-late={late || undefined} className={classes.figure}>
        {milliseconds(value)}
      </span>
      {limit !== null && <div className={classes.under}>{t.requests.columns.of(milliseconds(limit))}</div>}
    </>
  );
}
