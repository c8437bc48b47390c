import type { components } from "./schema";

/** Short names for the server's types; nothing is defined here a second time. */
type Schemas = components["schemas"];

export type Me = Schemas["Me"];
export type Key = Schemas["Key"];
export type KeyCreate = Schemas["KeyCreateRequest"];
export type ServiceClass = Schemas["ServiceClass"];
export type ServiceClassDetail = Schemas["ServiceClassDetail"];
export type ClassCreate = Schemas["ServiceClassWriteRequest"];
export type ClassChange = Schemas["PatchedServiceClassChangeRequest"];
export type Deployment = Schemas["Deployment"];
export type DeploymentCreate = Schemas["DeploymentCreateRequest"];
export type FitRequest = Schemas["FitSettingsRequest"];
export type Model = Schemas["Model"];
export type Replica = Schemas["Replica"];
export type Figures = Schemas["GoodputFigures"];
export type Contract = Schemas["Contract"];
export type ContractState = Schemas["ContractStateEnum"];
export type ContractCreate = Schemas["ContractCreateRequest"];
export type ContractChange = Schemas["PatchedContractChangeRequest"];
export type AuditEvent = Schemas["AuditEvent"];
export type Tenant = Schemas["Tenant"];
export type Member = Schemas["Member"];
export type Setting = Schemas["Setting"];
export type AlertRoute = Schemas["Route"];
