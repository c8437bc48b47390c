import { FilterSelect } from "../../components/FilterBar";
import { useClasses } from "../../hooks/useClasses";
import { useDeployments } from "../../hooks/useDeployments";
import { useKeyNames } from "../../hooks/useKeyNames";
import type { ListState } from "../../hooks/useList";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { ASKED } from "./verdict";

type Name = "q" | "verdict" | "reason" | "tenant" | "deployment" | "class" | "key" | "member" | "replica";

const words = t.requests;
const VERDICT_OPTIONS = ASKED.map((value) => ({ value, label: words.verdicts[value] }));
const REASON_OPTIONS = Object.entries(t.reasons).map(([value, { label }]) => ({ value, label }));

/** `member` and `replica` come from links only: they are shown where one is set, so that it can be taken away. */
export function RequestFilters({ list }: { list: ListState<Name> }) {
  const { current, all } = useScope();
  const deployments = useDeployments(current?.tenant);
  const levels = useClasses();
  const keys = useKeyNames(current?.tenant);
  const named = (rows: { id: string; name: string }[] | undefined) =>
    (rows ?? []).map((one) => ({ value: one.id, label: one.name }));
  return (
    <>
      <FilterSelect list={list} name="verdict" label={words.filters.verdict} options={VERDICT_OPTIONS} />
      <FilterSelect list={list} name="reason" label={words.filters.reason} options={REASON_OPTIONS} />
      {!current?.tenant && (
        <FilterSelect
          list={list}
          name="tenant"
          label={words.filters.tenant}
          options={all.flatMap((one) => (one.tenant ? [{ value: one.tenant, label: one.name }] : []))}
        />
      )}
      <FilterSelect
        list={list}
        name="deployment"
        label={words.filters.deployment}
        options={named(deployments.data)}
      />
      <FilterSelect
        list={list}
        name="class"
        label={words.filters.class}
        options={(levels.data ?? []).map((one) => ({ value: one.name, label: one.name }))}
      />
      <FilterSelect list={list} name="key" label={words.filters.key} options={named(keys.data)} />
      {list.values.member && (
        <FilterSelect list={list} name="member" label={words.filters.member} options={[]} />
      )}
      {list.values.replica && (
        <FilterSelect list={list} name="replica" label={words.filters.replica} options={[]} />
      )}
    </>
  );
}
