/** Lines that hold the text, in any case; all of them where nothing is searched. */
export function searchLines(lines: string[], q: string): string[] {
  const wanted = q.trim().toLowerCase();
  return wanted ? lines.filter((line) => line.toLowerCase().includes(wanted)) : lines;
}

export interface Piece {
  text: string;
  hit: boolean;
}

/** A line cut at what was searched for, so that it can be marked. */
export function piecesOf(line: string, q: string): Piece[] {
  const wanted = q.trim().toLowerCase();
  if (!wanted) return [{ text: line, hit: false }];
  const pieces: Piece[] = [];
  const lower = line.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    if (at > from) pieces.push({ text: line.slice(from, at), hit: false });
    pieces.push({ text: line.slice(at, at + wanted.length), hit: true });
    from = at + wanted.length;
  }
  if (from < line.length) pieces.push({ text: line.slice(from), hit: false });
  return pieces;
}

/** What the level in a structured line says of it; lines without one are plain. */
export function toneOf(line: string): "bad" | "warn" | undefined {
  // Levels are capitals: a logger may be called uvicorn.error and say that all is well.
  if (/"level":\s*"(error|critical)"/i.test(line) || /\b(ERROR|CRITICAL|Traceback)\b/.test(line))
    return "bad";
  return /"level":\s*"warning"|\bWARN(ING)?\b/.test(line) ? "warn" : undefined;
}
