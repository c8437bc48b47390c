import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";
import type { TextSearch } from "../lib/search";

export interface Url {
  values: TextSearch;
  /** Changes some parameters and keeps the others; undefined or "" removes one. `push` makes a step for the back button. */
  set: (patch: TextSearch, push?: boolean) => void;
}

/** The search parameters of whichever page is shown, as text. */
export function useUrl(): Url {
  const values = useSearch({ strict: false }) as TextSearch;
  const navigate = useNavigate();
  const set = useCallback(
    (patch: TextSearch, push = false) =>
      void navigate({
        to: ".",
        search: ((old: TextSearch) => ({ ...old, ...patch })) as never,
        replace: !push,
        resetScroll: false,
      }),
    [navigate],
  );
  return { values, set };
}
