import type { CSSProperties } from "react";
import type { Outlook, SeatFit } from "../../api/fleet";
import { say, t } from "../../i18n";
import { bytes, decimal, integer } from "../../lib/format";
import classes from "./FitCheck.module.css";

const MOST_SEATS = 6;

/** On GPUs that are cut: where each replica would sit, the goodput to expect, and who would make way. */
export function FitOutlook({ outlook }: { outlook: Outlook }) {
  const words = t.deployments.fit;
  const { seats, displaced, opens, reason } = outlook;
  const more = seats.length - MOST_SEATS;
  return (
    <div className={classes.outlook} data-testid="outlook" data-fits={outlook.fits}>
      {reason && <p className={classes.reason}>{say(reason)}</p>}
      {seats.length > 0 && (
        <>
          <p className={`${classes.goodput} num`}>
            {words.goodput} <strong>{words.rate(decimal(outlook.goodput))}</strong>{" "}
            <span className={classes.tag}>{outlook.measured ? words.measured : words.estimated}</span>
          </p>
          <ul className={classes.seats} aria-label={words.where}>
            {seats.slice(0, MOST_SEATS).map((seat) => (
              <Seat key={`${seat.gpu_id} ${seat.kind} ${seat.start}`} seat={seat} />
            ))}
          </ul>
          {more > 0 && <p className={classes.quiet}>{words.moreSeats(integer(more))}</p>}
          {opens > 0 && <p className={classes.quiet}>{words.opens(opens)}</p>}
        </>
      )}
      {displaced.length > 0 && (
        <p className={classes.quiet} data-testid="displaced">
          {words.displaced(
            displaced.length,
            [...new Set(displaced.map((one) => one.deployment_name || words.someone))].join(", "),
          )}
        </p>
      )}
      <Slots outlook={outlook} />
    </div>
  );
}

function Seat({ seat }: { seat: SeatFit }) {
  const words = t.deployments.fit;
  const units = t.fleet.device.unitsOf(seat.start, seat.start + seat.size - 1);
  return (
    <li>
      <span>
        {seat.node} · {seat.gpu}
        {seat.opens && <span className="muted"> ({words.empty})</span>}
      </span>
      <span className={classes.strip} style={{ "--units": seat.units } as CSSProperties} aria-hidden="true">
        <i style={{ "--from": seat.start, "--span": seat.size } as CSSProperties} />
      </span>
      <span className="num">
        {t.fleet.cuts[seat.kind as "mig"]} {seat.profile}, {units}
      </span>
      <span className={`${classes.seatRate} num`}>{words.rate(decimal(seat.rate))}</span>
    </li>
  );
}

/** Every way to hold a replica, with what it gives or why it does not do. */
function Slots({ outlook }: { outlook: Outlook }) {
  const words = t.deployments.fit;
  if (outlook.slots.length === 0) return null;
  const boards = [...new Set(outlook.slots.map((slot) => slot.board))];
  return (
    <details className={classes.slots}>
      <summary>
        {words.slots(outlook.slots.filter((slot) => !slot.why_not).length, outlook.slots.length)}
      </summary>
      {boards.map((board) => (
        <section key={board}>
          <h4>{outlook.slots.find((slot) => slot.board === board)?.board_name}</h4>
          <ul>
            {outlook.slots
              .filter((slot) => slot.board === board)
              .map((slot) => (
                <li key={`${slot.kind} ${slot.profile}`}>
                  <span className="num">
                    {t.fleet.cuts[slot.kind as "mig"]} {slot.kind === "whole" ? "" : slot.profile}{" "}
                    <span className="muted">{bytes(slot.memory_bytes)}</span>
                  </span>
                  <span className={`${classes.verdict} num`} data-fits={!slot.why_not}>
                    {slot.why_not
                      ? say(slot.why_not)
                      : `${words.rate(decimal(slot.rate))} · ${slot.measured ? words.measured : words.estimated}`}
                  </span>
                </li>
              ))}
          </ul>
        </section>
      ))}
    </details>
  );
}
