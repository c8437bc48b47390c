import { ErrorState } from "../components/ErrorState";

/** What is shown where a page could not be drawn at all: the server is away, or a fault of ours. */
export function FailedPage({ error }: { error: unknown }) {
  return (
    <ErrorState
      error={error instanceof Error ? error : new Error(String(error))}
      retry={() => location.reload()}
    />
  );
}
