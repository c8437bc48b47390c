import { IconCheck, IconCircleCheck, IconX } from "@tabler/icons-react";
import type { Candidate, Decision } from "../../api/fleet";
import { say, t } from "../../i18n";
import { bytes, decimal, integer } from "../../lib/format";
import classes from "./Decisions.module.css";

/** Every device that was looked at: the chosen one first, then by score, then those that did not fit. */
export function inOrder(decision: Decision): Candidate[] {
  const rank = (one: Candidate) => (one.device_id === decision.chosen?.device_id ? 2 : one.fits ? 1 : 0);
  return decision.candidates.toSorted(
    (a, b) => rank(b) - rank(a) || (b.score ?? 0) - (a.score ?? 0) || b.free_bytes - a.free_bytes,
  );
}

export function Candidates({ decision }: { decision: Decision }) {
  const rows = inOrder(decision);
  if (rows.length === 0) return <p className={classes.none}>{t.decisions.detail.noCandidates}</p>;
  return (
    <ul className={classes.candidates}>
      {rows.map((one) => (
        <Row key={one.device_id} one={one} chosen={one.device_id === decision.chosen?.device_id} />
      ))}
    </ul>
  );
}

/** `mig 1g.10gb` with the isolation as people call it. */
function slotText(slot: string): string {
  const [kind = "", profile = ""] = slot.split(" ");
  const cut = (t.fleet.cuts as Record<string, string>)[kind] ?? kind;
  return kind === "whole" ? cut : `${cut} ${profile}`;
}

function Row({ one, chosen }: { one: Candidate; chosen: boolean }) {
  const words = t.decisions.detail;
  const Icon = chosen ? IconCircleCheck : one.fits ? IconCheck : IconX;
  const verdict = chosen ? words.wasChosen : one.fits ? words.yes : words.no;
  return (
    <li className={classes.candidate} data-chosen={chosen || undefined}>
      <span>
        <strong>{one.node}</strong> {one.device}
      </span>
      <span className={`${classes.verdict} ${one.fits ? classes.good : classes.bad}`}>
        <Icon size={15} aria-hidden="true" />
        {verdict}
      </span>
      <span className={`${classes.note} num`}>
        {one.slot &&
          `${slotText(one.slot)}${one.start === undefined || one.start === null ? "" : `@${one.start}`} · `}
        {words.free(bytes(one.free_bytes), bytes(one.memory_bytes))}
        {" · "}
        {words.units(integer(one.units_free), integer(one.units_needed))}
        {one.score !== null && ` · ${words.score} ${decimal(one.score)}`}
      </span>
      {(one.why_not || one.score_why) && (
        <span className={classes.note}>{say(one.why_not || one.score_why)}</span>
      )}
    </li>
  );
}
