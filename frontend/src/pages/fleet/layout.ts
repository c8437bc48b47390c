import type { Device, Node, Seat } from "../../api/fleet";

/** Units next to each other with one owner, drawn as one block. `to` is the last unit. */
export interface Block {
  from: number;
  to: number;
  /** Those who share the slice; none where it is free. */
  seats: Seat[];
}

type Units = Pick<Device, "units"> & { seats: Seat[] };

/** Who owns each unit, in order, merged to runs. Seats of one slice share its units. */
export function blocksOf(device: Units): Block[] {
  const owners: Seat[][] = Array.from({ length: device.units }, () => []);
  for (const seat of device.seats) for (const unit of seat.units) owners[unit]?.push(seat);
  const blocks: Block[] = [];
  owners.forEach((seats, unit) => {
    const last = blocks.at(-1);
    if (last && sameSeats(last.seats, seats)) last.to = unit;
    else blocks.push({ from: unit, to: unit, seats });
  });
  return blocks;
}

function sameSeats(a: Seat[], b: Seat[]): boolean {
  return a.length === b.length && a.every((seat, i) => seat.id === b[i]?.id);
}

export interface Memory {
  total: number;
  promised: number;
  used: number;
}

export function memoryOf(
  device: Pick<Device, "memory_bytes" | "memory_used_bytes"> & { seats: Seat[] },
): Memory {
  const promised = device.seats.reduce((sum, seat) => sum + seat.memory_bytes, 0);
  return { total: device.memory_bytes, promised, used: device.memory_used_bytes };
}

export interface Totals extends Memory {
  nodes: number;
  connected: number;
  devices: number;
  units: number;
  unitsFree: number;
  seats: number;
}

/** The whole fleet. A device that is gone holds no memory that anyone could use. */
export function totalsOf(nodes: Node[]): Totals {
  const sum: Totals = {
    nodes: nodes.length,
    connected: nodes.filter((node) => node.online).length,
    devices: 0,
    units: 0,
    unitsFree: 0,
    seats: 0,
    total: 0,
    promised: 0,
    used: 0,
  };
  for (const device of nodes.flatMap((node) => node.devices)) {
    if (!device.present) continue;
    const memory = memoryOf(device);
    sum.devices += 1;
    sum.units += device.units;
    sum.unitsFree += device.units_free;
    sum.seats += device.seats.length;
    sum.total += memory.total;
    sum.promised += memory.promised;
    sum.used += memory.used;
  }
  return sum;
}

export interface Move {
  seat: Seat;
  /** Where there is room for it now; null: it waits until there is. */
  to: { node: string; device: Device } | null;
}

/**
 * What leaves a node that is drained, and where each would find room now: largest first, first device that has
 * enough whole units left. The scheduler decides when the time comes; this says whether there is room at all.
 */
export function movesOf(leaving: Node, nodes: Node[]): Move[] {
  const room = nodes
    .filter((node) => node.id !== leaving.id && node.online && !node.cordoned)
    .flatMap((node) =>
      node.devices
        .filter((device) => device.present)
        .map((device) => ({ node: node.name, device, free: device.units_free })),
    );
  const seats = leaving.devices
    .flatMap((device) => device.seats)
    .sort((a, b) => b.memory_bytes - a.memory_bytes || a.id.localeCompare(b.id));
  return seats.map((seat) => {
    const place = room.find((one) => unitsFor(seat.memory_bytes, one.device) <= one.free);
    if (!place) return { seat, to: null };
    place.free -= unitsFor(seat.memory_bytes, place.device);
    return { seat, to: { node: place.node, device: place.device } };
  });
}

/** Whole units, of equal memory. */
function unitsFor(bytes: number, device: Pick<Device, "units" | "memory_bytes">): number {
  return Math.max(1, Math.ceil((bytes * device.units) / device.memory_bytes));
}

export type ColourBy = "deployment" | "tenant";
export const COLOURS = 8;

export function keyOf(seat: Seat, by: ColourBy): string {
  return by === "tenant" ? seat.tenant : seat.deployment;
}

/** One colour a tenant or deployment, the same on every device of the page. */
export function coloursOf(nodes: Node[], by: ColourBy): Map<string, number> {
  const keys = nodes.flatMap((node) => node.devices.flatMap((d) => d.seats.map((seat) => keyOf(seat, by))));
  return new Map([...new Set(keys)].sort().map((key, i) => [key, i % COLOURS]));
}
