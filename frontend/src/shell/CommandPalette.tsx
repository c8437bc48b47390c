import "@mantine/spotlight/styles.css";
import { useMantineColorScheme } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { Spotlight, type SpotlightActionData, type SpotlightActionGroupData } from "@mantine/spotlight";
import {
  IconArrowRight,
  IconBuilding,
  IconLanguage,
  IconMoon,
  IconPlus,
  IconSearch,
} from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useState } from "react";
import { useScope } from "../hooks/useScope";
import { useFound } from "../hooks/useSearchAll";
import { chooseLanguage, language, t } from "../i18n";
import { useNavGroups } from "./NavLinks";

const ICON = { size: 17, stroke: 1.6 };
const TYPING_MS = 150;
const TENANTS_AT_MOST = 30;

/** What the server finds for the words, wherever this person may look. */
function useResults(text: string): SpotlightActionData[] {
  const { current } = useScope();
  const navigate = useNavigate();
  const [words] = useDebouncedValue(text.trim(), TYPING_MS);
  const found = useFound(words, current?.tenant);
  return (found.data ?? []).map((one) => ({
    id: `${one.kind}-${one.id}`,
    label: one.name,
    // What was typed may be an id: it has to be found in the row, too
    keywords: [words, one.id],
    description: [t.palette.kinds[one.kind] ?? one.kind, one.tenant?.name].filter(Boolean).join(" · "),
    leftSection: <IconArrowRight {...ICON} />,
    onClick: () => void navigate({ href: `/t/${one.tenant?.slug ?? current?.slug ?? ""}${one.url}` }),
  }));
}

function useActions(): SpotlightActionData[] {
  const { current, operator, canChange, canUse } = useScope();
  const navigate = useNavigate();
  const { toggleColorScheme } = useMantineColorScheme();
  const scope = current?.slug ?? "";
  const create = (id: string, label: string, path: string): SpotlightActionData => ({
    id,
    label,
    leftSection: <IconPlus {...ICON} />,
    onClick: () => void navigate({ href: `/t/${scope}/${path}` }),
  });
  return [
    ...(canChange ? [create("create-deployment", t.deployments.create, "deployments?create=true")] : []),
    ...(canUse ? [create("create-key", t.keys.create, "keys?create=true")] : []),
    ...(canChange ? [create("invite", t.members.invite, "members?invite=true")] : []),
    ...(operator ? [create("create-tenant", t.tenants.create, "tenants?create=true")] : []),
    {
      id: "scheme",
      label: t.palette.scheme,
      leftSection: <IconMoon {...ICON} />,
      onClick: toggleColorScheme,
    },
    {
      id: "language",
      label: t.palette.language,
      leftSection: <IconLanguage {...ICON} />,
      onClick: () => chooseLanguage(language() === "en" ? "zh" : "en"),
    },
  ];
}

/** ⌘K: pages, what one does most, tenants, and everything the server finds. */
export function CommandPalette() {
  const { all, current } = useScope();
  const navigate = useNavigate();
  const [query, setQuery] = useState("");
  const [opened, setOpened] = useState(false);
  // The field is there at once, what can be chosen follows
  const filled = useDeferredValue(opened);
  const results = useResults(query);
  const actions = useActions();
  const scope = current?.slug ?? "";
  const pages = useNavGroups().flatMap((group) => group.pages);
  const groups: SpotlightActionGroupData[] = [
    { group: t.palette.results, actions: results },
    {
      group: t.palette.pages,
      actions: pages.map(({ to, label, icon: Icon }) => ({
        id: to,
        label,
        leftSection: <Icon {...ICON} />,
        onClick: () => void navigate({ to: to as "/t/$scope/overview", params: { scope } }),
      })),
    },
    { group: t.palette.actions, actions },
    {
      group: t.palette.tenants,
      actions: all.slice(0, TENANTS_AT_MOST).map((one) => ({
        id: `tenant-${one.slug}`,
        label: one.name,
        leftSection: <IconBuilding {...ICON} />,
        onClick: () => void navigate({ to: "/t/$scope/overview", params: { scope: one.slug } }),
      })),
    },
  ].filter((group) => group.actions.length > 0);
  return (
    <Spotlight
      actions={filled ? groups : []}
      onSpotlightOpen={() => setOpened(true)}
      onSpotlightClose={() => setOpened(false)}
      query={query}
      onQueryChange={setQuery}
      shortcut={["mod + K", "/"]}
      nothingFound={filled && t.palette.nothing}
      highlightQuery
      scrollable
      maxHeight={420}
      // No blur: it would be worked out anew with each letter, on the processor where there is no graphics card
      overlayProps={{ backgroundOpacity: 0.45 }}
      searchProps={{
        placeholder: t.palette.placeholder,
        "aria-label": t.palette.placeholder,
        leftSection: <IconSearch {...ICON} />,
      }}
    />
  );
}
