import { Link } from "@tanstack/react-router";
import type { Device, Node, Seat } from "../../api/fleet";
import cell from "../../components/Cell.module.css";
import type { Column } from "../../components/DataTable";
import { StatePill } from "../../components/StatePill";
import { TimeAgo } from "../../components/TimeAgo";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { bytes, integer, NONE, percent } from "../../lib/format";
import { memoryOf } from "./layout";

export type DeviceRow = Device & { node: Node };
export type SeatRow = Seat & { node: Node; device: Device };

const words = t.fleet.columns;

export function deviceRows(nodes: Node[]): DeviceRow[] {
  return nodes.flatMap((node) => node.devices.map((device) => ({ ...device, node })));
}

export function seatRows(nodes: Node[]): SeatRow[] {
  return deviceRows(nodes).flatMap((device) =>
    device.seats.map((seat) => ({ ...seat, node: device.node, device })),
  );
}

function DeviceLink({ node, device }: { node: Node; device: Device }) {
  const { current } = useScope();
  return (
    <div className={cell.two}>
      <Link
        className={cell.link}
        to="/t/$scope/fleet/$id"
        params={{ scope: current?.slug ?? "", id: node.id }}
        search={{ device: device.id }}
      >
        {device.index} · {device.name}
      </Link>
      <span className={cell.sub}>{node.name}</span>
    </div>
  );
}

function SeatLink({ seat }: { seat: Seat }) {
  const { current, all } = useScope();
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
      <span className={cell.sub}>{all.find((one) => one.tenant === seat.tenant)?.name ?? seat.tenant}</span>
    </div>
  );
}

export const DEVICE_COLUMNS: Column<DeviceRow>[] = [
  {
    id: "device",
    accessorFn: (d) => `${d.node.name} ${d.index}`,
    header: words.device,
    sortFn: "text",
    cell: ({ row: { original: d } }) => <DeviceLink node={d.node} device={d} />,
  },
  {
    id: "units",
    accessorFn: (d) => d.units - d.units_free,
    header: words.units,
    sortFn: "basic",
    meta: { end: true },
    cell: ({ row: { original: d } }) => (
      <>
        {integer(d.units - d.units_free)} <span className="muted">/ {integer(d.units)}</span>
      </>
    ),
  },
  {
    id: "memory",
    accessorFn: (d) => d.memory_used_bytes,
    header: words.memory,
    sortFn: "basic",
    meta: { end: true, hide: "phone" },
    cell: ({ row: { original: d } }) => (
      <>
        {bytes(d.memory_used_bytes)} / {bytes(memoryOf(d).promised)}{" "}
        <span className="muted">/ {bytes(d.memory_bytes)}</span>
      </>
    ),
  },
  {
    id: "utilisation",
    accessorFn: (d) => d.utilisation,
    header: words.utilisation,
    sortFn: "basic",
    meta: { end: true },
    cell: ({ row: { original: d } }) =>
      d.present ? percent(d.utilisation) : <StatePill state="lost" label={t.fleet.device.absent} />,
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
    accessorFn: (d) => d.seats.length,
    header: words.seats,
    sortFn: "basic",
    meta: { end: true, hide: "phone" },
    cell: ({ row }) => integer(row.original.seats.length),
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
    accessorFn: (s) => `${s.node.name} ${s.device.index}`,
    header: words.device,
    sortFn: "text",
    cell: ({ row: { original: s } }) => <DeviceLink node={s.node} device={s.device} />,
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
    id: "slice",
    accessorFn: (s) => s.units[0] ?? 0,
    header: words.slice,
    sortFn: "basic",
    meta: { hide: "phone" },
    cell: ({ row: { original: s } }) =>
      s.units.length === 0 ? NONE : t.fleet.device.unitsOf(s.units[0] ?? 0, s.units.at(-1) ?? 0),
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
    accessorFn: (s) => s.created_at,
    header: words.since,
    sortFn: "basic",
    meta: { hide: "tablet" },
    cell: ({ row }) => <TimeAgo at={row.original.created_at} />,
  },
];
