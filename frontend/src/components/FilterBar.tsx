import { Button, Select } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import type { ListState } from "../hooks/useList";
import type { Named } from "../hooks/useNames";
import { t } from "../i18n";
import classes from "./FilterBar.module.css";
import { NameSelect } from "./NameSelect";
import { SearchInput } from "./SearchInput";

interface Props<Name extends string> {
  list: ListState<Name>;
  /** The search field's words; without them there is none. */
  search?: string;
  children?: ReactNode;
}

export function FilterBar<Name extends string>({ list, search, children }: Props<Name>) {
  const values = list.values as Record<string, string | undefined>;
  const [setSearch] = useState(() => (q: string) => list.set({ q: q || undefined } as never));
  return (
    <search className={classes.bar} aria-label={t.kit.filter.label}>
      {search && (
        <SearchInput label={search} value={values.q ?? ""} onChange={setSearch} className={classes.search} />
      )}
      {children}
      {list.filtered && (
        <Button
          variant="subtle"
          color="gray"
          leftSection={<IconX size={14} aria-hidden="true" />}
          onClick={list.clear}
        >
          {t.kit.filter.clear}
        </Button>
      )}
    </search>
  );
}

interface SelectProps<Name extends string> {
  list: ListState<Name>;
  name: Name;
  label: string;
  options: { value: string; label: string }[];
}

/** One choice of a filter, or any. */
export function FilterSelect<Name extends string>({ list, name, label, options }: SelectProps<Name>) {
  const value = list.values[name] ?? null;
  // A value from a link that is no option (yet) is shown all the same
  const data =
    value !== null && !options.some((o) => o.value === value)
      ? [...options, { value: value as string, label: value as string }]
      : options;
  return (
    <Select
      aria-label={label}
      placeholder={label}
      data={data}
      value={value}
      onChange={(next) => list.set({ [name]: next ?? undefined } as never)}
      clearable
      clearButtonProps={{ "aria-label": `${t.kit.filter.clear}: ${label}` }}
      searchable={options.length > 8}
      className={classes.select}
    />
  );
}

interface NameProps<Name extends string> {
  list: ListState<Name>;
  name: Name;
  label: string;
  kind: Named;
  tenant?: string;
}

/** One of thousands by its name, or any. */
export function FilterName<Name extends string>({ list, name, label, kind, tenant }: NameProps<Name>) {
  return (
    <NameSelect
      kind={kind}
      tenant={tenant}
      aria-label={label}
      placeholder={label}
      value={list.values[name] ?? null}
      onChange={(next) => list.set({ [name]: next ?? undefined } as never)}
      clearable
      clearButtonProps={{ "aria-label": `${t.kit.filter.clear}: ${label}` }}
      className={classes.select}
    />
  );
}
