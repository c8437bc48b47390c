import { Skeleton, Tooltip } from "@mantine/core";
import type { Model } from "../../api/types";
import { useFit } from "../../hooks/useModels";
import { useNear } from "../../hooks/useNear";
import { say, t } from "../../i18n";
import { integer, NONE } from "../../lib/format";
import classes from "./Models.module.css";
import { defaultFit } from "./modelFit";

/** How many replicas at the default settings have a place on the fleet now. Asked of models near the screen only. */
export function FitCell({ model }: { model: Model }) {
  const { ref, near } = useNear<HTMLSpanElement>(false);
  return (
    <span ref={ref}>
      {model.state === "ready" ? <Answer model={model} near={near} /> : <span className="muted">{NONE}</span>}
    </span>
  );
}

/** The number, or why there is none, on demand. */
function Answer({ model, near }: { model: Model; near: boolean }) {
  const fit = useFit(near ? model.id : null, defaultFit(model));
  const words = t.models.fit;
  if (fit.error) {
    return (
      <Tooltip label={fit.error.message}>
        <span className="muted" tabIndex={0}>
          {words.unknown}
        </span>
      </Tooltip>
    );
  }
  if (!fit.data) return <Skeleton height={14} width={70} />;
  const { devices, gpus, replicas_that_fit: room } = fit.data;
  const seat = gpus?.seats[0];
  if (seat) {
    const where = `${seat.node} · ${seat.gpu}`;
    return (
      <Tooltip label={where}>
        <span className={`${classes.good} num`} tabIndex={0}>
          {words.inSlot(seat.kind === "whole" ? t.fleet.cuts.whole : seat.profile)}
        </span>
      </Tooltip>
    );
  }
  if (room > 0) {
    return (
      <span className={`${classes.good} num`}>{room === 1 ? words.one : words.fits(integer(room))}</span>
    );
  }
  const reasons = [...new Set(devices.map((d) => `${d.node}: ${say(d.reason)}`))];
  if (gpus?.reason) reasons.unshift(say(gpus.reason));
  return (
    <Tooltip label={reasons.join("\n") || say(fit.data.reason)}>
      <span className={classes.bad} tabIndex={0}>
        {devices.length || gpus ? words.none : words.noDevice}
      </span>
    </Tooltip>
  );
}
