import type { Say, Sentences } from "./sentences";

/** More would not find more that anyone looks for, and an address has an end. */
const AT_MOST = 60;
const LEAST = 4;
const CHINESE = /[\u3400-\u9fff]/;

/**
 * The server's sentences are kept in English: of what is typed in another language, each word goes with the English
 * of every sentence that says it, as alternatives (`"没有空间|has no room"`).
 */
export function searcher(catalogue: Sentences, words: Record<string, string>): Say {
  const known = Object.entries({ ...words, ...catalogue.words, ...catalogue.sentences }).map(
    ([english, said]) => [longest(english), said.split(/\{\d(?::word)?\}/)] as const,
  );
  const either = (word: string) => {
    if (!CHINESE.test(word)) return word;
    const found = known.filter(
      ([english, said]) => english.length >= LEAST && said.some((one) => one.includes(word)),
    );
    const all = [word, ...new Set(found.map(([english]) => english))].slice(0, AT_MOST);
    return all.length > 1 ? `"${all.join("|")}"` : word;
  };
  return (text) => text.split(/\s+/).filter(Boolean).map(either).join(" ");
}

/** What of a template is fixed, at its longest, without what means something to the search. */
function longest(english: string): string {
  const pieces = english.split(/\{\}|["\\|]/).map((piece) => piece.trim());
  return pieces.reduce((best, piece) => (piece.length > best.length ? piece : best), "");
}
