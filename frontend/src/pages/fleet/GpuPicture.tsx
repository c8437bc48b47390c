import { VisuallyHidden } from "@mantine/core";
import { IconLock } from "@tabler/icons-react";
import { type CSSProperties, memo } from "react";
import type { MapGpu, MapSeat, MapSegment } from "../../api/fleet";
import { Hint } from "../../components/Hint";
import { StatePill } from "../../components/StatePill";
import { say, t } from "../../i18n";
import { integer, percent } from "../../lib/format";
import { GpuMenu } from "./GpuMenu";
import classes from "./GpuPicture.module.css";
import { HealthPill } from "./HealthPill";
import { type Box, boxesOf, type ColourBy, keyOf } from "./layout";
import { MemoryBar } from "./MemoryBar";
import type { BoxHandlers } from "./SegmentCard";
import { Simulated } from "./Simulated";

interface Props {
  gpu: MapGpu;
  by: ColourBy;
  colours: Map<string, number>;
  /** What a box does when it is pointed at or chosen. */
  handlers: (place: { gpu: string; start: number; replica: string | undefined }) => BoxHandlers;
  /** A click on the name: which device's history is shown. */
  onChoose?: () => void;
  chosen?: boolean;
}

/** A device to scale: its units from the first to the last, who sits there, and what is free, stranded or blocked. */
export const GpuPicture = memo(function GpuPicture({
  gpu,
  by,
  colours,
  handlers,
  onChoose,
  chosen = false,
}: Props) {
  const words = t.fleet.device;
  const name = `${gpu.index} · ${say(gpu.name)}`;
  return (
    <section
      className={classes.device}
      data-absent={!gpu.present || undefined}
      data-chosen={chosen || undefined}
      aria-label={words.picture(name, gpu.units_taken, gpu.units)}
      data-testid="device"
      data-gpu={gpu.label}
    >
      <div className={classes.head}>
        {onChoose ? (
          <button
            type="button"
            className={classes.name}
            aria-pressed={chosen}
            title={words.history}
            onClick={onChoose}
          >
            {name}
          </button>
        ) : (
          <span className={classes.name}>{name}</span>
        )}
        <span className={classes.menu}>
          <GpuMenu gpu={gpu} />
        </span>
      </div>
      <div className={classes.badges}>
        <Badges gpu={gpu} />
        <Figures gpu={gpu} />
      </div>
      <ol className={classes.units} style={{ "--units": gpu.units } as CSSProperties}>
        {boxesOf(gpu).map((box) => (
          <li
            key={box.key}
            className={classes.cell}
            style={placeOf(box)}
            data-kind={box.segment.kind}
            data-testid={`segment-${box.segment.kind}`}
          >
            <BoxView
              box={box}
              gpu={gpu}
              colour={box.seat && colours.get(keyOf(box.seat, by))}
              handlers={handlers({ gpu: gpu.id, start: box.segment.start, replica: box.seat?.replica })}
            />
          </li>
        ))}
      </ol>
      <MemoryBar gpu={gpu} />
    </section>
  );
});

/** Boxes of one slice share its units: the first stands where it begins, each has its part of the width. */
function placeOf({ segment, seat, share }: Box): CSSProperties {
  const before = segment.seats
    .slice(
      0,
      Math.max(
        0,
        segment.seats.findIndex((one) => one.replica === seat?.replica),
      ),
    )
    .reduce((sum, one) => sum + one.memory_bytes, 0);
  const all = segment.seats.reduce((sum, one) => sum + one.memory_bytes, 0);
  return {
    "--from": segment.start + (all ? (segment.size * before) / all : 0),
    "--span": segment.size * share,
  } as CSSProperties;
}

function Badges({ gpu }: { gpu: MapGpu }) {
  const unable = Object.entries(gpu.unable);
  return (
    <>
      {!gpu.present && <StatePill state="lost" label={t.fleet.device.absent} />}
      <span className={classes.cut} data-cut={gpu.cut || "empty"} title={gpu.board || undefined}>
        {t.fleet.cuts[gpu.cut]}
      </span>
      {gpu.board && gpu.present && <HealthPill gpu={gpu} />}
      {gpu.simulated && <Simulated />}
      {unable.length > 0 && (
        <Hint
          text={unable
            .map(([kind, why]) => t.fleet.device.unable(t.fleet.cuts[kind as "mig"] ?? kind, say(why)))
            .join("\n")}
        />
      )}
    </>
  );
}

function Figures({ gpu }: { gpu: MapGpu }) {
  const words = t.fleet.device;
  return (
    <span className={`${classes.figures} num`}>
      {gpu.utilisation === null ? (
        <span title={words.unmeasuredUse}>{words.notMeasured}</span>
      ) : (
        <span title={words.utilisation}>{percent(gpu.utilisation)}</span>
      )}
      {gpu.temperature_c !== null && <span title={words.temperature}>{integer(gpu.temperature_c)} °C</span>}
      {gpu.power_w !== null && <span title={words.power}>{integer(gpu.power_w)} W</span>}
    </span>
  );
}

/** The second line of a box: the slice; of a device that is not cut, whose it is. */
function lineOf(gpu: MapGpu, segment: MapSegment, seat: MapSeat): string {
  if (gpu.cut === "whole") return t.fleet.cuts.whole;
  return gpu.board ? segment.profile : seat.tenant_name;
}

interface BoxProps {
  box: Box;
  gpu: MapGpu;
  colour: number | undefined;
  handlers: BoxHandlers;
}

function BoxView({ box: { segment, seat }, gpu, colour, handlers }: BoxProps) {
  const words = t.fleet.device;
  const units = words.unitsOf(segment.start, segment.start + segment.size - 1);
  if (seat) {
    const state = (t.states as Record<string, string>)[seat.state] ?? seat.state;
    return (
      <button
        type="button"
        className={classes.seat}
        data-colour={colour ?? 0}
        data-state={seat.state}
        data-burst={seat.burst || undefined}
        {...handlers}
      >
        <VisuallyHidden>
          {words.seat(seat.deployment_name, seat.tenant_name, segment.profile, units, state)}
        </VisuallyHidden>
        <span className={classes.seatName} aria-hidden="true">
          {seat.deployment_name}
        </span>
        <span className={`${classes.seatMore} num`} aria-hidden="true">
          {lineOf(gpu, segment, seat)}
        </span>
      </button>
    );
  }
  const kind = segment.kind === "slice" ? "empty" : segment.kind;
  const label = words.boxes[kind](units, segment.profile);
  if (kind === "free")
    return (
      <span className={classes.free} title={label}>
        <span className={classes.hush}>{words.free}</span>
      </span>
    );
  return (
    <button type="button" className={classes[kind]} {...handlers}>
      <VisuallyHidden>{label}</VisuallyHidden>
      {kind === "blocked" && <IconLock size={13} stroke={1.8} aria-hidden="true" />}
      <span className={classes.hush} aria-hidden="true">
        {kind === "stranded" ? words.stranded : segment.profile}
      </span>
    </button>
  );
}
