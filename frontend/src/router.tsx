import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import { queryClient } from "./hooks/queries";
import { meQuery } from "./hooks/useMe";
import { useScope } from "./hooks/useScope";
import { searchOf } from "./lib/search";
import { FailedPage } from "./pages/FailedPage";
import { NotFoundPage } from "./pages/NotFoundPage";
import { PendingPage } from "./pages/PendingPage";
import { SignInPage } from "./pages/signin/SignInPage";
import { NoScope } from "./shell/NoScope";

/** Whoever only signs in loads no page behind it. */
const Shell = lazyRouteComponent(() => import("./shell/Shell"), "Shell");
const OverviewPage = lazyRouteComponent(() => import("./pages/overview/OverviewPage"), "OverviewPage");
const DeploymentsPage = lazyRouteComponent(
  () => import("./pages/deployments/DeploymentsPage"),
  "DeploymentsPage",
);
const DeploymentPage = lazyRouteComponent(
  () => import("./pages/deployments/DeploymentPage"),
  "DeploymentPage",
);
const PlaygroundPage = lazyRouteComponent(
  () => import("./pages/playground/PlaygroundPage"),
  "PlaygroundPage",
);
const KeysPage = lazyRouteComponent(() => import("./pages/keys/KeysPage"), "KeysPage");

/** Once the first page is drawn the others are fetched, so that no later click waits for the server or needs it. */
function fetchPages(): void {
  for (const page of [OverviewPage, DeploymentsPage, DeploymentPage, PlaygroundPage, KeysPage]) {
    void page.preload?.();
  }
}

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

function Home() {
  const { all, ready } = useScope();
  return ready ? <NoScope first={all[0]?.slug} /> : null;
}

const home = createRoute({ getParentRoute: () => root, path: "/", beforeLoad: signedIn, component: Home });

const shell = createRoute({
  getParentRoute: () => root,
  path: "/t/$scope",
  beforeLoad: signedIn,
  component: Shell,
  onEnter: () => void setTimeout(fetchPages, 2000),
});

const overview = createRoute({
  getParentRoute: () => shell,
  path: "/overview",
  validateSearch: (raw: Record<string, unknown>) => searchOf(raw, { range: "string", deployment: "string" }),
  component: OverviewPage,
});

const deployments = createRoute({
  getParentRoute: () => shell,
  path: "/deployments",
  validateSearch: (raw: Record<string, unknown>) =>
    searchOf(raw, { q: "string", state: "string", create: "boolean" }),
  component: DeploymentsPage,
});

const deployment = createRoute({
  getParentRoute: () => shell,
  path: "/deployments/$id",
  validateSearch: (raw: Record<string, unknown>) => searchOf(raw, { tab: "string", replica: "string" }),
  component: DeploymentPage,
});

const playground = createRoute({
  getParentRoute: () => shell,
  path: "/playground",
  validateSearch: (raw: Record<string, unknown>) => searchOf(raw, { deployment: "string", tenant: "string" }),
  component: PlaygroundPage,
});

const keys = createRoute({
  getParentRoute: () => shell,
  path: "/keys",
  validateSearch: (raw: Record<string, unknown>) => searchOf(raw, { show: "string", create: "boolean" }),
  component: KeysPage,
});

const tree = root.addChildren([
  signIn,
  home,
  shell.addChildren([overview, deployments, deployment, playground, keys]),
]);

export const router = createRouter({
  routeTree: tree,
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
