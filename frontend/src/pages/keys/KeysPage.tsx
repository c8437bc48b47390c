import { Button, SegmentedControl } from "@mantine/core";
import { IconKey, IconPlus } from "@tabler/icons-react";
import { useCallback, useMemo, useState } from "react";
import type { Key } from "../../api/types";
import { BudgetUse } from "../../components/BudgetUse";
import { EmptyState } from "../../components/EmptyState";
import { FilterBar } from "../../components/FilterBar";
import { PageHeader } from "../../components/PageHeader";
import { ResourceTable } from "../../components/ResourceTable";
import { useBudgets } from "../../hooks/useBudgets";
import { useKeyPage } from "../../hooks/useKeys";
import { useList } from "../../hooks/useList";
import { useMe } from "../../hooks/useMe";
import { useScope } from "../../hooks/useScope";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { CreateKeyModal } from "./CreateKeyModal";
import { EditKeyDrawer } from "./EditKeyDrawer";
import classes from "./Keys.module.css";
import { keyColumns } from "./keyColumns";
import { RevokeKeyModal } from "./RevokeKeyModal";
import { RotateKeyModal } from "./RotateKeyModal";

export function KeysPage() {
  const { values, set } = useUrl();
  const { current, canUse, canChange } = useScope();
  const { data: me } = useMe();
  const list = useList({ filters: ["q"], sort: "-created_at" });
  const all = values.show === "all";
  const keys = useKeyPage(current?.tenant, list.query, all);
  const budgets = useBudgets("key", current?.tenant);
  const tenants = useBudgets("tenant", current?.tenant);
  const whole = current?.tenant ? tenants.of(current.tenant) : [];
  const [revoking, setRevoking] = useState<Key | null>(null);
  const [rotating, setRotating] = useState<Key | null>(null);
  const email = me?.user.email;
  const mayChange = useCallback(
    (key: Key) => !key.revoked_at && (canChange || (canUse && key.created_by === email)),
    [canChange, canUse, email],
  );
  const columns = useMemo(
    () =>
      keyColumns(
        {
          mayChange,
          edit: (key) => set({ edit: key.id }, true),
          rotate: setRotating,
          revoke: setRevoking,
        },
        budgets,
      ),
    [mayChange, set, budgets],
  );
  const createButton = canUse && (
    <Button
      leftSection={<IconPlus size={16} />}
      onClick={() => set({ create: "true" })}
      data-testid="create-key"
    >
      {t.keys.create}
    </Button>
  );
  return (
    <>
      <PageHeader title={t.keys.title} subtitle={t.keys.subtitle}>
        {createButton}
      </PageHeader>
      {whole.length > 0 && (
        <section className={classes.whole} aria-label={t.kit.budgets.ofTenant}>
          <span className={classes.note}>{t.kit.budgets.ofTenant}</span>
          <BudgetUse budgets={whole} currency={tenants.currency} />
        </section>
      )}
      <FilterBar list={list} search={t.keys.search}>
        <SegmentedControl
          aria-label={t.keys.show}
          data={[
            { value: "active", label: t.keys.active },
            { value: "all", label: t.keys.all },
          ]}
          value={all ? "all" : "active"}
          onChange={(value) => set({ show: value === "all" ? "all" : undefined, cursor: undefined })}
        />
      </FilterBar>
      <ResourceTable<Key>
        list={list}
        page={keys}
        columns={columns}
        rowId={(key) => key.id}
        label={t.keys.title}
        testId="keys"
        empty={
          <EmptyState
            icon={<IconKey size={20} stroke={1.6} />}
            title={t.keys.empty}
            text={canUse ? t.keys.emptyText : t.keys.emptyTextViewer}
          >
            {createButton}
          </EmptyState>
        }
      />
      <CreateKeyModal
        opened={values.create === "true" && canUse}
        onClose={() => set({ create: undefined })}
      />
      <EditKeyDrawer id={values.edit} mayChange={mayChange} onClose={() => set({ edit: undefined })} />
      <RotateKeyModal apiKey={rotating} onClose={() => setRotating(null)} />
      <RevokeKeyModal apiKey={revoking} onClose={() => setRevoking(null)} />
    </>
  );
}
