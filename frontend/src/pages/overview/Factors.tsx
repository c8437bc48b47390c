import { Hint } from "../../components/Hint";
import { Meter } from "../../components/Meter";
import { Panel } from "../../components/Panel";
import { t } from "../../i18n";
import { percent } from "../../lib/format";
import type { Figures } from "../../live/types";
import classes from "./Rows.module.css";

const NAMES = ["U", "E", "R", "A"] as const;

/** More than all, as far as is shown: windows are summed, not cut, so a share may pass 1 by a hair. */
const SEEN = 1.005;

/** η = U·E·R·A: where device time went. Values above 1 are shown as they are. */
export function Factors({ total }: { total: Figures }) {
  return (
    <Panel
      title={t.overview.factors.title}
      hint={t.overview.factors.hint}
      aside={<span className="num">η {percent(total.factors.eta)}</span>}
    >
      {NAMES.map((name) => {
        const value = total.factors[name];
        const words = t.overview.factors[name];
        return (
          <div key={name} className={classes.row}>
            <span className={classes.name}>
              {words.label}
              <Hint text={words.hint} />
            </span>
            <span className={`${classes.value} num`}>{percent(value)}</span>
            <Meter
              value={value ?? 0}
              tone={value !== null && value > SEEN ? "late" : "accent"}
              label={`${words.label}: ${percent(value)}`}
            />
          </div>
        );
      })}
    </Panel>
  );
}
