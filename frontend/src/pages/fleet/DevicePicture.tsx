import { Tooltip } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { CSSProperties } from "react";
import type { Device, Seat } from "../../api/fleet";
import { StatePill } from "../../components/StatePill";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { bytes, integer, percent } from "../../lib/format";
import classes from "./DevicePicture.module.css";
import { blocksOf, type ColourBy, keyOf, type Memory, memoryOf } from "./layout";

interface Props {
  device: Device;
  by: ColourBy;
  colours: Map<string, number>;
  /** What its name does, where one of several devices is chosen. */
  onChoose?: () => void;
  chosen?: boolean;
}

/** More free units than this are drawn as one. */
const DRAWN_FREE = 16;

/** One device as it is divided: each run of units, who sits on it, and memory used against promised. */
export function DevicePicture({ device, by, colours, onChoose, chosen = false }: Props) {
  const words = t.fleet.device;
  const taken = device.units - device.units_free;
  return (
    <section
      className={classes.device}
      data-absent={!device.present || undefined}
      data-chosen={chosen || undefined}
      aria-label={words.picture(`${device.index} · ${device.name}`, taken, device.units)}
      data-testid="device"
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
            {device.index} · {device.name}
          </button>
        ) : (
          <span className={classes.name}>
            {device.index} · {device.name}
          </span>
        )}
        {!device.present && <StatePill state="lost" label={words.absent} />}
        <Figures device={device} />
      </div>
      <div className={classes.units}>
        {blocksOf(device).map((block) => (
          <div
            key={block.from}
            className={classes.block}
            style={{ "--span": block.to - block.from + 1 } as CSSProperties}
          >
            {block.seats.map((seat) => (
              <SeatBlock
                key={seat.id}
                seat={seat}
                units={words.unitsOf(block.from, block.to)}
                colour={colours.get(keyOf(seat, by)) ?? 0}
              />
            ))}
            {block.seats.length === 0 && <Free units={block.to - block.from + 1} first={block.from} />}
          </div>
        ))}
      </div>
      <MemoryBar memory={memoryOf(device)} />
    </section>
  );
}

function Free({ units, first }: { units: number; first: number }) {
  const cells = units > DRAWN_FREE ? 1 : units;
  return Array.from({ length: cells }, (_, i) => (
    <div key={first + i} className={classes.free} title={t.fleet.device.free} />
  ));
}

function Figures({ device }: { device: Device }) {
  const words = t.fleet.device;
  return (
    <span className={`${classes.figures} num`}>
      <span title={words.utilisation}>{percent(device.utilisation)}</span>
      {device.temperature_c !== null && (
        <span title={words.temperature}>{integer(device.temperature_c)} °C</span>
      )}
      {device.power_w !== null && <span title={words.power}>{integer(device.power_w)} W</span>}
    </span>
  );
}

function SeatBlock({ seat, units, colour }: { seat: Seat; units: string; colour: number }) {
  const { all, current } = useScope();
  const tenant = all.find((scope) => scope.tenant === seat.tenant)?.name ?? seat.tenant;
  const label = `${seat.deployment_name} · ${tenant} · ${bytes(seat.memory_bytes)} · ${units}`;
  return (
    <Tooltip label={label}>
      <Link
        to="/t/$scope/deployments/$id"
        params={{ scope: current?.slug ?? "", id: seat.deployment }}
        search={{ tab: "replicas" }}
        className={classes.seat}
        data-colour={colour}
        style={{ "--share": seat.memory_bytes } as CSSProperties}
      >
        <span className={classes.seatName}>{seat.deployment_name}</span>
        <span className={`${classes.seatMore} num`}>
          {tenant} · {bytes(seat.memory_bytes)}
        </span>
      </Link>
    </Tooltip>
  );
}

export function MemoryBar({ memory }: { memory: Memory }) {
  const words = t.fleet.device;
  const { used, promised, total } = memory;
  const width = (part: number) => `${Math.min(100, (100 * part) / Math.max(1, total))}%`;
  return (
    <>
      <div
        className={classes.memory}
        role="img"
        aria-label={words.memoryLabel(bytes(used), bytes(promised), bytes(total))}
      >
        <div className={classes.promised} style={{ width: width(promised) }} />
        <div
          className={classes.used}
          data-over={used > promised || undefined}
          style={{ width: width(used) }}
        />
      </div>
      <div className={`${classes.legend} num`} aria-hidden="true">
        <span>
          <i data-kind="used" />
          {words.used(bytes(used))}
        </span>
        <span>
          <i data-kind="promised" />
          {words.promised(bytes(promised))}
        </span>
        <span>{words.of(bytes(total))}</span>
      </div>
    </>
  );
}
