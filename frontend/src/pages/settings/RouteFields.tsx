import { MultiSelect, Switch, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import type { AlertRoute } from "../../api/types";
import { t } from "../../i18n";

export type RouteEvent = AlertRoute["events"][number];

export interface RouteValues {
  tenant: string;
  kind: AlertRoute["kind"];
  name: string;
  target: string;
  events: RouteEvent[];
  enabled: boolean;
}

/** What a new route and an old one have in common. */
export function RouteFields({ form }: { form: UseFormReturnType<RouteValues> }) {
  const words = t.settings.routes;
  const { kind } = form.values;
  return (
    <>
      <TextInput
        label={words.target[kind]}
        placeholder={words.placeholder[kind]}
        type={kind === "mail" ? "email" : "url"}
        required
        withAsterisk={false}
        {...form.getInputProps("target")}
      />
      <TextInput
        label={words.name}
        placeholder={words.namePlaceholder}
        maxLength={80}
        {...form.getInputProps("name")}
      />
      <MultiSelect
        label={words.events}
        placeholder={form.values.events.length === 0 ? words.allEvents : undefined}
        data={Object.entries(words.rules).map(([value, label]) => ({ value, label }))}
        clearable
        {...form.getInputProps("events")}
      />
      <Switch label={words.enabled} {...form.getInputProps("enabled", { type: "checkbox" })} />
    </>
  );
}
