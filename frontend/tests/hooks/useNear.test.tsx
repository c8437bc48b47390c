import { act, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { useNear } from "../../src/hooks/useNear";

type Notice = (entries: { isIntersecting: boolean }[]) => void;
let notice: Notice;

class Observer {
  constructor(told: Notice) {
    notice = told;
  }
  observe() {}
  disconnect() {}
}

afterEach(() => vi.unstubAllGlobals());

function Card({ first }: { first: boolean }) {
  const { ref, near } = useNear<HTMLParagraphElement>(first);
  return <p ref={ref}>{near ? "drawn" : "room"}</p>;
}

test("what is far away is not drawn until it comes near, and no longer once it has gone", () => {
  vi.stubGlobal("IntersectionObserver", Observer);
  render(<Card first={false} />);
  expect(screen.getByText("room")).toBeTruthy();
  act(() => notice([{ isIntersecting: true }]));
  expect(screen.getByText("drawn")).toBeTruthy();
  act(() => notice([{ isIntersecting: true }, { isIntersecting: false }]));
  expect(screen.getByText("room")).toBeTruthy();
});

test("the first are drawn at once; where nothing can be observed, all are", () => {
  vi.stubGlobal("IntersectionObserver", Observer);
  render(<Card first />);
  expect(screen.getByText("drawn")).toBeTruthy();
  vi.stubGlobal("IntersectionObserver", undefined);
  render(<Card first={false} />);
  expect(screen.getAllByText("drawn")).toHaveLength(2);
});
