import { useMutation } from "@tanstack/react-query";
import { type Answer, unwrap, unwrapTagged } from "../api/client";
import { t } from "../i18n";
import type { CallHeaders } from "./useEdit";
import { useRefresh } from "./useRefresh";

interface Options<Row, Body, Made> {
  /** Of the object on the screen, what the person decided on. */
  seen: (row: Row) => unknown;
  read: (id: string) => Promise<Answer<Row>>;
  write: (id: string, body: Body, headers: CallHeaders) => Promise<Answer<Made>>;
  /** First words of the query keys that are asked again, also after a refusal: what is shown was old. */
  refresh: string[];
}

/**
 * Does something to an object without a form (end, remove, stop): only while it still is what was on the screen, and
 * only to the version that was found so. `mutate({ shown, body })`.
 */
export function useAct<Row extends { id: string }, Body, Made>({
  seen,
  read,
  write,
  refresh,
}: Options<Row, Body, Made>) {
  const onSettled = useRefresh(refresh);
  return useMutation({
    mutationFn: async ({ shown, body }: { shown: Row; body: Body }): Promise<Made> => {
      const now = await unwrapTagged(read(shown.id));
      if (JSON.stringify(seen(now.value)) !== JSON.stringify(seen(shown)))
        throw new Error(t.kit.conflict.look);
      return unwrap(write(shown.id, body, now.etag ? { "If-Match": now.etag } : {}));
    },
    // Not waited for: the window closes once the change is taken, however long the lists take to follow.
    onSettled: () => void onSettled(),
  });
}
