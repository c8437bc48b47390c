import { expect, test } from "vitest";
import { parseBlock, readEvents, type SseEvent } from "../../src/lib/sse";

const TEXT =
  'data: {"a":"Grüße 東京"}\n\nevent: berth.verdict\ndata: {"good":true}\n\n: ping\n\ndata: [DONE]\n\n';
const EVENTS = [
  { event: "message", data: '{"a":"Grüße 東京"}' },
  { event: "berth.verdict", data: '{"good":true}' },
  { event: "message", data: "[DONE]" },
];

async function read(pieces: Uint8Array[]): Promise<SseEvent[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
  const found: SseEvent[] = [];
  for await (const event of readEvents(body)) found.push(event);
  return found;
}

test("events are whole however the bytes are cut, also within a character", async () => {
  const bytes = new TextEncoder().encode(TEXT);
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    expect(await read([bytes.slice(0, cut), bytes.slice(cut)])).toEqual(EVENTS);
  }
  expect(await read([...bytes].map((b) => Uint8Array.of(b)))).toEqual(EVENTS);
});

test("CRLF, several data lines and an end without a blank line", async () => {
  expect(parseBlock("event: x\r\ndata: 1\r\ndata: 2")).toEqual({ event: "x", data: "1\n2" });
  expect(await read([new TextEncoder().encode("data: last")])).toEqual([{ event: "message", data: "last" }]);
});

test("a comment or an event without data is nothing", () => {
  expect(parseBlock(": keep-alive")).toBeNull();
  expect(parseBlock("event: x")).toBeNull();
});
