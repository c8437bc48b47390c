import { Progress } from "@mantine/core";
import type { Model } from "../../api/types";
import { say, t } from "../../i18n";
import { bytes, milliseconds, percent } from "../../lib/format";
import classes from "./Models.module.css";
import { secondsLeft } from "./rate";

/** How far a registration is: its phase, bytes of all, how fast, and how long it will still take. */
export function RegistrationProgress({ model }: { model: Model }) {
  const words = t.models.progress;
  const { phase, bytes_done: done, bytes_total: total, bytes_per_s: rate } = model;
  const left = secondsLeft(rate, done, total);
  const detail = [
    total ? words.of(bytes(done), bytes(total)) : null,
    rate ? words.rate(bytes(rate)) : null,
    left !== null ? words.left(milliseconds(Math.ceil(left) * 1000)) : null,
  ].filter(Boolean);
  return (
    <div className={classes.progress} data-testid="progress">
      <div className={`${classes.progressHead} num`}>
        <span>{words.phases[phase]}</span>
        <span>{percent(model.progress)}</span>
      </div>
      <Progress
        value={Math.round(model.progress * 1000) / 10}
        size={6}
        radius="xl"
        aria-label={words.label(model.name)}
        animated={model.state === "registering"}
      />
      <div className={`${classes.sub} num`}>{detail.join(" · ") || say(model.reason) || "\u00a0"}</div>
    </div>
  );
}
