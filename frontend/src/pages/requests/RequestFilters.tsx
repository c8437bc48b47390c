import { FilterSelect } from "../../components/FilterBar";
import { type Whose, WhoseFilters } from "../../components/WhoseFilters";
import type { ListState } from "../../hooks/useList";
import { t } from "../../i18n";
import { ASKED } from "./verdict";

type Name = Whose | "q" | "verdict" | "reason" | "replica";

const words = t.requests;
const VERDICT_OPTIONS = ASKED.map((value) => ({ value, label: words.verdicts[value] }));
const REASON_OPTIONS = Object.entries(t.reasons).map(([value, { label }]) => ({ value, label }));

/** `replica` comes from links only: it is shown where it is set, so that it can be taken away. */
export function RequestFilters({ list }: { list: ListState<Name> }) {
  return (
    <>
      <FilterSelect list={list} name="verdict" label={words.filters.verdict} options={VERDICT_OPTIONS} />
      <FilterSelect list={list} name="reason" label={words.filters.reason} options={REASON_OPTIONS} />
      <WhoseFilters list={list} words={words.filters} />
      {list.values.replica && (
        <FilterSelect list={list} name="replica" label={words.filters.replica} options={[]} />
      )}
    </>
  );
}
