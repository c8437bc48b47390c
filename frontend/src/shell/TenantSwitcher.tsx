import { Menu, UnstyledButton, VisuallyHidden } from "@mantine/core";
import { IconBuildingLighthouse, IconCheck, IconSelector } from "@tabler/icons-react";
import { useNavigate, useRouterState } from "@tanstack/react-router";
import { PLATFORM, type Scope, useScope } from "../hooks/useScope";
import { t } from "../i18n";
import classes from "./TenantSwitcher.module.css";

function Badge({ scope }: { scope: Scope }) {
  return (
    <span className={classes.badge} aria-hidden="true">
      {scope.slug === PLATFORM ? (
        <IconBuildingLighthouse size={14} stroke={1.8} />
      ) : (
        scope.name.slice(0, 1).toUpperCase()
      )}
    </span>
  );
}

/** Keeps the page and changes the tenant; a deployment's own page falls back to the list. */
export function TenantSwitcher() {
  const { all, current } = useScope();
  const navigate = useNavigate();
  const page = useRouterState({ select: (s) => s.location.pathname.split("/")[3] ?? "overview" });
  if (!current) return null;
  const go = (slug: string) =>
    navigate({ to: `/t/$scope/${page}` as "/t/$scope/overview", params: { scope: slug } });
  return (
    <Menu position="bottom-start" width={228}>
      <Menu.Target>
        <UnstyledButton className={classes.target} data-testid="tenant-switcher">
          <VisuallyHidden>{`${t.scope.switch}: `}</VisuallyHidden>
          <Badge scope={current} />
          <span className={classes.name}>{current.name}</span>
          <IconSelector size={15} stroke={1.6} aria-hidden="true" />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown className={classes.dropdown}>
        <Menu.Label>{t.scope.switch}</Menu.Label>
        {all.map((scope) => (
          <Menu.Item
            key={scope.slug}
            leftSection={<Badge scope={scope} />}
            rightSection={scope.slug === current.slug ? <IconCheck size={14} /> : undefined}
            onClick={() => go(scope.slug)}
          >
            {scope.name}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
