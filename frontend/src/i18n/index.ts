import { en } from "./en";

/** Every language fills this shape; TypeScript names what a translation lacks. */
export type Catalogue = typeof en;

const catalogues: Record<string, Catalogue> = { en };

function preferred(languages: readonly string[]): Catalogue {
  for (const tag of languages) {
    const found = catalogues[tag.split("-")[0] ?? ""];
    if (found) return found;
  }
  return en;
}

export const t: Catalogue = preferred(navigator.languages ?? []);
