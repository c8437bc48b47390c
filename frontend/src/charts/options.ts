import uPlot from "uplot";
import { clock, day } from "../lib/format";
import { type Ink, ink } from "./palette";

export interface Series {
  label: string;
  color: Ink;
  kind?: "line" | "bars" | "area";
  dash?: boolean;
}

export interface Limit {
  label: string;
  value: number;
}

export interface ChartSpec {
  series: Series[];
  format: (value: number | null) => string;
  limit?: Limit;
  /** Fixed span of the x axis in unix seconds. */
  span: [number, number];
  yMax?: number;
  yMin?: number;
  /** What the steps between the y axis's lines may be; left out, those of decimal numbers. */
  steps?: number[];
}

/** For bytes: lines at 2 GiB and 4 GiB, not at 1.9 GiB and 3.7 GiB. */
export const BINARY_STEPS = Array.from({ length: 60 }, (_, power) => 2 ** power);

const FONT = '11px "Geist Variable", system-ui, sans-serif';

function drawLimit(limit: Limit) {
  return (u: uPlot) => {
    const y = u.valToPos(limit.value, "y", true);
    const { left, top, width, height } = u.bbox;
    if (y < top || y > top + height) return;
    const ctx = u.ctx;
    ctx.save();
    ctx.strokeStyle = ink("bad");
    ctx.fillStyle = ink("bad");
    ctx.globalAlpha = 0.85;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(left, y);
    ctx.lineTo(left + width, y);
    ctx.stroke();
    ctx.font = `${10 * devicePixelRatio}px "Geist Variable", system-ui, sans-serif`;
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    // The label stays readable where a line of the chart runs through it.
    ctx.setLineDash([]);
    ctx.lineJoin = "round";
    ctx.lineWidth = 4 * devicePixelRatio;
    ctx.strokeStyle = ink("surface");
    ctx.globalAlpha = 1;
    const at = [left + width - 4 * devicePixelRatio, y - 2 * devicePixelRatio] as const;
    ctx.strokeText(limit.label, ...at);
    ctx.fillText(limit.label, ...at);
    ctx.restore();
  };
}

const SPARSE = 40;

/** Few values are drawn as points as well: a lone one would otherwise not be seen at all. */
function isSparse(u: uPlot, series: number): boolean {
  return (u.data[series] ?? []).filter((value) => value !== null).length <= SPARSE;
}

function toSeries(s: Series): uPlot.Series {
  const color = ink(s.color);
  if (s.kind === "bars") {
    return {
      label: s.label,
      stroke: color,
      fill: color,
      width: 0,
      points: { show: false },
      paths: uPlot.paths.bars?.({ size: [0.72, 14, 2 * devicePixelRatio] }),
    };
  }
  return {
    label: s.label,
    stroke: color,
    width: 1.5,
    dash: s.dash ? [4, 3] : undefined,
    fill: s.kind === "area" ? `${color}22` : undefined,
    spanGaps: true,
    points: { show: isSparse, size: 5, fill: color, stroke: color },
  };
}

const DAY_S = 86_400;

/** A moment on the x axis: seconds where they matter, and the day where a midnight alone would say too little. */
export function moment(unixSeconds: number, spanS: number): string {
  if (spanS > 4 * DAY_S) return day(unixSeconds);
  const time = clock(unixSeconds);
  if (spanS <= 900) return time.slice(0, 8);
  return time.startsWith("00:00:00") ? day(unixSeconds) : time.slice(0, 5);
}

function yRange(spec: ChartSpec) {
  return (_: uPlot, min: number | null, max: number | null): [number, number] => {
    // A narrow range widens to what is there: a bad second must not fall out of the picture.
    const low = Math.min(spec.yMin ?? 0, min ?? Number.POSITIVE_INFINITY);
    if (spec.yMax !== undefined) return [low, spec.yMax];
    // The promised line stays in sight, however good the figures are.
    const high = Math.max(max ?? 0, (spec.limit?.value ?? 0) * 1.08);
    return [low, high > 0 ? high * 1.08 : 1];
  };
}

/** What changes each second (span, values) is read through `current`, so the plot is built once. */
export function chartOptions(
  current: () => ChartSpec,
  width: number,
  height: number,
  onCursor: (i: number | null) => void,
): uPlot.Options {
  const spec = current();
  const axis = { stroke: ink("muted"), font: FONT, ticks: { show: false } };
  return {
    width,
    height,
    padding: [14, 24, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "berth" }, y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { time: true, range: () => current().span },
      y: { range: (u, min, max) => yRange(current())(u, min, max) },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 76,
        size: 24,
        values: (_, splits) => splits.map((s) => moment(s, current().span[1] - current().span[0])),
      },
      {
        ...axis,
        grid: { stroke: ink("grid"), width: 1 },
        size: 58,
        space: 34,
        ...(spec.steps && { incrs: spec.steps }),
        values: (_, splits) => splits.map((v) => spec.format(v)),
      },
    ],
    series: [{}, ...spec.series.map(toSeries)],
    hooks: {
      setCursor: [(u) => onCursor(u.cursor.idx ?? null)],
      draw: spec.limit ? [drawLimit(spec.limit)] : [],
    },
  };
}
