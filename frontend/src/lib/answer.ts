/** What a model wrote, as parts to show: what it thought, prose, and blocks of code. */

export type Part =
  | { kind: "thought"; text: string; open: boolean }
  | { kind: "prose"; text: string }
  | { kind: "code"; text: string; language: string; open: boolean };

const OPEN = "<think>";
const CLOSE = "</think>";

/**
 * The parts of an answer, also of one that is still being written. Models that reason put it between `<think>` and
 * `</think>` at the start; some chat templates already end with the opening tag, so only the closing one comes.
 */
export function partsOf(text: string): Part[] {
  const close = text.indexOf(CLOSE);
  const opened = text.trimStart().startsWith(OPEN);
  if (!opened && close < 0) return blocksOf(text);
  const start = opened ? text.indexOf(OPEN) + OPEN.length : 0;
  const thought = text.slice(start, close < 0 ? undefined : close).trim();
  const rest = close < 0 ? "" : text.slice(close + CLOSE.length).replace(/^\s+/, "");
  const parts: Part[] = thought ? [{ kind: "thought", text: thought, open: close < 0 }] : [];
  return [...parts, ...blocksOf(rest)];
}

const FENCE = /^ {0,3}```(.*)$/;

/** Prose and fenced code. A fence that is not closed yet is open to the end. */
function blocksOf(text: string): Part[] {
  const parts: Part[] = [];
  let lines: string[] = [];
  let language: string | null = null;
  const end = (open: boolean) => {
    const body = lines.join("\n");
    if (language !== null) parts.push({ kind: "code", text: body, language, open });
    else if (body.trim()) parts.push({ kind: "prose", text: parts.length ? body.trim() : body.trimEnd() });
    lines = [];
  };
  for (const line of text.split("\n")) {
    const fence = FENCE.exec(line);
    if (!fence) {
      lines.push(line);
      continue;
    }
    end(false);
    language = language === null ? (fence[1] ?? "").trim() : null;
  }
  if (lines.length || language !== null) end(true);
  return parts;
}

export interface Span {
  kind: "text" | "strong" | "code";
  text: string;
}

const INLINE = /(\*\*[^*\n]+\*\*|`[^`\n]+`)/;

/** `**strong**` and `` `code` `` within prose; everything else stays as it was written. */
export function spansOf(prose: string): Span[] {
  return prose
    .split(INLINE)
    .filter((piece) => piece !== "")
    .map((piece): Span => {
      if (INLINE.test(piece) && piece.startsWith("**")) return { kind: "strong", text: piece.slice(2, -2) };
      if (INLINE.test(piece)) return { kind: "code", text: piece.slice(1, -1) };
      return { kind: "text", text: piece };
    });
}
