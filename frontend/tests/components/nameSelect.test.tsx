import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { beforeEach, expect, test, vi } from "vitest";
import { NameSelect } from "../../src/components/NameSelect";
import { t } from "../../src/i18n";

// The client takes the fetch that is there when it is made
const server = vi.hoisted(() => {
  const held = { answer: (_: Request): Response => new Response() };
  globalThis.fetch = (request) => Promise.resolve(held.answer(request as Request));
  return held;
});

const ALL = Array.from({ length: 1000 }, (_, i) => ({ id: `dep_${i}`, name: `list-${i}` }));
let asked: URL[];

/** A server of a thousand deployments, 50 a page. */
function answer(request: Request): Response {
  const url = new URL(request.url);
  asked.push(url);
  const id = url.pathname.split("/")[4];
  if (id) return Response.json(ALL.find((one) => one.id === id));
  const found = ALL.filter((one) => one.name.includes(url.searchParams.get("search") ?? ""));
  return Response.json({ results: found.slice(0, 50), next: found.length > 50 ? "/next?cursor=c" : null });
}

beforeEach(() => {
  asked = [];
  server.answer = answer;
  globalThis.ResizeObserver ??= class {
    observe() {}
    unobserve() {}
    disconnect() {}
  };
});

function Choice({ first }: { first: string | null }) {
  const [value, setValue] = useState(first);
  return (
    <>
      <NameSelect kind="deployment" tenant={undefined} aria-label="Which" value={value} onChange={setValue} />
      <output>{value}</output>
    </>
  );
}

function shown(first: string | null = null) {
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MantineProvider env="test">
        <Choice first={first} />
      </MantineProvider>
    </QueryClientProvider>,
  );
  return screen.getByRole<HTMLInputElement>("combobox");
}

const options = () => screen.queryAllByRole("option").map((one) => one.textContent);

test("a page of names is offered, the server finds the others, and a search asks once", async () => {
  const field = shown();
  await userEvent.click(field);
  await waitFor(() => expect(options()).toHaveLength(51));
  expect(options().at(-1)).toBe(t.kit.names.more);
  await userEvent.type(field, "list-777");
  await waitFor(() => expect(options()).toEqual(["list-777"]));
  expect(asked.map((url) => url.searchParams.get("search"))).toEqual([null, "list-777"]);
  await userEvent.click(screen.getByRole("option"));
  expect(screen.getByRole("status").textContent).toBe("dep_777");
  expect(field.value).toBe("list-777");
});

test("an id from a link is shown by its name, though it is on no page", async () => {
  const field = shown("dep_900");
  await waitFor(() => expect(field.value).toBe("list-900"));
  await userEvent.click(field);
  await waitFor(() => expect(options()).toHaveLength(52));
  expect(options()[0]).toBe("list-900");
});
