import { searcher } from "../lib/searched";
import { type Say, translator } from "../lib/sentences";
import { en } from "./en";

/** Every language fills this shape; TypeScript names what a translation lacks. */
export type Catalogue = typeof en;

export const LANGUAGES = { en: "English", zh: "简体中文" } as const;
export type Language = keyof typeof LANGUAGES;

const STORED = "berth.language";

/**
 * The strings of the language in use: `t.keys.title`. English until `loadLanguage` ended, which `main.tsx` waits for
 * before it loads any page; so a module may read `t` when it is loaded.
 */
export let t: Catalogue = en;

/** What the server said (a refusal, a reason, an event) in the language in use: `say(replica.reason)`. */
export let say: Say = (text) => text;

/** What is typed into a list's search, as the server is asked. */
export let searched: Say = (text) => text;

const known = (value: string | null): value is Language => value !== null && value in LANGUAGES;

/** The language a person chose in this browser, else the first of the browser's own that there is. */
export function language(): Language {
  const chosen = localStorage.getItem(STORED);
  if (known(chosen)) return chosen;
  for (const tag of navigator.languages ?? []) {
    const base = tag.split("-")[0] ?? "";
    if (known(base)) return base;
  }
  return "en";
}

/** Loads the catalogue of the language in use; only Chinese is a download of its own. */
export async function loadLanguage(): Promise<void> {
  if (language() === "zh") {
    const [{ zh }, sentences] = await Promise.all([import("./zh"), import("./zh.sentences.json")]);
    t = zh;
    const words = { ...zh.states, ...zh.roles };
    say = translator(sentences.default, words);
    searched = searcher(sentences.default, words);
  }
  document.documentElement.lang = t.locale;
}

/** Remembers the choice and loads the page anew: its address holds what was looked at. */
export function chooseLanguage(chosen: Language): void {
  localStorage.setItem(STORED, chosen);
  location.reload();
}
