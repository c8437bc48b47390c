import { Tabs } from "@mantine/core";
import type { ReactNode } from "react";
import { useUrl } from "../hooks/useUrl";
import classes from "./UrlTabs.module.css";

export interface TabItem {
  id: string;
  label: string;
  content: () => ReactNode;
}

/** Tabs whose choice is `?tab=`; only the chosen one's content is drawn. */
export function UrlTabs({ tabs, label }: { tabs: TabItem[]; label: string }) {
  const { values, set } = useUrl();
  const chosen = tabs.find((tab) => tab.id === values.tab) ?? tabs[0];
  if (!chosen) return null;
  return (
    <Tabs
      value={chosen.id}
      onChange={(id) => set({ tab: id === tabs[0]?.id ? undefined : (id ?? undefined) }, true)}
    >
      <Tabs.List aria-label={label} mb="md" className={classes.list}>
        {tabs.map((tab) => (
          <Tabs.Tab key={tab.id} value={tab.id}>
            {tab.label}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {tabs.map((tab) => (
        <Tabs.Panel key={tab.id} value={tab.id}>
          {tab.id === chosen.id && tab.content()}
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}
