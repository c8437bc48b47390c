import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  type RouteComponent,
  redirect,
} from "@tanstack/react-router";
import { queryClient } from "./hooks/queries";
import { meQuery } from "./hooks/useMe";
import { useScopes } from "./hooks/useScope";
import { parseSearch, searchOf, stringifySearch, textSearch } from "./lib/search";
import * as pages from "./pages";
import { FailedPage } from "./pages/FailedPage";
import { NotFoundPage } from "./pages/NotFoundPage";
import { PendingPage } from "./pages/PendingPage";
import { SignInPage } from "./pages/signin/SignInPage";
import { NoScope } from "./shell/NoScope";

/** Whoever only signs in loads no page behind it. */
const Shell = lazyRouteComponent(() => import("./shell/Shell"), "Shell");
const InvitationPage = lazyRouteComponent(
  () => import("./pages/invitation/InvitationPage"),
  "InvitationPage",
);

async function signedIn({ location }: { location: { href: string } }): Promise<void> {
  const me = await queryClient.ensureQueryData(meQuery);
  if (!me) throw redirect({ to: "/signin", search: { next: location.href } });
}

const root = createRootRoute({
  component: Outlet,
  notFoundComponent: NotFoundPage,
  errorComponent: FailedPage,
});

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/signin",
  validateSearch: (raw: Record<string, unknown>) => searchOf(raw, { next: "string", ended: "boolean" }),
  component: SignInPage,
});

/** The token stands in the fragment, which no server and no log sees. */
const invitation = createRoute({
  getParentRoute: () => root,
  path: "/invitation",
  component: InvitationPage,
});

function Home() {
  const { all, ready } = useScopes();
  return ready ? <NoScope first={all[0]?.slug} /> : null;
}

const home = createRoute({ getParentRoute: () => root, path: "/", beforeLoad: signedIn, component: Home });

const shell = createRoute({
  getParentRoute: () => root,
  path: "/t/$scope",
  beforeLoad: signedIn,
  component: Shell,
  onEnter: () => void setTimeout(pages.fetchPages, 2000),
});

/** A page behind the navigation; its search parameters are text. */
function page<Path extends string>(path: Path, component: RouteComponent) {
  return createRoute({ getParentRoute: () => shell, path, validateSearch: textSearch, component });
}

const overview = createRoute({
  getParentRoute: () => shell,
  path: "/overview",
  validateSearch: (raw: Record<string, unknown>) => searchOf(raw, { range: "string", deployment: "string" }),
  component: pages.OverviewPage,
});

const playground = createRoute({
  getParentRoute: () => shell,
  path: "/playground",
  validateSearch: (raw: Record<string, unknown>) =>
    searchOf(raw, { deployment: "string", tenant: "string", right: "string", right_tenant: "string" }),
  component: pages.PlaygroundPage,
});

const tree = root.addChildren([
  signIn,
  invitation,
  home,
  shell.addChildren([
    overview,
    playground,
    page("/tenants", pages.TenantsPage),
    page("/members", pages.MembersPage),
    page("/deployments", pages.DeploymentsPage),
    page("/deployments/$id", pages.DeploymentPage),
    page("/models", pages.ModelsPage),
    page("/models/$id", pages.ModelPage),
    page("/slas", pages.SlasPage),
    page("/keys", pages.KeysPage),
    page("/usage", pages.UsagePage),
    page("/requests", pages.RequestsPage),
    page("/requests/$id", pages.RequestPage),
    page("/fleet", pages.FleetPage),
    page("/fleet/$id", pages.NodePage),
    page("/decisions", pages.DecisionsPage),
    page("/plans", pages.PlansPage),
    page("/audit", pages.AuditPage),
    page("/settings", pages.SettingsPage),
  ]),
]);

export const router = createRouter({
  routeTree: tree,
  parseSearch,
  stringifySearch,
  defaultPreload: false,
  defaultPendingComponent: PendingPage,
  defaultPendingMs: 300,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
