import type { components } from "./schema";

/** Short names for what the fleet's routes answer. */
type Schemas = components["schemas"];

export type Node = Schemas["Node"];
export type Device = Schemas["Gpu"];
export type Seat = Schemas["Seat"];
export type ModelCreate = Schemas["ModelCreateRequest"];
export type Drain = Schemas["Drain"];
export type HistoryPoint = Schemas["HistoryPoint"];
export type Decision = Schemas["Decision"];
export type Candidate = Schemas["Candidate"];
export type DeploymentEvent = Schemas["Event"];
export type EventPage = Schemas["EventPage"];
export type FleetMap = Schemas["FleetMap"];
export type MapTotals = Schemas["MapTotals"];
export type MapGpu = Schemas["MapGpu"];
export type MapSegment = Schemas["MapSegment"];
export type MapSeat = Schemas["MapSeat"];
export type PlanLine = Schemas["PlanLine"];
export type Plan = Schemas["Plan"];
export type PlanChange = Schemas["PlanChange"];
export type PlanSpot = Schemas["PlanSpot"];
export type PlanWave = Schemas["PlanWave"];
export type PlanWay = Schemas["PlanWay"];
export type Fit = Schemas["Fit"];
export type Outlook = Schemas["Outlook"];
export type SeatFit = Schemas["SeatFit"];
