import type { MapGpu, MapSeat, MapSegment } from "../../api/fleet";

/** One box of a device's strip: a segment, or what one of several seats has of it. */
export interface Box {
  key: string;
  segment: MapSegment;
  seat: MapSeat | undefined;
  /** Of its segment, by memory. */
  share: number;
}

/** From the first unit to the last. Seats that share a slice stand side by side in it. */
export function boxesOf(gpu: Pick<MapGpu, "segments">): Box[] {
  return gpu.segments.flatMap((segment): Box[] => {
    const at = `${segment.start} ${segment.profile}`;
    if (segment.seats.length === 0) return [{ key: at, segment, seat: undefined, share: 1 }];
    const all = segment.seats.reduce((sum, seat) => sum + seat.memory_bytes, 0);
    return segment.seats.map((seat) => ({
      key: `${at} ${seat.replica}`,
      segment,
      seat,
      share: all ? seat.memory_bytes / all : 1 / segment.seats.length,
    }));
  });
}

/** What is beside anyone's memory on an idle GPU: its driver's, and what a process costs there. */
const BASELINE = 0.03;

/** More is used than was promised. A CPU's memory is the whole machine's, so that says nothing there. */
export function isOver(
  gpu: Pick<MapGpu, "device" | "memory_bytes" | "memory_used_bytes" | "promised_bytes">,
): boolean {
  return gpu.device !== "cpu" && gpu.memory_used_bytes > gpu.promised_bytes + BASELINE * gpu.memory_bytes;
}

/** The devices of each node, in their order. */
export function byNode(gpus: MapGpu[]): Map<string, MapGpu[]> {
  const found = new Map<string, MapGpu[]>();
  for (const gpu of gpus) {
    const here = found.get(gpu.node.id);
    if (here) here.push(gpu);
    else found.set(gpu.node.id, [gpu]);
  }
  return found;
}

export const seatsOf = (gpu: Pick<MapGpu, "segments">): MapSeat[] =>
  gpu.segments.flatMap((segment) => segment.seats);

export interface Move {
  seat: MapSeat;
  /** Where there is room for it now; null: it waits until there is. */
  to: MapGpu | null;
}

interface Room {
  gpu: MapGpu;
  /** Of a GPU that is cut, what lies next to each other; else all that is free, together. */
  free: number[];
  cut: MapGpu["cut"];
}

/**
 * What leaves a node that is drained, and where each would find room now: largest first, first device that has
 * enough units left. The scheduler decides when the time comes; this says whether there is room at all.
 */
export function movesOf(leaving: string, gpus: MapGpu[]): Move[] {
  const room: Room[] = gpus
    .filter((gpu) => gpu.node.id !== leaving && gpu.takes_new)
    .map((gpu) => ({ gpu, cut: gpu.cut, free: freeOf(gpu) }));
  const seats = gpus
    .filter((gpu) => gpu.node.id === leaving)
    .flatMap((gpu) => seatsOf(gpu).map((seat) => ({ seat, cut: gpu.cut })))
    .sort(
      (a, b) => b.seat.memory_bytes - a.seat.memory_bytes || a.seat.replica.localeCompare(b.seat.replica),
    );
  return seats.map(({ seat, cut }) => ({ seat, to: take(seat, cut, room) }));
}

function freeOf(gpu: MapGpu): number[] {
  const runs = gpu.segments.filter((segment) => segment.kind === "free").map((segment) => segment.size);
  return gpu.board ? runs : [gpu.units_free];
}

/** Uses up what it takes. A GPU is one kind of cut at a time; an empty one can become any. */
function take(seat: MapSeat, cut: MapGpu["cut"], room: Room[]): MapGpu | null {
  for (const place of room) {
    if (place.gpu.board && place.cut !== "" && (place.cut !== cut || cut === "whole")) continue;
    const needed =
      cut === "whole" && place.gpu.board ? place.gpu.units : unitsFor(seat.memory_bytes, place.gpu);
    const at = place.free.findIndex((size) => size >= needed);
    if (at < 0) continue;
    place.free[at] = (place.free[at] ?? 0) - needed;
    if (place.gpu.board) place.cut = cut;
    return place.gpu;
  }
  return null;
}

/** Whole units, of equal memory. */
function unitsFor(bytes: number, device: Pick<MapGpu, "units" | "memory_bytes">): number {
  return Math.max(1, Math.ceil((bytes * device.units) / device.memory_bytes));
}

export type ColourBy = "deployment" | "tenant";
export const COLOURS = 8;

export function keyOf(seat: Pick<MapSeat, "tenant" | "deployment">, by: ColourBy): string {
  return by === "tenant" ? seat.tenant : seat.deployment;
}

/** One colour a tenant or deployment, the same on every device of the page. */
export function coloursOf(gpus: Pick<MapGpu, "segments">[], by: ColourBy): Map<string, number> {
  const keys = gpus.flatMap((gpu) => seatsOf(gpu).map((seat) => keyOf(seat, by)));
  return new Map([...new Set(keys)].sort().map((key, i) => [key, i % COLOURS]));
}
