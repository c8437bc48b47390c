import { t } from "../../i18n";
import classes from "./GpuPicture.module.css";

/** Stands at every figure of a device that is not there. */
export function Simulated({ short = false }: { short?: boolean }) {
  return (
    <span className={classes.simulated} title={t.fleet.simulated.hint} data-testid="simulated">
      {short ? t.fleet.simulated.short : t.fleet.simulated.label}
    </span>
  );
}
