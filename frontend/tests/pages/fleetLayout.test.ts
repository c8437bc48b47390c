import { describe, expect, it } from "vitest";
import type { Device, Node, Seat } from "../../src/api/fleet";
import { byName, filterNodes } from "../../src/pages/fleet/fleetFilter";
import { joinCommand } from "../../src/pages/fleet/joinCommand";
import { blocksOf, coloursOf, movesOf, totalsOf } from "../../src/pages/fleet/layout";
import { nodeState } from "../../src/pages/fleet/nodeState";

const GIB = 2 ** 30;

function seat(id: string, units: number[], gib: number, more: Partial<Seat> = {}): Seat {
  return {
    id,
    replica: `rep_${id}`,
    deployment: `dep_${id}`,
    deployment_name: id,
    tenant: "ten_a",
    state: "ready",
    memory_bytes: gib * GIB,
    memory_used_bytes: 0,
    sm_percent: 100,
    units,
    created_at: "2026-01-01T00:00:00Z",
    ...more,
  };
}

function device(id: string, seats: Seat[], more: Partial<Device> = {}): Device {
  const taken = new Set(seats.flatMap((one) => one.units)).size;
  return {
    id,
    node: { id: "nod", name: "n" },
    index: 0,
    uuid: id,
    name: "A100",
    kind: "gpu",
    memory_bytes: 40 * GIB,
    memory_used_bytes: 3 * GIB,
    promised_bytes: 0,
    utilisation: 0,
    temperature_c: null,
    power_w: null,
    present: true,
    units: 8,
    units_free: 8 - taken,
    seats,
    ...more,
  };
}

function node(name: string, devices: Device[], more: Partial<Node> = {}): Node {
  return {
    id: `nod_${name}`,
    name,
    provider: "nvml",
    address: "",
    agent_version: "",
    cpu_count: 1,
    memory_bytes: 0,
    cordoned: false,
    drain: null,
    online: true,
    generation: 1,
    observed_generation: 1,
    connected_at: "2026-01-01T00:00:00Z",
    last_seen_at: "2026-01-01T00:00:00Z",
    created_at: "2026-01-01T00:00:00Z",
    devices,
    ...more,
  };
}

describe("blocksOf", () => {
  it("merges neighbouring units of one seat and keeps what is apart apart", () => {
    const split = seat("a", [0, 1, 5], 1);
    const blocks = blocksOf(device("d", [split]));
    expect(blocks.map((b) => [b.from, b.to, b.seats.map((s) => s.id)])).toEqual([
      [0, 1, ["a"]],
      [2, 4, []],
      [5, 5, ["a"]],
      [6, 7, []],
    ]);
  });

  it("puts seats that share a slice into one block", () => {
    const blocks = blocksOf(device("d", [seat("a", [0, 1], 1), seat("b", [0, 1], 1), seat("c", [2], 1)]));
    expect(blocks.map((b) => b.seats.map((s) => s.id))).toEqual([["a", "b"], ["c"], []]);
  });

  it("ignores a unit that the device does not have", () => {
    expect(blocksOf(device("d", [seat("a", [9], 1)]))).toEqual([{ from: 0, to: 7, seats: [] }]);
  });
});

describe("totalsOf", () => {
  it("adds up devices that are present", () => {
    const nodes = [
      node("a", [device("1", [seat("x", [0], 2)]), device("2", [], { present: false })]),
      node("b", [device("3", [seat("y", [0, 1], 7)])], { online: false }),
    ];
    expect(totalsOf(nodes)).toEqual({
      nodes: 2,
      connected: 1,
      devices: 2,
      units: 16,
      unitsFree: 13,
      seats: 2,
      total: 80 * GIB,
      promised: 9 * GIB,
      used: 6 * GIB,
    });
  });
});

describe("movesOf", () => {
  const leaving = node("a", [device("1", [seat("small", [0], 4), seat("large", [1, 2, 3], 14)])]);

  it("places the largest first, in whole units", () => {
    // 14 GiB are 3 units of 5 GiB, 4 GiB are 1: exactly the 4 that are free.
    const other = node("b", [device("2", [seat("z", [0, 1, 2, 3], 20)])]);
    const moves = movesOf(leaving, [leaving, other]);
    expect(moves.map((m) => [m.seat.id, m.to?.node])).toEqual([
      ["large", "b"],
      ["small", "b"],
    ]);
  });

  it("says which has no room", () => {
    const other = node("b", [device("2", [seat("z", [0, 1, 2, 3, 4, 5], 30)])]);
    expect(movesOf(leaving, [leaving, other]).map((m) => [m.seat.id, m.to?.node])).toEqual([
      ["large", undefined],
      ["small", "b"],
    ]);
  });

  it("moves nothing to a node that is cordoned, silent or without its device", () => {
    const others = [
      node("b", [device("2", [])], { cordoned: true }),
      node("c", [device("3", [])], { online: false }),
      node("d", [device("4", [], { present: false })]),
    ];
    expect(movesOf(leaving, [leaving, ...others]).every((m) => m.to === null)).toBe(true);
  });
});

describe("nodes", () => {
  it("is awaited before it joined, and silent only after", () => {
    expect(nodeState(node("a", [], { last_seen_at: null, online: false, cordoned: true }))).toBe("waiting");
    expect(nodeState(node("a", [], { online: false }))).toBe("silent");
    expect(nodeState(node("a", [], { cordoned: true }))).toBe("cordoned");
    expect(nodeState(node("a", []))).toBe("connected");
  });

  it("tells a drain under way from one that is done", () => {
    const drain = { state: "blocked", total: 2, left: 1, moves: [] } as unknown as NonNullable<Node["drain"]>;
    expect(nodeState(node("a", [], { cordoned: true, drain }))).toBe("draining");
    expect(nodeState(node("a", [], { cordoned: true, drain: { ...drain, state: "done" } }))).toBe("drained");
  });

  it("are found by device and deployment, and sorted as people count", () => {
    const nodes = [
      node("gpu-10", [device("1", [seat("chat-model", [0], 1)])]),
      node("gpu-2", []),
      node("a-new-one", [], { last_seen_at: null }),
    ];
    expect(filterNodes(nodes, "CHAT", undefined).map((n) => n.name)).toEqual(["gpu-10"]);
    expect(filterNodes(nodes, "", "waiting").map((n) => n.name)).toEqual(["a-new-one"]);
    expect(byName(nodes).map((n) => n.name)).toEqual(["gpu-2", "gpu-10", "a-new-one"]);
  });

  it("give each deployment one colour on every device", () => {
    const nodes = [
      node("a", [device("1", [seat("x", [0], 1)])]),
      node("b", [device("2", [seat("x", [0], 1), seat("y", [1], 1)])]),
    ];
    expect([...coloursOf(nodes, "deployment")]).toEqual([
      ["dep_x", 0],
      ["dep_y", 1],
    ]);
    expect([...coloursOf(nodes, "tenant")]).toEqual([["ten_a", 0]]);
  });
});

it("joins over a websocket, with the token in a file", () => {
  const line = joinCommand("gpu-1", "secret", "https://berth.example.com");
  expect(line).toContain("--join wss://berth.example.com --name gpu-1");
  expect(line.match(/secret/g)).toHaveLength(1);
});
