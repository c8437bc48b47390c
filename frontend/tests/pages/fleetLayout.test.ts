import { describe, expect, it } from "vitest";
import type { MapGpu, MapSeat, MapSegment, Node } from "../../src/api/fleet";
import { seatRows } from "../../src/pages/fleet/fleetColumns";
import { byName, filterNodes } from "../../src/pages/fleet/fleetFilter";
import { joinCommand } from "../../src/pages/fleet/joinCommand";
import { boxesOf, byNode, coloursOf, isOver, movesOf, seatsOf } from "../../src/pages/fleet/layout";
import { nodeState } from "../../src/pages/fleet/nodeState";

const GIB = 2 ** 30;

function seat(name: string, gib: number, more: Partial<MapSeat> = {}): MapSeat {
  return {
    replica: `rep_${name}`,
    deployment: `dep_${name}`,
    deployment_name: name,
    service_class: "chat",
    tenant: "ten_a",
    tenant_name: "A",
    state: "ready",
    burst: false,
    why: "",
    decision: "",
    memory_bytes: gib * GIB,
    memory_used_bytes: 0,
    since: "2026-01-01T00:00:00Z",
    ...more,
  };
}

function segment(
  kind: MapSegment["kind"],
  start: number,
  size: number,
  seats: MapSeat[] = [],
  profile = "",
): MapSegment {
  return { kind, start, size, profile, slice: "", state: "", reason: "", memory_bytes: 0, seats };
}

function gpu(id: string, node: string, segments: MapSegment[], more: Partial<MapGpu> = {}): MapGpu {
  const units = (kind: MapSegment["kind"]) =>
    segments.filter((one) => one.kind === kind).reduce((sum, one) => sum + one.size, 0);
  return {
    id,
    label: id,
    index: 0,
    name: "H100",
    node: { id: `nod_${node}`, name: node },
    device: "gpu",
    board: "h100-sxm-80gb",
    cut: "mig",
    can_be: ["mig"],
    unable: {},
    simulated: false,
    present: true,
    takes_new: true,
    health: "healthy",
    health_reason: "",
    health_since: null,
    units: 8,
    units_taken: units("slice"),
    units_free: units("free"),
    units_stranded: units("stranded"),
    units_blocked: units("blocked"),
    fragmentation: 0,
    segments,
    memory_bytes: 80 * GIB,
    promised_bytes: 0,
    memory_used_bytes: 0,
    memory_measured_bytes: 80 * GIB,
    utilisation: 0,
    temperature_c: null,
    power_w: null,
    ...more,
  };
}

function node(name: string, more: Partial<Node> = {}): Node {
  return {
    id: `nod_${name}`,
    name,
    provider: "nvml",
    address: "",
    agent_version: "",
    cpu_count: 1,
    memory_bytes: 0,
    fault_domain: "",
    cordoned: false,
    drain: null,
    online: true,
    generation: 1,
    observed_generation: 1,
    connected_at: "2026-01-01T00:00:00Z",
    last_seen_at: "2026-01-01T00:00:00Z",
    created_at: "2026-01-01T00:00:00Z",
    devices: [],
    ...more,
  };
}

describe("boxesOf", () => {
  it("draws each segment once, in order, whoever sits there", () => {
    const one = gpu("d", "n", [
      segment("free", 0, 2),
      segment("slice", 2, 2, [seat("a", 10)], "2g.20gb"),
      segment("stranded", 4, 1),
      segment("blocked", 5, 1, [], "1g.10gb"),
      segment("slice", 6, 2, [], "2g.20gb"),
    ]);
    expect(
      boxesOf(one).map((box) => [box.segment.kind, box.segment.start, box.seat?.deployment_name]),
    ).toEqual([
      ["free", 0, undefined],
      ["slice", 2, "a"],
      ["stranded", 4, undefined],
      ["blocked", 5, undefined],
      ["slice", 6, undefined],
    ]);
  });

  it("divides a slice among its seats by memory", () => {
    const boxes = boxesOf(gpu("d", "n", [segment("slice", 0, 4, [seat("a", 30), seat("b", 10)])]));
    expect(boxes.map((box) => [box.seat?.deployment_name, box.share])).toEqual([
      ["a", 0.75],
      ["b", 0.25],
    ]);
    const none = boxesOf(gpu("d", "n", [segment("slice", 0, 4, [seat("a", 0), seat("b", 0)])]));
    expect(none.map((box) => box.share)).toEqual([0.5, 0.5]);
  });

  it("has a key of its own for every box", () => {
    const segments = [segment("slice", 0, 4, [seat("a", 1), seat("b", 1)]), segment("free", 4, 4)];
    const keys = boxesOf(gpu("d", "n", segments)).map((box) => box.key);
    expect(new Set(keys).size).toBe(3);
  });
});

describe("isOver", () => {
  it("warns of more memory used than promised, beside what a driver takes", () => {
    const one = { device: "gpu", memory_bytes: 80 * GIB, promised_bytes: 10 * GIB };
    expect(isOver({ ...one, memory_used_bytes: 12 * GIB })).toBe(false);
    expect(isOver({ ...one, memory_used_bytes: 13 * GIB })).toBe(true);
  });

  it("says nothing of a CPU, whose memory is the machine's", () => {
    const cpu = {
      device: "cpu",
      memory_bytes: 8 * GIB,
      promised_bytes: 1 * GIB,
      memory_used_bytes: 30 * GIB,
    };
    expect(isOver(cpu)).toBe(false);
  });
});

