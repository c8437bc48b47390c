import "@mantine/spotlight/styles.css";
import { useMantineColorScheme } from "@mantine/core";
import { Spotlight, type SpotlightActionGroupData } from "@mantine/spotlight";
import { IconBuilding, IconMoon, IconPlus, IconSearch, IconStack2 } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useDeployments } from "../hooks/useDeployments";
import { useScope } from "../hooks/useScope";
import { t } from "../i18n";
import { useNavGroups } from "./NavLinks";

const ICON = { size: 17, stroke: 1.6 };

/** ⌘K: pages, deployments, tenants and the things one does most. */
export function CommandPalette() {
  const { all, current } = useScope();
  const navigate = useNavigate();
  const { toggleColorScheme } = useMantineColorScheme();
  const deployments = useDeployments(current?.tenant);
  const pages = useNavGroups().flatMap((group) => group.pages);
  const scope = current?.slug ?? "";

  const groups: SpotlightActionGroupData[] = [
    {
      group: t.palette.pages,
      actions: pages.map(({ to, label, icon: Icon }) => ({
        id: to,
        label,
        leftSection: <Icon {...ICON} />,
        onClick: () => void navigate({ to: to as "/t/$scope/overview", params: { scope } }),
      })),
    },
    {
      group: t.palette.deployments,
      actions: (deployments.data ?? []).map((d) => ({
        id: d.id,
        label: d.name,
        description: `${d.model.name} · ${d.state.reason || d.state.state}`,
        leftSection: <IconStack2 {...ICON} />,
        onClick: () => void navigate({ to: "/t/$scope/deployments/$id", params: { scope, id: d.id } }),
      })),
    },
    {
      group: t.palette.actions,
      actions: [
        {
          id: "create-deployment",
          label: t.deployments.create,
          leftSection: <IconPlus {...ICON} />,
          onClick: () =>
            void navigate({ to: "/t/$scope/deployments", params: { scope }, search: { create: "true" } }),
        },
        {
          id: "create-key",
          label: t.keys.create,
          leftSection: <IconPlus {...ICON} />,
          onClick: () =>
            void navigate({ to: "/t/$scope/keys", params: { scope }, search: { create: "true" } }),
        },
        {
          id: "scheme",
          label: t.palette.scheme,
          leftSection: <IconMoon {...ICON} />,
          onClick: toggleColorScheme,
        },
      ],
    },
    {
      group: t.palette.tenants,
      actions: all.map((one) => ({
        id: `tenant-${one.slug}`,
        label: one.name,
        leftSection: <IconBuilding {...ICON} />,
        onClick: () => void navigate({ to: "/t/$scope/overview", params: { scope: one.slug } }),
      })),
    },
  ];

  return (
    <Spotlight
      actions={groups}
      shortcut={["mod + K", "/"]}
      nothingFound={t.palette.nothing}
      highlightQuery
      scrollable
      maxHeight={420}
      searchProps={{
        placeholder: t.palette.placeholder,
        "aria-label": t.palette.placeholder,
        leftSection: <IconSearch {...ICON} />,
      }}
    />
  );
}
