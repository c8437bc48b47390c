import { useQueryClient } from "@tanstack/react-query";

/** Asks again for everything whose query key begins with one of `words`; done once all of it came. */
export function useRefresh(words: string[]): () => Promise<unknown> {
  const queries = useQueryClient();
  return () => Promise.all(words.map((word) => queries.invalidateQueries({ queryKey: [word] })));
}
