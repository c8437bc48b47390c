import { EMPTY } from "../../src/live/figures";
import type { LiveFigures, LiveWindow } from "../../src/live/types";

export function figures(some: Partial<LiveFigures>): LiveFigures {
  return { ...EMPTY, late: {}, ...some };
}

export function window(at: number, some: Partial<LiveWindow> = {}): LiveWindow {
  return {
    type: "window",
    scope: "ten_1",
    at,
    seconds: 1,
    total: figures({}),
    classes: {},
    deployments: {},
    devices: { in_use: 0, total: 0 },
    replicas: [],
    ...some,
  };
}
