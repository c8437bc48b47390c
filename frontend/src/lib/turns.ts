/** So many at a time: a browser has six connections to a server, and the next page needs some. */
const AT_ONCE = 2;

let going = 0;
const waiting: (() => void)[] = [];

/** Does `work` when it is its turn; who is no longer wanted by then gives the turn on. */
export async function inTurn<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  if (going >= AT_ONCE) await new Promise<void>((next) => waiting.push(next));
  else going += 1;
  try {
    signal.throwIfAborted();
    return await work();
  } finally {
    const next = waiting.shift();
    if (next) next();
    else going -= 1;
  }
}
