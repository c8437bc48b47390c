import { Button } from "@mantine/core";
import { IconBuilding, IconPlus } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { Tenant } from "../../api/types";
import { EmptyState } from "../../components/EmptyState";
import { FilterBar } from "../../components/FilterBar";
import { PageHeader } from "../../components/PageHeader";
import { ResourceTable } from "../../components/ResourceTable";
import { useBudgets } from "../../hooks/useBudgets";
import { useList } from "../../hooks/useList";
import { useScope } from "../../hooks/useScope";
import { useTenantList } from "../../hooks/useTenantAdmin";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { CreateTenantDrawer } from "./CreateTenantDrawer";
import { EditTenantDrawer } from "./EditTenantDrawer";
import { QuotaDrawer } from "./QuotaDrawer";
import { SuspendModal } from "./SuspendModal";
import { tenantColumns } from "./tenantColumns";

export function TenantsPage() {
  const { operator } = useScope();
  const { values, set } = useUrl();
  const navigate = useNavigate();
  const list = useList({ filters: ["q"], sort: "-created_at" });
  const tenants = useTenantList(list.query);
  const budgets = useBudgets("tenant", undefined);
  const [suspending, setSuspending] = useState<Tenant | null>(null);
  const columns = useMemo(
    () =>
      tenantColumns(
        {
          open: (one) => void navigate({ to: "/t/$scope/overview", params: { scope: one.slug } }),
          edit: (one) => set({ edit: one.id }, true),
          quota: (one) => set({ quota: one.id }, true),
          suspend: setSuspending,
        },
        budgets,
      ),
    [navigate, set, budgets],
  );
  const create = operator && (
    <Button
      leftSection={<IconPlus size={16} />}
      onClick={() => set({ create: "true" }, true)}
      data-testid="create-tenant"
    >
      {t.tenants.create}
    </Button>
  );
  return (
    <>
      <PageHeader title={t.tenants.title} subtitle={t.tenants.subtitle}>
        {create}
      </PageHeader>
      <FilterBar list={list} search={t.tenants.search} />
      <ResourceTable<Tenant>
        list={list}
        page={tenants}
        columns={columns}
        rowId={(one) => one.id}
        label={t.tenants.title}
        testId="tenants"
        onOpen={(one) => set({ edit: one.id }, true)}
        empty={
          <EmptyState
            icon={<IconBuilding size={20} stroke={1.6} />}
            title={t.tenants.empty}
            text={t.tenants.emptyText}
          >
            {create}
          </EmptyState>
        }
      />
      <CreateTenantDrawer
        opened={values.create === "true" && operator}
        onClose={() => set({ create: undefined })}
      />
      <EditTenantDrawer id={values.edit} onClose={() => set({ edit: undefined })} />
      <QuotaDrawer id={values.quota} onClose={() => set({ quota: undefined })} />
      <SuspendModal tenant={suspending} onClose={() => setSuspending(null)} />
    </>
  );
}
