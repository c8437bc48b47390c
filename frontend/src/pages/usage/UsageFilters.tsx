import { FilterSelect } from "../../components/FilterBar";
import { useClasses } from "../../hooks/useClasses";
import { useDeployments } from "../../hooks/useDeployments";
import { useKeyNames } from "../../hooks/useKeyNames";
import type { ListState } from "../../hooks/useList";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";

type Name = "tenant" | "member" | "key" | "deployment" | "class";

/** `member` comes from a row that was opened: it is shown where it is set, so that it can be taken away. */
export function UsageFilters({ list }: { list: ListState<Name> }) {
  const { current, all } = useScope();
  const deployments = useDeployments(current?.tenant);
  const levels = useClasses();
  const keys = useKeyNames(current?.tenant);
  const named = (rows: { id: string; name: string }[] | undefined) =>
    (rows ?? []).map((one) => ({ value: one.id, label: one.name }));
  const words = t.usage.groups;
  return (
    <>
      {!current?.tenant && (
        <FilterSelect
          list={list}
          name="tenant"
          label={words.tenant}
          options={all.flatMap((one) => (one.tenant ? [{ value: one.tenant, label: one.name }] : []))}
        />
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
