import { t } from "../../i18n";
import classes from "./GpuPicture.module.css";

const KINDS = ["seat", "free", "stranded", "blocked"] as const;

/** What the boxes of a strip mean; none of it by colour alone. */
export function MapKey() {
  return (
    <ul className={classes.key} aria-label={t.fleet.key.label}>
      {KINDS.map((kind) => (
        <li key={kind} title={t.fleet.key.hints[kind]}>
          <span className={classes.cell} aria-hidden="true">
            <span className={classes[kind]} data-colour="0" data-state="ready" />
          </span>
          {t.fleet.key[kind]}
        </li>
      ))}
    </ul>
  );
}
