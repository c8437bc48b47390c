import { QueryCache, QueryClient } from "@tanstack/react-query";
import { ApiError } from "../api/errors";

function worthRetrying(failures: number, error: Error): boolean {
  return failures < 2 && !(error instanceof ApiError && error.status < 500);
}

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: { staleTime: 10_000, retry: worthRetrying, refetchOnWindowFocus: true },
    mutations: { retry: false },
  },
  queryCache: new QueryCache({
    onError(error, query) {
      // A session that ended elsewhere: ask again who is signed in; the shell then shows the sign-in page.
      if (error instanceof ApiError && error.status === 401 && query.queryKey[0] !== "me") {
        void queryClient.invalidateQueries({ queryKey: ["me"] });
      }
    },
  }),
});
