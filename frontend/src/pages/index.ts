import { lazyRouteComponent } from "@tanstack/react-router";

/** Every page behind the navigation, each a download of its own. */
export const OverviewPage = lazyRouteComponent(() => import("./overview/OverviewPage"), "OverviewPage");
export const DeploymentsPage = lazyRouteComponent(
  () => import("./deployments/DeploymentsPage"),
  "DeploymentsPage",
);
export const DeploymentPage = lazyRouteComponent(
  () => import("./deployments/DeploymentPage"),
  "DeploymentPage",
);
export const PlaygroundPage = lazyRouteComponent(
  () => import("./playground/PlaygroundPage"),
  "PlaygroundPage",
);
export const TenantsPage = lazyRouteComponent(() => import("./tenants/TenantsPage"), "TenantsPage");
export const MembersPage = lazyRouteComponent(() => import("./members/MembersPage"), "MembersPage");
export const ModelsPage = lazyRouteComponent(() => import("./models/ModelsPage"), "ModelsPage");
export const ModelPage = lazyRouteComponent(() => import("./models/ModelPage"), "ModelPage");
export const SlasPage = lazyRouteComponent(() => import("./slas/SlasPage"), "SlasPage");
export const KeysPage = lazyRouteComponent(() => import("./keys/KeysPage"), "KeysPage");
export const UsagePage = lazyRouteComponent(() => import("./usage/UsagePage"), "UsagePage");
export const RequestsPage = lazyRouteComponent(() => import("./requests/RequestsPage"), "RequestsPage");
export const RequestPage = lazyRouteComponent(() => import("./requests/RequestPage"), "RequestPage");
export const FleetPage = lazyRouteComponent(() => import("./fleet/FleetPage"), "FleetPage");
export const NodePage = lazyRouteComponent(() => import("./fleet/NodePage"), "NodePage");
export const DecisionsPage = lazyRouteComponent(() => import("./decisions/DecisionsPage"), "DecisionsPage");
export const PlansPage = lazyRouteComponent(() => import("./plans/PlansPage"), "PlansPage");
export const AuditPage = lazyRouteComponent(() => import("./audit/AuditPage"), "AuditPage");
export const SettingsPage = lazyRouteComponent(() => import("./settings/SettingsPage"), "SettingsPage");

const PAGES = [
  OverviewPage,
  DeploymentsPage,
  DeploymentPage,
  PlaygroundPage,
  TenantsPage,
  MembersPage,
  ModelsPage,
  ModelPage,
  SlasPage,
  KeysPage,
  UsagePage,
  RequestsPage,
  RequestPage,
  FleetPage,
  NodePage,
  DecisionsPage,
  PlansPage,
  AuditPage,
  SettingsPage,
];

/** Once the first page is drawn the others are fetched, so that no later click waits for the server or needs it. */
export function fetchPages(): void {
  for (const page of PAGES) void page.preload?.();
}
