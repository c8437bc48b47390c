import { IconFile } from "@tabler/icons-react";
import { useMemo } from "react";
import type { Model } from "../../api/types";
import { CopyButton } from "../../components/CopyButton";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Panel } from "../../components/Panel";
import { t } from "../../i18n";
import classes from "./Models.module.css";

interface FileRow {
  name: string;
  sha256: string;
}

const words = t.models.files;

const COLUMNS: Column<FileRow>[] = [
  {
    id: "name",
    accessorFn: (f) => f.name,
    header: words.name,
    sortFn: "text",
    cell: ({ row }) => <span className="mono">{row.original.name}</span>,
  },
  {
    id: "sha256",
    accessorFn: (f) => f.sha256,
    header: words.digest,
    enableSorting: false,
    cell: ({ row }) => <span className={`mono ${classes.sub}`}>{row.original.sha256}</span>,
  },
];

/** The files that replicas load, each by its hash; copied in the form that `sha256sum -c` reads. */
export function ModelFiles({ model }: { model: Model }) {
  const rows = useMemo(
    () => Object.entries(model.files).map(([name, sha256]): FileRow => ({ name, sha256 })),
    [model.files],
  );
  const sums = rows.map((file) => `${file.sha256}  ${file.name}`).join("\n");
  return (
    <Panel
      title={t.models.tabs.files}
      aside={rows.length > 0 && <CopyButton value={sums} label={words.copy} />}
      flush
    >
      <DataTable
        label={t.models.tabs.files}
        rows={rows}
        columns={COLUMNS}
        rowId={(f) => f.name}
        testId="files"
        empty={
          <EmptyState icon={<IconFile size={20} stroke={1.6} />} title={words.empty} text={words.emptyText} />
        }
      />
    </Panel>
  );
}