describe("movesOf", () => {
  const leaving = gpu("1", "a", [
    segment("slice", 0, 1, [seat("small", 8)], "1g.10gb"),
    segment("free", 1, 3),
    segment("slice", 4, 4, [seat("large", 35)], "3g.40gb"),
  ]);
  const moved = (others: MapGpu[]) =>
    movesOf("nod_a", [leaving, ...others]).map((move) => [move.seat.deployment_name, move.to?.node.name]);

  it("places the largest first, in units that lie next to each other", () => {
    const other = gpu("2", "b", [segment("free", 0, 4), segment("slice", 4, 3), segment("free", 7, 1)]);
    expect(moved([other])).toEqual([
      ["large", "b"],
      ["small", "b"],
    ]);
  });

  it("finds no room where the free units lie apart, or are stranded", () => {
    const apart = gpu("2", "b", [segment("free", 0, 3), segment("slice", 3, 2), segment("free", 5, 3)]);
    expect(moved([apart])).toEqual([
      ["large", undefined],
      ["small", "b"],
    ]);
    expect(moved([gpu("2", "b", [segment("stranded", 0, 8)])]).every(([, to]) => to === undefined)).toBe(
      true,
    );
  });

  it("opens an empty GPU, and leaves one alone that is cut otherwise", () => {
    expect(moved([gpu("2", "b", [segment("free", 0, 8)], { cut: "" })])).toEqual([
      ["large", "b"],
      ["small", "b"],
    ]);
    expect(moved([gpu("2", "b", [segment("free", 0, 8)], { cut: "mps" })])[0]).toEqual(["large", undefined]);
  });

  it("takes the free units of a device without a table together", () => {
    const cpu = gpu("2", "b", [segment("free", 0, 2), segment("slice", 2, 4), segment("free", 6, 2)], {
      board: "",
      cut: "shares",
      memory_bytes: 80 * GIB,
    });
    expect(moved([cpu])[0]).toEqual(["large", "b"]);
  });

  it("moves nothing to what takes nothing new", () => {
    expect(moved([gpu("2", "b", [segment("free", 0, 8)], { takes_new: false })])).toEqual([
      ["large", undefined],
      ["small", undefined],
    ]);
  });
});

describe("nodes", () => {
  it("is awaited before it joined, and silent only after", () => {
    expect(nodeState(node("a", { last_seen_at: null, online: false, cordoned: true }))).toBe("waiting");
    expect(nodeState(node("a", { online: false }))).toBe("silent");
    expect(nodeState(node("a", { cordoned: true }))).toBe("cordoned");
    expect(nodeState(node("a"))).toBe("connected");
  });

  it("tells a drain under way from one that is done", () => {
    const drain = { state: "blocked", total: 2, left: 1, moves: [] } as unknown as NonNullable<Node["drain"]>;
    expect(nodeState(node("a", { cordoned: true, drain }))).toBe("draining");
    expect(nodeState(node("a", { cordoned: true, drain: { ...drain, state: "done" } }))).toBe("drained");
  });

  it("are found by device and deployment, and sorted as people count", () => {
    const nodes = [node("gpu-10"), node("gpu-2"), node("a-new-one", { last_seen_at: null })];
    const used = gpu("g", "gpu-10", [segment("slice", 0, 4, [seat("chat-model", 4)])], { name: "A100" });
    const onNode = byNode([{ ...used, node: { id: nodes[0]?.id ?? "", name: "gpu-10" } }]);
    const found = (q: string, state?: string) => filterNodes(nodes, onNode, q, state).map((n) => n.name);
    expect(found("CHAT")).toEqual(["gpu-10"]);
    expect(found("a100")).toEqual(["gpu-10"]);
    expect(found("gpu-")).toEqual(["gpu-10", "gpu-2"]);
    expect(found("", "waiting")).toEqual(["a-new-one"]);
    expect(byName(nodes).map((n) => n.name)).toEqual(["gpu-2", "gpu-10", "a-new-one"]);
  });
});

describe("gpus", () => {
  const gpus = [
    gpu("1", "a", [segment("slice", 0, 1, [seat("x", 1)])]),
    gpu("2", "a", [
      segment("slice", 0, 1, [seat("y", 1, { tenant: "ten_b" })]),
      segment("slice", 1, 1, [seat("x", 1)]),
    ]),
    gpu("3", "b", [segment("free", 0, 8)]),
  ];

  it("give each deployment one colour on every device", () => {
    expect([...coloursOf(gpus, "deployment")]).toEqual([
      ["dep_x", 0],
      ["dep_y", 1],
    ]);
    expect([...coloursOf(gpus, "tenant")]).toEqual([
      ["ten_a", 0],
      ["ten_b", 1],
    ]);
  });

  it("are listed by node, and their seats by device", () => {
    expect([...byNode(gpus)].map(([id, here]) => [id, here.map((one) => one.id)])).toEqual([
      ["nod_a", ["1", "2"]],
      ["nod_b", ["3"]],
    ]);
    expect(gpus.map((one) => seatsOf(one).length)).toEqual([1, 2, 0]);
    expect(seatRows(gpus).map((row) => [row.gpu.id, row.deployment_name, row.segment.start])).toEqual([
      ["1", "x", 0],
      ["2", "y", 0],
      ["2", "x", 1],
    ]);
  });
});

it("joins over a websocket, with the token in a file", () => {
  const line = joinCommand("gpu-1", "secret", "https://berth.example.com");
  expect(line).toContain("--join wss://berth.example.com --name gpu-1");
  expect(line.match(/secret/g)).toHaveLength(1);
});
