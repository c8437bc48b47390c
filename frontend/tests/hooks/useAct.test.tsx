import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderHook } from "@testing-library/react";
import type { ReactNode } from "react";
import { expect, test } from "vitest";
import type { Answer } from "../../src/api/client";
import { useAct } from "../../src/hooks/useAct";
import type { CallHeaders } from "../../src/hooks/useEdit";
import { t } from "../../src/i18n";

interface Row {
  id: string;
  role: string;
  last_used: number;
}

/** The server holds `stored`; answers what was written to it, and under which headers. */
function acting(stored: Row, tag = '"v7"', status = 200) {
  const written: [string, string, CallHeaders][] = [];
  const answer = <T,>(data: T, code = 200): Promise<Answer<T>> =>
    Promise.resolve({ data, response: new Response("", { status: code, headers: { ETag: tag } }) });
  const client = new QueryClient();
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={client}>{children}</QueryClientProvider>
  );
  const hook = renderHook(
    () =>
      useAct({
        seen: (row: Row) => row.role,
        read: () => answer(stored),
        write: (id, body: string, headers) => {
          written.push([id, body, headers]);
          return answer({}, status);
        },
        refresh: ["rows"],
      }),
    { wrapper },
  );
  return { written, act: hook.result.current };
}

const SHOWN: Row = { id: "mem_1", role: "viewer", last_used: 1 };

test("it is done to the version that was read, though what nobody decides on moved on", async () => {
  const { written, act } = acting({ ...SHOWN, last_used: 2 });
  await act.mutateAsync({ shown: SHOWN, body: "admin" });
  expect(written).toEqual([["mem_1", "admin", { "If-Match": '"v7"' }]]);
});

test("nothing is sent when someone changed what the person decided on", async () => {
  const { written, act } = acting({ ...SHOWN, role: "owner" });
  await expect(act.mutateAsync({ shown: SHOWN, body: "admin" })).rejects.toThrow(t.kit.conflict.look);
  expect(written).toEqual([]);
});

test("a refusal of the server is the error", async () => {
  const { act } = acting(SHOWN, '"v7"', 412);
  await expect(act.mutateAsync({ shown: SHOWN, body: "admin" })).rejects.toMatchObject({ status: 412 });
});
