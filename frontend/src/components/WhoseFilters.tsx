import { useClasses } from "../hooks/useClasses";
import type { ListState } from "../hooks/useList";
import { tenantOptions, useScope } from "../hooks/useScope";
import { FilterName, FilterSelect } from "./FilterBar";

export type Whose = "tenant" | "deployment" | "class" | "key" | "member";

/** Whose requests, and to what. `member` comes from links only: it is shown where it is set, so that it can be taken away. */
export function WhoseFilters({ list, words }: { list: ListState<Whose>; words: Record<Whose, string> }) {
  const { current, all } = useScope();
  const tenant = current?.tenant;
  const levels = useClasses();
  return (
    <>
      {!tenant && (
        <FilterSelect list={list} name="tenant" label={words.tenant} options={tenantOptions(all)} />
      )}
      <FilterName list={list} name="deployment" label={words.deployment} kind="deployment" tenant={tenant} />
      <FilterSelect
        list={list}
        name="class"
        label={words.class}
        options={(levels.data ?? []).map((one) => ({ value: one.name, label: one.name }))}
      />
      <FilterName list={list} name="key" label={words.key} kind="key" tenant={tenant} />
      {list.values.member && <FilterSelect list={list} name="member" label={words.member} options={[]} />}
    </>
  );
}
