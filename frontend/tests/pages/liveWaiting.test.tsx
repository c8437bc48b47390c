import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, renderHook, screen } from "@testing-library/react";
import type { ReactNode } from "react";
import { beforeEach, expect, test, vi } from "vitest";
import { t } from "../../src/i18n";
import type { LiveState } from "../../src/live/socket";
import { LiveAttainment } from "../../src/pages/deployments/LiveAttainment";
import { ReplicaTable } from "../../src/pages/overview/ReplicaTable";
import { StaleBar } from "../../src/pages/overview/StaleBar";
import { useFigures } from "../../src/pages/overview/useFigures";
import { window } from "../live/windows";

let live: LiveState;
vi.mock("../../src/live/LiveProvider", () => ({ useLive: () => live }));
vi.mock("../../src/hooks/useScope", () => ({ useScope: () => ({ current: undefined }) }));

const wrapper = ({ children }: { children: ReactNode }) => (
  <QueryClientProvider client={new QueryClient()}>
    <MantineProvider>{children}</MantineProvider>
  </QueryClientProvider>
);

const nothing = (status: LiveState["status"]): LiveState => ({ status, scope: "platform", windows: [] });

beforeEach(() => {
  globalThis.ResizeObserver ??= class {
    observe() {}
    unobserve() {}
    disconnect() {}
  };
});

test.each(["connecting", "stale", "reconnecting"] as const)(
  "before the first window nothing is told as zero (%s)",
  (status) => {
    live = nothing(status);
    expect(renderHook(() => useFigures("5m", undefined, undefined), { wrapper }).result.current.loading).toBe(
      true,
    );
    render(<ReplicaTable deployment={undefined} />, { wrapper });
    render(<LiveAttainment deployment="dep_1" />, { wrapper });
    expect(screen.queryByText(t.overview.replicas.empty)).toBeNull();
    expect(screen.queryByText(t.deployments.noTraffic)).toBeNull();
    expect(screen.getByTestId("live-replicas").getAttribute("aria-busy")).toBe("true");
  },
);

test("a window without requests and replicas is a zero", () => {
  live = { ...nothing("live"), windows: [window(1)] };
  expect(renderHook(() => useFigures("5m", undefined, undefined), { wrapper }).result.current.loading).toBe(
    false,
  );
  render(<ReplicaTable deployment={undefined} />, { wrapper });
  render(<LiveAttainment deployment="dep_1" />, { wrapper });
  expect(screen.getByText(t.overview.replicas.empty)).toBeTruthy();
  expect(screen.getByText(t.deployments.noTraffic)).toBeTruthy();
});

test("silence before the first window is said as such, not as old figures", () => {
  live = nothing("stale");
  render(<StaleBar />, { wrapper });
  expect(screen.getByRole("alert").textContent).toBe(t.live.none);
});
