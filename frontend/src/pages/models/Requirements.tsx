import type { Model } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { Panel } from "../../components/Panel";
import { t } from "../../i18n";
import { bytes } from "../../lib/format";

type Row = Model["requirements"][number];

const words = t.models.requirements;

const COLUMNS: Column<Row>[] = [
  {
    id: "engine",
    accessorFn: (r) => r.engine,
    header: words.engine,
    sortFn: "text",
    cell: ({ row }) => t.deployments.form.engines[row.original.engine],
  },
  {
    id: "dtype",
    accessorFn: (r) => r.dtype,
    header: words.dtype,
    sortFn: "text",
    cell: ({ row }) => row.original.dtype,
  },
  {
    id: "kv",
    accessorFn: (r) => r.kv_dtype,
    header: words.kvDtype,
    sortFn: "text",
    cell: ({ row }) => t.deployments.form.kvDtypes[row.original.kv_dtype],
  },
  {
    id: "weights",
    accessorFn: (r) => r.weights_bytes,
    header: words.weights,
    sortFn: "basic",
    meta: { end: true, hide: "phone" },
    cell: ({ row }) => bytes(row.original.weights_bytes),
  },
  {
    id: "perToken",
    accessorFn: (r) => r.kv_bytes_per_token,
    header: words.kv,
    sortFn: "basic",
    meta: { end: true, hide: "phone" },
    cell: ({ row }) => bytes(row.original.kv_bytes_per_token),
  },
  {
    id: "least",
    accessorFn: (r) => r.smallest_bytes,
    header: words.least,
    sortFn: "basic",
    meta: { end: true },
    cell: ({ row }) => bytes(row.original.smallest_bytes),
  },
];

/** What one replica takes in each way the model can be run. */
export function Requirements({ model }: { model: Model }) {
  if (model.requirements.length === 0) return null;
  return (
    <Panel title={words.title} hint={words.hint} flush>
      <DataTable
        label={words.title}
        rows={model.requirements}
        columns={COLUMNS}
        rowId={(r) => `${r.engine} ${r.dtype} ${r.kv_dtype}`}
        empty={null}
        testId="requirements"
      />
    </Panel>
  );
}
