import { Link } from "@tanstack/react-router";
import type { ServiceClass } from "../../api/types";
import { Loading } from "../../components/Loaded";
import { Meter } from "../../components/Meter";
import { Panel } from "../../components/Panel";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { integer, percent } from "../../lib/format";
import type { Figures } from "../../live/types";
import classes from "./Rows.module.css";

interface Props {
  loading: boolean;
  rows: [string, Figures][];
  classes: ServiceClass[];
}

export function ClassAttainment({ loading, rows, classes: levels }: Props) {
  const { current } = useScope();
  const targetOf = (name: string) => levels.find((c) => c.name === name)?.attainment_target ?? 0.95;
  const kept = ([name, f]: [string, Figures]) => (f.attainment ?? 0) >= targetOf(name);
  // Broken promises first, each group by name as it comes
  const seen = rows.filter(([, f]) => f.offered > 0).toSorted((a, b) => Number(kept(a)) - Number(kept(b)));
  return (
    <Panel title={t.overview.byClass} hint={t.overview.byClassHint}>
      {loading && <Loading />}
      {!loading && seen.length === 0 && <p className={classes.none}>{t.overview.noRequests}</p>}
      {seen.map(([name, figures]) => {
        const target = targetOf(name);
        const value = figures.attainment ?? 0;
        return (
          <div key={name} className={classes.row} data-testid={`class-${name}`}>
            <span className={classes.name}>
              <Link
                className={classes.link}
                to="/t/$scope/slas"
                params={{ scope: current?.slug ?? "" }}
                search={{ class: name }}
              >
                {name}
              </Link>
            </span>
            <span className={`${classes.value} num`}>
              {percent(figures.attainment)}{" "}
              <span className="muted">{t.overview.of(integer(figures.offered))}</span>
              {value < target && <b>{t.overview.below(percent(target))}</b>}
            </span>
            <Meter
              value={value}
              mark={target}
              tone={value >= target ? "good" : "late"}
              label={`${name}: ${percent(value)}`}
            />
          </div>
        );
      })}
    </Panel>
  );
}
