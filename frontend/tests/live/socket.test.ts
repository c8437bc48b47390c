import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { append, HISTORY, LiveSocket, STALE_AFTER_MS } from "../../src/live/socket";
import { window } from "./windows";

class FakeSocket {
  static readonly OPEN = 1;
  static made: FakeSocket[] = [];
  readyState = 0;
  sent: string[] = [];
  onopen?: () => void;
  onmessage?: (event: { data: string }) => void;
  onclose?: (event: { code: number }) => void;

  constructor(readonly url: string) {
    FakeSocket.made.push(this);
  }

  send(text: string): void {
    this.sent.push(text);
  }

  close(): void {
    this.readyState = 3;
    this.onclose?.({ code: 1000 });
  }

  open(): void {
    this.readyState = 1;
    this.onopen?.();
  }

  say(message: object): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

const newest = () => FakeSocket.made.at(-1) as FakeSocket;

beforeEach(() => {
  FakeSocket.made = [];
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeSocket);
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function connected(onChanged = () => {}) {
  const live = new LiveSocket("ws://h/ws/console", onChanged);
  live.follow("ten_1");
  newest().open();
  return live;
}

test("it subscribes once open, shows the history, then says live with the first window", () => {
  const live = connected();
  expect(newest().sent).toEqual(['{"subscribe":"ten_1"}']);
  newest().say({ type: "history", windows: [window(1), window(2)] });
  expect(live.snapshot().status).toBe("connecting");
  newest().say(window(3));
  expect(live.snapshot().status).toBe("live");
  expect(live.snapshot().windows.map((w) => w.at)).toEqual([1, 2, 3]);
});

test("silence on an open socket is stale, and the next window is live again", () => {
  const live = connected();
  newest().say(window(1));
  vi.advanceTimersByTime(STALE_AFTER_MS);
  expect(live.snapshot().status).toBe("stale");
  expect(live.snapshot().windows).toHaveLength(1);
  newest().say(window(9));
  expect(live.snapshot().status).toBe("live");
});

test("a lost socket is opened again, keeps what was shown and subscribes again", () => {
  const live = connected();
  newest().say(window(1));
  newest().onclose?.({ code: 1006 });
  expect(live.snapshot().status).toBe("reconnecting");
  expect(live.snapshot().windows).toHaveLength(1);
  vi.advanceTimersByTime(1000);
  expect(FakeSocket.made).toHaveLength(2);
  newest().open();
  expect(newest().sent).toEqual(['{"subscribe":"ten_1"}']);
});

test.each([
  [4401, "signed_out"],
  [4403, "denied"],
])("closed with %i it is %s and does not come back", (code, status) => {
  const live = connected();
  newest().onclose?.({ code });
  vi.advanceTimersByTime(60_000);
  expect(live.snapshot().status).toBe(status);
  expect(FakeSocket.made).toHaveLength(1);
});

test("another tenant's windows are never shown", () => {
  const live = connected();
  newest().say(window(1));
  live.follow("ten_2");
  expect(live.snapshot().windows).toEqual([]);
  newest().say(window(2));
  newest().say({ type: "history", windows: [window(1)] });
  expect(live.snapshot().windows).toEqual([]);
});

test("a tenant whose membership ended does not keep the socket from following the next", () => {
  const live = connected();
  newest().onclose?.({ code: 4403 });
  live.follow("ten_2");
  newest().open();
  expect(newest().sent).toEqual(['{"subscribe":"ten_2"}']);
});

test("changes are passed on", () => {
  const seen = vi.fn();
  connected(seen);
  newest().say({ type: "changed", what: "replica", id: "rep_1" });
  expect(seen).toHaveBeenCalledWith("replica", "rep_1");
});

test("windows stay ordered, unique and at most 300", () => {
  let windows = Array.from({ length: HISTORY }, (_, i) => window(i));
  windows = append(windows, window(HISTORY));
  expect([windows.length, windows[0]?.at, windows.at(-1)?.at]).toEqual([HISTORY, 1, HISTORY]);
  const told = { ...window(1), replicas: [{ id: "rep_1" }] } as unknown as ReturnType<typeof window>;
  const kept = append([told], { ...told, at: 2 });
  expect(kept.map((w) => [w.at, w.replicas.length])).toEqual([
    [1, 0],
    [2, 1],
  ]);
  expect(append([window(1), window(3)], window(2)).map((w) => w.at)).toEqual([1, 2, 3]);
  expect(append([window(1), window(3)], window(3)).map((w) => w.at)).toEqual([1, 3]);
});
