import {
  IconActivity,
  IconBox,
  IconBuilding,
  IconChartBar,
  IconHistory,
  IconKey,
  IconListSearch,
  IconMessage,
  IconPuzzle,
  IconRoute,
  IconServer2,
  IconSettings,
  IconShieldCheck,
  IconStack2,
  IconUsers,
} from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useScope } from "../hooks/useScope";
import { t } from "../i18n";
import classes from "./NavLinks.module.css";

/** `who`: left out, everyone who sees the tenant; `admin`: its owners and admins, too; operators see all. */
interface NavPage {
  to: string;
  label: string;
  icon: typeof IconActivity;
  who?: "operator" | "admin";
}

/** Every page, in the order and groups of the navigation and of the command palette. */
export const GROUPS: { label: string | null; pages: NavPage[] }[] = [
  { label: null, pages: [{ to: "/t/$scope/overview", label: t.nav.overview, icon: IconActivity }] },
  {
    label: t.nav.groups.serve,
    pages: [
      { to: "/t/$scope/deployments", label: t.nav.deployments, icon: IconStack2 },
      { to: "/t/$scope/models", label: t.nav.models, icon: IconBox },
      { to: "/t/$scope/playground", label: t.nav.playground, icon: IconMessage },
      { to: "/t/$scope/keys", label: t.nav.keys, icon: IconKey },
    ],
  },
  {
    label: t.nav.groups.promise,
    pages: [
      { to: "/t/$scope/slas", label: t.nav.slas, icon: IconShieldCheck },
      { to: "/t/$scope/requests", label: t.nav.requests, icon: IconListSearch },
      { to: "/t/$scope/usage", label: t.nav.usage, icon: IconChartBar },
    ],
  },
  {
    label: t.nav.groups.machines,
    pages: [
      { to: "/t/$scope/fleet", label: t.nav.fleet, icon: IconServer2, who: "operator" },
      { to: "/t/$scope/decisions", label: t.nav.decisions, icon: IconRoute, who: "operator" },
      { to: "/t/$scope/plans", label: t.nav.plans, icon: IconPuzzle, who: "operator" },
    ],
  },
  {
    label: t.nav.groups.record,
    pages: [
      { to: "/t/$scope/tenants", label: t.nav.tenants, icon: IconBuilding, who: "operator" },
      { to: "/t/$scope/members", label: t.nav.members, icon: IconUsers },
      { to: "/t/$scope/audit", label: t.nav.audit, icon: IconHistory, who: "admin" },
      { to: "/t/$scope/settings", label: t.nav.settings, icon: IconSettings },
    ],
  },
];

/** The groups with the pages that this person may see in the tenant at hand; no empty group. */
export function useNavGroups(): typeof GROUPS {
  const { operator, canChange } = useScope();
  const seen = ({ who }: NavPage) => !who || operator || (who === "admin" && canChange);
  return GROUPS.map((group) => ({ ...group, pages: group.pages.filter(seen) })).filter(
    (group) => group.pages.length > 0,
  );
}

export function NavLinks() {
  const { current } = useScope();
  const groups = useNavGroups();
  if (!current) return null;
  return (
    <nav aria-label={t.nav.label} className={classes.nav}>
      {groups.map(({ label, pages }) => (
        <div key={label ?? ""} className={classes.group}>
          {label && <div className={classes.label}>{label}</div>}
          {pages.map(({ to, label, icon: Icon }) => (
            <Link
              key={to}
              to={to as "/t/$scope/overview"}
              params={{ scope: current.slug }}
              className={classes.link}
              activeProps={{ "data-active": true }}
            >
              <Icon size={17} stroke={1.6} aria-hidden="true" />
              {label}
            </Link>
          ))}
        </div>
      ))}
    </nav>
  );
}
