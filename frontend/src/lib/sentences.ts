/**
 * The server's sentences in another language. A sentence is known by its English template, as with gettext, and its
 * values are read back out of it: it may have come through a log, an agent's report or a row of last year.
 */
export interface Sentences {
  /** English template to translation: each value is `{}`, in the translation `{1}`, `{2}`, `{1:word}` (one of `words`). */
  sentences: Record<string, string>;
  /** The same, of sentences that the server's libraries say. */
  libraries: Record<string, string>;
  words: Record<string, string>;
}

interface Template {
  pattern: RegExp;
  said: string;
  /** What none of its values may hold. */
  never: RegExp | null;
  /** How much of it is fixed: of two that match, the one that says more. */
  weight: number;
}

/** With less fixed text than this a template says nothing sure of a whole sentence: its values are single words, or
 * at least no sentences. */
const SURE = 12;
const BARE = 8;
const DEEPEST = 6;
const REMEMBERED = 2000;
/** Between sentences said together, and what stands there in Chinese. */
const BETWEEN = [
  [". ", "。"],
  ["; ", "；"],
  [": ", "："],
  [", ", "，"],
] as const;

export type Say = (text: string) => string;

/** Says a server's text by the catalogue; what it does not know stays as it is. */
export function translator(catalogue: Sentences, words: Record<string, string>): Say {
  const plain = new Map<string, string>();
  const templates: Template[] = [];
  for (const [english, said] of Object.entries({ ...catalogue.libraries, ...catalogue.sentences })) {
    if (english.includes("{}")) templates.push(compile(english, said));
    else plain.set(english, said);
  }
  templates.sort((a, b) => b.weight - a.weight);
  const known = { ...words, ...catalogue.words };
  const memory = new Map<string, string>();

  function whole(text: string, depth: number): string | undefined {
    const fixed = plain.get(text);
    if (fixed !== undefined || depth > DEEPEST) return fixed;
    for (const template of templates) {
      const values = template.pattern.exec(text);
      if (!values || values.slice(1).some((value) => template.never?.test(value))) continue;
      if (beginsLater(template, text)) continue;
      const said = fill(template.said, values, depth + 1);
      if (said !== undefined) return said;
    }
    return undefined;
  }

  /** Undefined where a value that must be a known word is none: then it was another sentence. */
  function fill(said: string, values: string[], depth: number): string | undefined {
    let strange = false;
    const text = said.replace(/\{(\d)(:word)?\}/g, (_, number, word) => {
      const value = values[Number(number)] ?? "";
      if (!word) return spoken(value, depth);
      const found = known[value] ?? whole(value, depth);
      strange ||= found === undefined;
      return found ?? value;
    });
    return strange ? undefined : text;
  }

  function spoken(text: string, depth: number): string {
    if (!text.includes(" ")) return text;
    return whole(text, depth) ?? listed(text, depth) ?? pieces(text, depth) ?? text;
  }

  /** A list of which every piece is known. */
  function listed(text: string, depth: number): string | undefined {
    if (!text.includes(", ")) return undefined;
    const said = text.split(", ").map((piece) => whole(piece, depth + 1));
    return said.includes(undefined) ? undefined : said.join("，");
  }

  /** Sentences one after the other; those that are not known stay. */
  function pieces(text: string, depth: number): string | undefined {
    if (depth > DEEPEST) return undefined;
    for (const [mark, chinese] of BETWEEN) {
      for (let at = text.lastIndexOf(mark); at > 0; at = text.lastIndexOf(mark, at - 1)) {
        const [first, rest] = [text.slice(0, at), text.slice(at + mark.length)];
        const said = whole(first + mark.trim(), depth + 1) ?? whole(first, depth + 1);
        if (said !== undefined) return said.replace(/[。；：，]?$/, chinese) + spoken(rest, depth + 1);
        const after = whole(rest, depth + 1);
        if (after !== undefined) return spoken(first, depth + 1) + chinese + after;
      }
    }
    const last = text.endsWith(".") ? whole(text.slice(0, -1), depth + 1) : undefined;
    return last && `${last}。`;
  }

  return (text) => {
    const before = memory.get(text);
    if (before !== undefined) return before;
    if (memory.size > REMEMBERED) memory.clear();
    const said = spoken(text, 0);
    memory.set(text, said);
    return said;
  };
}

/** Another sentence stands before it ("A is drained: 1 of 2 are ready"): what it begins with is no value of it. */
function beginsLater(template: Template, text: string): boolean {
  const at = text.lastIndexOf(": ");
  return at > 0 && template.pattern.test(text.slice(at + 2));
}

function compile(english: string, said: string): Template {
  const fixed = english.split("{}").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = fixed.reduce((whole, part) => {
    // What hangs on a word is a plural's s, or goes on with a space; what hangs on a stop may be nothing.
    if (/[a-z]$/.test(whole)) return `${whole}(?:s|( .*?))?${part}`;
    return /[.)]$/.test(whole) ? `${whole}(.*?)${part}` : `${whole}(.+?)${part}`;
  });
  const weight = english.replaceAll("{}", "").length;
  const never = weight < BARE ? /\s/ : weight < SURE ? /[.;:,]\s/ : null;
  return {
    pattern: new RegExp(`^${pattern}$`, "s"),
    said,
    weight,
    never: said.includes(":word") ? null : never,
  };
}
