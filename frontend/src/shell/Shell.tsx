import "@mantine/notifications/styles.css";
import { Burger, Drawer } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { Notifications } from "@mantine/notifications";
import { Navigate, Outlet, useRouterState } from "@tanstack/react-router";
import { useEffect } from "react";
import { Logo } from "../components/Logo";
import { useMe } from "../hooks/useMe";
import { ScopeProvider, useScopes } from "../hooks/useScope";
import { t } from "../i18n";
import { LiveProvider } from "../live/LiveProvider";
import { CommandPalette } from "./CommandPalette";
import { LiveIndicator } from "./LiveIndicator";
import { NoScope } from "./NoScope";
import { SessionWatch } from "./SessionWatch";
import classes from "./Shell.module.css";
import { Sidebar } from "./Sidebar";

function SignInAgain() {
  const next = useRouterState({ select: (s) => s.location.href });
  return <Navigate to="/signin" search={{ next, ended: true }} />;
}

/** The frame of every signed-in page: navigation at the left, a drawer on a phone. */
export function Shell() {
  const [opened, menu] = useDisclosure(false);
  const scopes = useScopes();
  const { current, all, ready } = scopes;
  const path = useRouterState({ select: (s) => s.location.pathname });
  // A followed link closes the drawer
  useEffect(() => menu.close(), [path]);

  const me = useMe();

  // The session ended while a page was open. This frame is drawn once more on the way out: then there is nothing to add.
  if (me.data === null) return path.startsWith("/t/") ? <SignInAgain /> : null;
  if (!ready) return null;
  if (!current) return <NoScope first={all[0]?.slug} />;
  return (
    <ScopeProvider value={scopes}>
      <LiveProvider scope={current.tenant ?? "platform"}>
        <a className="skip-link" href="#content">
          {t.nav.skip}
        </a>
        <div className={classes.shell}>
          <aside className={classes.sidebar}>
            <Sidebar />
          </aside>
          <header className={classes.topbar}>
            <Burger opened={opened} onClick={menu.toggle} size="sm" aria-label={t.nav.open} />
            <Logo size={22} />
            <span className={classes.scope}>{current.name}</span>
            <span className={classes.push}>
              <LiveIndicator compact />
            </span>
          </header>
          <Drawer
            opened={opened}
            onClose={menu.close}
            position="left"
            size={272}
            withCloseButton={false}
            padding={0}
            title={t.nav.label}
            classNames={{ header: classes.hidden, body: classes.drawer }}
          >
            <Sidebar />
          </Drawer>
          <main id="content" className={classes.content} tabIndex={-1}>
            <Outlet />
          </main>
        </div>
        <CommandPalette />
        <Notifications position="bottom-right" autoClose={4000} />
        <SessionWatch />
      </LiveProvider>
    </ScopeProvider>
  );
}
