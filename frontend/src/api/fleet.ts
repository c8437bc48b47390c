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
