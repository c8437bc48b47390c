import { Link } from "@tanstack/react-router";
import type { MapGpu, MapSeat, MapSegment } from "../../api/fleet";
import cell from "../../components/Cell.module.css";
import type { Column } from "../../components/DataTable";
import { StatePill } from "../../components/StatePill";
import { TimeAgo } from "../../components/TimeAgo";
import { useScope } from "../../hooks/useScope";
import { say, t } from "../../i18n";
import { bytes, integer, NONE, percent } from "../../lib/format";
import { HealthPill } from "./HealthPill";
import { seatsOf } from "./layout";
import { Simulated } from "./Simulated";

export type SeatRow = MapSeat & { gpu: MapGpu; segment: MapSegment };

const words = t.fleet.columns;

export function seatRows(gpus: MapGpu[]): SeatRow[] {
  return gpus.flatMap((gpu) =>
    gpu.segments.flatMap((segment) => segment.seats.map((seat) => ({ ...seat, gpu, segment }))),
  );
}

function GpuLink({ gpu }: { gpu: MapGpu }) {
  const { current } = useScope();
  return (
    <div className={cell.two}>
      <Link
        className={cell.link}
        to="/t/$scope/fleet/$id"
        params={{ scope: current?.slug ?? "", id: gpu.node.id }}
        search={{ device: gpu.id }}
      >
        {gpu.index} · {say(gpu.name)}
      </Link>
      <span className={cell.sub}>
        {gpu.node.name} {gpu.simulated && <Simulated short />}
      </span>
    </div>
  );
}

function SeatLink({ seat }: { seat: MapSeat }) {
  const { current } = useScope();
  return (
    <div className={cell.two}>
      <Link
        className={cell.link}
        to="/t/$scope/deployments/$id"
        params={{ scope: current?.slug ?? "", id: seat.deployment }}
        search={{ tab: "replicas" }}
      >
        {seat.deployment_name}
      </Link>
      <span className={cell.sub}>{seat.tenant_name}</span>
    </div>
  );
}

export const GPU_COLUMNS: Column<MapGpu>[] = [
  {
    id: "device",
    accessorFn: (d) => `${d.node.name} ${d.index}`,
    header: words.device,
    sortFn: "text",
    cell: ({ row }) => <GpuLink gpu={row.original} />,
  },
  {
    id: "cut",
    accessorFn: (d) => d.cut,
    header: words.cut,
    sortFn: "text",
    meta: { hide: "phone" },
    cell: ({ row }) => t.fleet.cuts[row.original.cut],
  },
  {
    id: "health",
    accessorFn: (d) => d.health,
    header: words.health,
    sortFn: "text",
    cell: ({ row: { original: d } }) =>
      d.present ? (
        d.board ? (
          <HealthPill gpu={d} />
        ) : (
          NONE
        )
      ) : (
        <StatePill state="lost" label={t.fleet.device.absent} />
      ),
  },
  {
    id: "units",
    accessorFn: (d) => d.units_taken,
    header: words.units,
    sortFn: "basic",
    meta: { end: true },
    cell: ({ row: { original: d } }) => (
      <>
        {integer(d.units_taken)} <span className="muted">/ {integer(d.units)}</span>
      </>
    ),
  },
  {
    id: "stranded",
    accessorFn: (d) => d.units_stranded,
    header: words.stranded,
    sortFn: "basic",
    meta: { end: true, hide: "tablet" },
    cell: ({ row }) => integer(row.original.units_stranded),
  },
  {
    id: "fragmentation",
    accessorFn: (d) => d.fragmentation ?? -1,
    header: words.fragmentation,
    sortFn: "basic",
    meta: { end: true, hide: "tablet" },
    cell: ({ row }) => percent(row.original.fragmentation),
  },
  {
    id: "memory",
    accessorFn: (d) => d.memory_used_bytes,
    header: words.memory,
    sortFn: "basic",
    meta: { end: true, hide: "phone" },
    cell: ({ row: { original: d } }) => (
      <>
        {bytes(d.memory_used_bytes)} / {bytes(d.promised_bytes)}{" "}
        <span className="muted">/ {bytes(d.memory_measured_bytes)}</span>
      </>
    ),
  },
  {
    id: "utilisation",
    accessorFn: (d) => d.utilisation ?? -1,
    header: words.utilisation,
    sortFn: "basic",
    meta: { end: true, hide: "phone" },
    cell: ({ row: { original: d } }) =>
      d.utilisation === null ? <span className="muted">{words.unmeasured}</span> : percent(d.utilisation),
  },
  {
    id: "temperature",
    accessorFn: (d) => d.temperature_c ?? -1,
    header: words.temperature,
    sortFn: "basic",
    meta: { end: true, hide: "tablet" },
    cell: ({ row: { original: d } }) => (d.temperature_c === null ? NONE : `${integer(d.temperature_c)} °C`),
  },
  {
    id: "power",
    accessorFn: (d) => d.power_w ?? -1,
    header: words.power,
    sortFn: "basic",
    meta: { end: true, hide: "tablet" },
    cell: ({ row: { original: d } }) => (d.power_w === null ? NONE : `${integer(d.power_w)} W`),
  },
  {
    id: "seats",
    accessorFn: (d) => seatsOf(d).length,
    header: words.seats,
    sortFn: "basic",
    meta: { end: true, hide: "tablet" },
    cell: ({ row }) => integer(seatsOf(row.original).length),
  },
];

export const SEAT_COLUMNS: Column<SeatRow>[] = [
  {
    id: "deployment",
    accessorFn: (s) => s.deployment_name,
    header: words.deployment,
    sortFn: "text",
    cell: ({ row }) => <SeatLink seat={row.original} />,
  },
  {
    id: "device",
    accessorFn: (s) => `${s.gpu.node.name} ${s.gpu.index}`,
    header: words.device,
    sortFn: "text",
    cell: ({ row }) => <GpuLink gpu={row.original.gpu} />,
  },
  {
    id: "state",
    accessorFn: (s) => s.state,
    header: words.state,
    sortFn: "text",
    meta: { hide: "tablet" },
    cell: ({ row }) => <StatePill state={row.original.state} />,
  },
  {
    id: "slice",
    accessorFn: (s) => s.segment.profile,
    header: words.slice,
    sortFn: "text",
    meta: { hide: "phone" },
    cell: ({ row: { original: s } }) => {
      const units = t.fleet.device.unitsOf(s.segment.start, s.segment.start + s.segment.size - 1);
      return s.gpu.board ? `${s.segment.profile} · ${units}` : units;
    },
  },
  {
    id: "class",
    accessorFn: (s) => s.service_class,
    header: words.class,
    sortFn: "text",
    meta: { hide: "tablet" },
    cell: ({ row }) => row.original.service_class,
  },
  {
    id: "replica",
    accessorFn: (s) => s.replica,
    header: words.replica,
    sortFn: "text",
    meta: { hide: "tablet" },
    cell: ({ row }) => <span className="mono muted">{row.original.replica}</span>,
  },
  {
    id: "promised",
    accessorFn: (s) => s.memory_bytes,
    header: words.promised,
    sortFn: "basic",
    meta: { end: true, hide: "phone" },
    cell: ({ row }) => bytes(row.original.memory_bytes),
  },
  {
    id: "since",
    accessorFn: (s) => s.since,
    header: words.since,
    sortFn: "basic",
    meta: { hide: "tablet" },
    cell: ({ row }) => <TimeAgo at={row.original.since} />,
  },
];
