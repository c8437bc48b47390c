import { Button, SegmentedControl } from "@mantine/core";
import { IconKey, IconPlus } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { Key } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { PageHeader } from "../../components/PageHeader";
import { Panel } from "../../components/Panel";
import { useKeys } from "../../hooks/useKeys";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { CreateKeyModal } from "./CreateKeyModal";
import { keyColumns, keyState } from "./keyColumns";
import { RevokeKeyModal } from "./RevokeKeyModal";

export function KeysPage() {
  const { show, create } = useSearch({ from: "/t/$scope/keys" });
  const navigate = useNavigate({ from: "/t/$scope/keys" });
  const { current, canUse } = useScope();
  const keys = useKeys(current?.tenant);
  const [revoking, setRevoking] = useState<Key | null>(null);
  const all = show === "all";
  const columns = useMemo(() => keyColumns(canUse ? setRevoking : undefined), [canUse]);
  const rows = useMemo(() => keys.data?.filter((k) => all || keyState(k) === "active"), [keys.data, all]);
  const setCreate = (open: boolean) =>
    navigate({ search: (s) => ({ ...s, create: open ? "true" : undefined }) });

  const createButton = canUse && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => setCreate(true)} data-testid="create-key">
      {t.keys.create}
    </Button>
  );
  return (
    <>
      <PageHeader title={t.keys.title} subtitle={t.keys.subtitle}>
        <SegmentedControl
          aria-label={t.keys.show}
          data={[
            { value: "active", label: t.keys.active },
            { value: "all", label: t.keys.all },
          ]}
          value={all ? "all" : "active"}
          onChange={(value) =>
            navigate({ search: (s) => ({ ...s, show: value === "all" ? "all" : undefined }) })
          }
        />
        {createButton}
      </PageHeader>
      <Panel flush>
        {keys.error && !keys.data ? (
          <ErrorState error={keys.error} retry={() => keys.refetch()} />
        ) : (
          <DataTable
            label={t.keys.title}
            rows={rows}
            columns={columns}
            rowId={(k) => k.id}
            testId="keys"
            empty={
              <EmptyState
                icon={<IconKey size={20} stroke={1.6} />}
                title={t.keys.empty}
                text={t.keys.emptyText}
              >
                {createButton}
              </EmptyState>
            }
          />
        )}
      </Panel>
      <CreateKeyModal opened={create === "true" && canUse} onClose={() => setCreate(false)} />
      <RevokeKeyModal apiKey={revoking} onClose={() => setRevoking(null)} />
    </>
  );
}
