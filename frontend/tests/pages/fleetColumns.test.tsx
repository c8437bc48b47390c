import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { MapGpu } from "../../src/api/fleet";
import { GPU_COLUMNS } from "../../src/pages/fleet/fleetColumns";

function shown(utilisation: number | null): string {
  const column = GPU_COLUMNS.find((one) => one.id === "utilisation");
  const cell = column?.cell as (context: { row: { original: Partial<MapGpu> } }) => React.ReactNode;
  return renderToStaticMarkup(cell({ row: { original: { utilisation } } }));
}

it("tells a device that nobody measures from one that is idle", () => {
  expect(shown(0)).toBe("0 %");
  expect(shown(0.5)).toBe("50 %");
  expect(shown(null)).toContain("not measured");
});
