import { useClasses } from "../hooks/useClasses";
import { useDeployments } from "../hooks/useDeployments";
import { useKeyNames } from "../hooks/useKeyNames";
import type { ListState } from "../hooks/useList";
import { tenantOptions, useScope } from "../hooks/useScope";
import { FilterSelect } from "./FilterBar";

export type Whose = "tenant" | "deployment" | "class" | "key" | "member";

const named = (rows: { id: string; name: string }[] | undefined) =>
  (rows ?? []).map((one) => ({ value: one.id, label: one.name }));

/** Whose requests, and to what. `member` comes from links only: it is shown where it is set, so that it can be taken away. */
export function WhoseFilters({ list, words }: { list: ListState<Whose>; words: Record<Whose, string> }) {
  const { current, all } = useScope();
  const deployments = useDeployments(current?.tenant);
  const levels = useClasses();
  const keys = useKeyNames(current?.tenant);
  return (
    <>
      {!current?.tenant && (
        <FilterSelect list={list} name="tenant" label={words.tenant} options={tenantOptions(all)} />
      )}
      <FilterSelect
        list={list}
        name="deployment"
        label={words.deployment}
        options={named(deployments.data)}
      />
      <FilterSelect
        list={list}
        name="class"
        label={words.class}
        options={(levels.data ?? []).map((one) => ({ value: one.name, label: one.name }))}
      />
      <FilterSelect list={list} name="key" label={words.key} options={named(keys.data)} />
      {list.values.member && <FilterSelect list={list} name="member" label={words.member} options={[]} />}
    </>
  );
}
