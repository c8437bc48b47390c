import { IconActivity, IconKey, IconMessage, IconStack2 } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useScope } from "../hooks/useScope";
import { t } from "../i18n";
import classes from "./NavLinks.module.css";

export const PAGES = [
  { to: "/t/$scope/overview", label: t.nav.overview, icon: IconActivity },
  { to: "/t/$scope/deployments", label: t.nav.deployments, icon: IconStack2 },
  { to: "/t/$scope/playground", label: t.nav.playground, icon: IconMessage },
  { to: "/t/$scope/keys", label: t.nav.keys, icon: IconKey },
] as const;

export function NavLinks() {
  const { current } = useScope();
  if (!current) return null;
  return (
    <nav aria-label={t.nav.label} className={classes.nav}>
      {PAGES.map(({ to, label, icon: Icon }) => (
        <Link
          key={to}
          to={to}
          params={{ scope: current.slug }}
          className={classes.link}
          activeProps={{ "data-active": true }}
        >
          <Icon size={17} stroke={1.6} aria-hidden="true" />
          {label}
        </Link>
      ))}
    </nav>
  );
}
