import { Tooltip } from "@mantine/core";
import type { ExplainedRequest } from "../../api/types";
import { t } from "../../i18n";
import { milliseconds } from "../../lib/format";
import { pictureOf } from "./phases";
import classes from "./Requests.module.css";

const words = t.requests.one;
const names = words.phases as Record<string, { label: string; hint: string }>;
const share = (value: number) => `${(value * 100).toFixed(3)}%`;

/** Queued, prefill, decode as bars over one axis of time, and when the first token was promised. */
export function RequestTimeline({ request }: { request: ExplainedRequest }) {
  const picture = pictureOf(request);
  if (picture.bars.length === 0) return null;
  return (
    <figure className={classes.timeline} aria-label={words.timeline} data-testid="timeline">
      <div className={classes.lanes}>
        {picture.bars.map((bar) => (
          <div key={bar.phase} className={classes.lane}>
            <Tooltip label={names[bar.phase]?.hint ?? bar.phase}>
              <span className={classes.phaseName} tabIndex={0}>
                {names[bar.phase]?.label ?? bar.phase}
              </span>
            </Tooltip>
            <div className={classes.track}>
              <div
                className={classes.bar}
                data-phase={bar.phase}
                style={{ left: share(bar.left), width: `max(2px, ${share(bar.width)})` }}
              />
            </div>
            <span className={`${classes.length} num`}>{milliseconds(bar.endMs - bar.startMs)}</span>
          </div>
        ))}
        <div className={classes.overlay} aria-hidden="true">
          {picture.marks.map((mark) => (
            <div key={mark.kind} className={classes.mark} style={{ left: share(mark.left) }} />
          ))}
        </div>
      </div>
      <div className={classes.axis} aria-hidden="true">
        {picture.ticks.map((tick) => (
          <span key={tick.ms} className={`${classes.tick} num`} style={{ left: share(tick.left) }}>
            {tick.ms === 0 ? "0" : milliseconds(tick.ms)}
          </span>
        ))}
      </div>
      <figcaption className={classes.promises}>
        {request.record.ttft_limit_us !== null && (
          <span>
            <i aria-hidden="true" /> {words.promisedFirst(milliseconds(request.record.ttft_limit_us / 1000))}
          </span>
        )}
        {request.record.e2e_limit_us !== null && (
          <span>
            <i aria-hidden="true" /> {words.promisedWhole(milliseconds(request.record.e2e_limit_us / 1000))}
          </span>
        )}
        {request.record.ttft_limit_us === null && request.record.e2e_limit_us === null && (
          <span>{words.noPromise}</span>
        )}
      </figcaption>
    </figure>
  );
}
