import { Skeleton, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { t } from "../i18n";
import { ErrorState } from "./ErrorState";
import { type Asked, StaleNotice } from "./StaleNotice";

interface Props<T> {
  query: Asked<T>;
  /** Stands in the shape of what comes; left out, three lines. */
  skeleton?: ReactNode;
  children: (data: T) => ReactNode;
}

/** What stands where something is still to come: never a zero, never "none". */
export function Loading({ children }: { children?: ReactNode }) {
  return (
    <div aria-busy="true" role="status" aria-label={t.loading}>
      {children ?? (
        <Stack gap="sm" py="sm">
          <Skeleton height={18} width="60%" />
          <Skeleton height={18} />
          <Skeleton height={18} width="80%" />
        </Stack>
      )}
    </div>
  );
}

/** A query's data, or what is to be seen instead: skeleton, error; and a notice where the data is old. */
export function Loaded<T>({ query, skeleton, children }: Props<T>) {
  if (query.data === undefined) {
    if (query.error) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
    return <Loading>{skeleton}</Loading>;
  }
  return (
    <>
      <StaleNotice asked={query} />
      {children(query.data)}
    </>
  );
}
