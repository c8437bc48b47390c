import { type QueryKey, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { type Answer, type Tagged, unwrap, unwrapTagged } from "../api/client";
import { ApiError } from "../api/errors";
import { useRefresh } from "./useRefresh";

/** For a call's `headers`. */
export type CallHeaders = Record<string, string>;

interface Options<T, Body> {
  /** Which object; null while its form is closed. */
  key: QueryKey | null;
  read: () => Promise<Answer<T>>;
  write: (body: Body, headers: CallHeaders) => Promise<Answer<unknown>>;
  /** First words of the query keys that are asked again once it is saved. */
  refresh: string[];
}

export interface Edit<T, Body> {
  /** The object as it was when the form opened, or was loaded anew. */
  opened: T | undefined;
  loading: boolean;
  /** Counts what `opened` was; a form that takes it as its `key` starts again with the new values. */
  version: number;
  busy: boolean;
  error: Error | null;
  /** The object as it is now, after someone else changed it. */
  conflict: T | undefined;
  save: (body: Body, done?: () => void) => void;
  reload: () => void;
  overwrite: () => void;
  reset: () => void;
}

interface Attempt<Body> {
  body: Body;
  etag: string | undefined;
  done: (() => void) | undefined;
}

const match = (etag: string | undefined): CallHeaders => (etag ? { "If-Match": etag } : {});

/** Changes one object without losing another's change: it is saved only while it is still what was opened. */
export function useEdit<T, Body>({ key, read, write, refresh }: Options<T, Body>): Edit<T, Body> {
  const queries = useQueryClient();
  const ask = useRefresh(refresh);
  const [conflict, setConflict] = useState<Tagged<T>>();
  const [version, setVersion] = useState(0);
  const last = useRef<Attempt<Body>>(undefined);
  const queryKey = ["edit", ...(key ?? [])];
  const opened = useQuery({
    queryKey,
    enabled: key !== null,
    staleTime: 0,
    gcTime: 0,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    queryFn: () => unwrapTagged(read()),
  });
  const mutation = useMutation({
    mutationFn: async (attempt: Attempt<Body>) => unwrap(write(attempt.body, match(attempt.etag))),
    onSuccess: async (_, { done }) => {
      setConflict(undefined);
      await ask();
      done?.();
    },
    onError: async (error) => {
      if (error instanceof ApiError && error.status === 412) setConflict(await unwrapTagged(read()));
    },
  });
  const attempt = (next: Attempt<Body>) => {
    last.current = next;
    mutation.mutate(next);
  };
  return {
    opened: opened.data?.value,
    loading: key !== null && opened.isPending,
    version,
    busy: mutation.isPending,
    error: conflict ? null : (mutation.error ?? opened.error),
    conflict: conflict?.value,
    save: (body, done) => attempt({ body, etag: opened.data?.etag, done }),
    reload: () => {
      queries.setQueryData(queryKey, conflict);
      setConflict(undefined);
      setVersion(version + 1);
      mutation.reset();
    },
    overwrite: () => last.current && attempt({ ...last.current, etag: conflict?.etag }),
    reset: () => {
      setConflict(undefined);
      mutation.reset();
    },
  };
}
