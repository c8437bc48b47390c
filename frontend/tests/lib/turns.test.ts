import { expect, test } from "vitest";
import { inTurn } from "../../src/lib/turns";

const { signal } = new AbortController();

test("two at a time, in the order in which they came, and each of them once", async () => {
  let going = 0;
  let most = 0;
  const order: number[] = [];
  const work = (n: number) => async () => {
    going += 1;
    most = Math.max(most, going);
    order.push(n);
    await new Promise((done) => setTimeout(done, 1));
    going -= 1;
    return n;
  };
  const answers = await Promise.all([0, 1, 2, 3, 4, 5, 6].map((n) => inTurn(signal, work(n))));
  expect(answers).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect(order).toEqual(answers);
  expect(most).toBe(2);
});

test("who fails or is no longer wanted keeps nobody waiting", async () => {
  const gone = new AbortController();
  const fails = () => Promise.reject(new Error("refused"));
  const all = [
    inTurn(signal, fails),
    inTurn(signal, fails),
    inTurn(gone.signal, () => Promise.resolve("never")),
    inTurn(signal, () => Promise.resolve("done")),
  ];
  gone.abort();
  const found = await Promise.allSettled(all);
  expect(found.map((one) => one.status)).toEqual(["rejected", "rejected", "rejected", "fulfilled"]);
});
