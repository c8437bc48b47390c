import { Select, type SelectProps } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Named, nameKey, useName, useNames } from "../hooks/useNames";
import { t } from "../i18n";

interface Props extends Omit<SelectProps, "data" | "value" | "onChange" | "searchValue" | "onSearchChange"> {
  kind: Named;
  tenant: string | undefined;
  value?: string | null;
  onChange: (id: string | null) => void;
}

const TYPING_MS = 200;
const MORE = " more";
/** The server has searched. */
const asGiven: SelectProps["filter"] = ({ options }) => options;

/** One of thousands by name: the server searches, a page of names is offered. */
export function NameSelect({ kind, tenant, value = null, onChange, ...select }: Props) {
  const queries = useQueryClient();
  const [typed, setTyped] = useState("");
  const [pausing] = useDebouncedValue(typed, TYPING_MS);
  const known = useName(kind, value || undefined);
  // The field shows the name of what is chosen: nobody searches for that
  const q = pausing === (known.data ?? value) ? "" : pausing.trim();
  const found = useNames(kind, q, tenant, !select.disabled);
  const options = (found.data?.names ?? []).map(({ id, name }) => ({
    value: id,
    label: name,
    disabled: false,
  }));
  if (value && !options.some((one) => one.value === value)) {
    options.unshift({ value, label: known.data ?? value, disabled: false });
  }
  if (found.data?.more) options.push({ value: MORE, label: t.kit.names.more, disabled: true });
  return (
    <Select
      {...select}
      data={options}
      value={value}
      onChange={(id, option) => {
        if (id && option) queries.setQueryData(nameKey(kind, id), option.label);
        onChange(id);
      }}
      searchable
      searchValue={typed}
      onSearchChange={setTyped}
      filter={asGiven}
      nothingFoundMessage={found.isPending ? t.loading : t.kit.names.none}
    />
  );
}
