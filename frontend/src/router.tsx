import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  type RouteComponent,
  redirect,
} from "@tanstack/react-router";
import { Later } from "./components/Later";
import { queryClient } from "./hooks/queries";
import { meQuery } from "./hooks/useMe";
import { useScopes } from "./hooks/useScope";
import { t } from "./i18n";
import { parseSearch, searchOf, stringifySearch, textSearch } from "./lib/search";
import * as pages from "./pages";
import { FailedPage } from "./pages/FailedPage";
import { NotFoundPage } from "./pages/NotFoundPage";
import { type PageHead, PageSkeleton } from "./pages/PageSkeleton";
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
  validateSearch: (raw: Record<string, unknown>) =>
    searchOf(raw, { next: "string", ended: "boolean", failed: "string", step: "string" }),
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

/** Its head first, which answers the click, the rest in slices after it. */
function later(Page: RouteComponent, head?: PageHead): RouteComponent {
  function Shown() {
    return (
      <Later instead={<PageSkeleton head={head} />}>
        <Page />
      </Later>
    );
  }
  // Gone once its code is here: what there is to wait for delays every change of the address
  Shown.preload = () => Page.preload?.();
  return Shown;
}

/** A page behind the navigation; its search parameters are text. */
function page<Path extends string>(path: Path, component: RouteComponent, head?: PageHead) {
  return createRoute({
    getParentRoute: () => shell,
    path,
    validateSearch: textSearch,
    component: later(component, head),
  });
}

const overview = createRoute({
  getParentRoute: () => shell,
  path: "/overview",
  validateSearch: (raw: Record<string, unknown>) => searchOf(raw, { range: "string", deployment: "string" }),
  component: later(pages.OverviewPage, t.overview),
});

const playground = createRoute({
  getParentRoute: () => shell,
  path: "/playground",
  validateSearch: (raw: Record<string, unknown>) =>
    searchOf(raw, { deployment: "string", tenant: "string", right: "string", right_tenant: "string" }),
  component: later(pages.PlaygroundPage, t.playground),
});

const tree = root.addChildren([
  signIn,
  invitation,
  home,
  shell.addChildren([
    overview,
    playground,
    page("/tenants", pages.TenantsPage, t.tenants),
    page("/members", pages.MembersPage, t.members),
    page("/deployments", pages.DeploymentsPage, t.deployments),
    page("/deployments/$id", pages.DeploymentPage),
    page("/models", pages.ModelsPage, t.models),
    page("/models/$id", pages.ModelPage),
    page("/slas", pages.SlasPage, t.slas),
    page("/keys", pages.KeysPage, t.keys),
    page("/usage", pages.UsagePage, t.usage),
    page("/requests", pages.RequestsPage, t.requests),
    page("/requests/$id", pages.RequestPage),
    page("/fleet", pages.FleetPage, t.fleet),
    page("/fleet/$id", pages.NodePage),
    page("/decisions", pages.DecisionsPage, t.decisions),
    page("/plans", pages.PlansPage, t.plans),
    page("/audit", pages.AuditPage, t.audit),
    page("/settings", pages.SettingsPage, t.settings),
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
