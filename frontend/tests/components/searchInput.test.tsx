import { MantineProvider } from "@mantine/core";
import { act, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SearchInput } from "../../src/components/SearchInput";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const handedOn: string[] = [];
const hand = (q: string) => void handedOn.push(q);
const searching = (value: string) => (
  <MantineProvider>
    <SearchInput value={value} label="Search" onChange={hand} />
  </MantineProvider>
);
const field = () => screen.getByRole<HTMLInputElement>("searchbox");
const type = (value: string) => fireEvent.change(field(), { target: { value } });
const pause = () => act(() => vi.advanceTimersByTimeAsync(300));

test("a word is asked for once, and no letter is lost while the address follows", async () => {
  const { rerender } = render(searching(""));
  type("g");
  type("gp");
  expect(handedOn).toEqual([]);
  await pause();
  expect(handedOn).toEqual(["gp"]);
  type("gpu");
  rerender(searching("gp"));
  expect(field().value).toBe("gpu");
  await pause();
  expect(handedOn).toEqual(["gp", "gpu"]);
});

test("what clears the filters clears the field", () => {
  const { rerender } = render(searching("gpu"));
  rerender(searching(""));
  expect(field().value).toBe("");
});
