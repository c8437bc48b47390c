import { Button, Select } from "@mantine/core";
import { IconBox, IconPlus } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import type { Model } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { PageHeader } from "../../components/PageHeader";
import { Panel } from "../../components/Panel";
import { SearchInput } from "../../components/SearchInput";
import { useDeployments } from "../../hooks/useDeployments";
import { useModels } from "../../hooks/useModels";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import classes from "./Models.module.css";
import { modelColumns } from "./modelColumns";
import { RegisterDrawer } from "./RegisterDrawer";

const STATES = ["ready", "registering", "failed", "cancelled"] as const;

function matches(model: Model, q: string, state: string | undefined): boolean {
  if (state && model.state !== state) return false;
  const text = `${model.name} ${model.architecture} ${model.source_format} ${model.licence}`.toLowerCase();
  return text.includes(q.trim().toLowerCase());
}

export function ModelsPage() {
  const { q = "", state, register, watch } = useSearch({ from: "/t/$scope/models" });
  const navigate = useNavigate({ from: "/t/$scope/models" });
  const { current, canChange } = useScope();
  const models = useModels(current?.tenant);
  const deployments = useDeployments(current?.tenant);
  const set = useCallback(
    (change: Record<string, string | undefined>) =>
      void navigate({ search: (s) => ({ ...s, ...change }), replace: true }),
    [navigate],
  );
  const find = useCallback((text: string) => set({ q: text || undefined }), [set]);
  const columns = useMemo(() => {
    const all = deployments.data;
    return modelColumns((model) => all?.filter((d) => d.model.id === model.id).length);
  }, [deployments.data]);
  const rows = useMemo(
    () => models.data?.filter((model) => matches(model, q, state)),
    [models.data, q, state],
  );
  const filtered = (models.data?.length ?? 0) > 0;
  const registerButton = canChange && (
    <Button
      leftSection={<IconPlus size={16} />}
      onClick={() => set({ register: "1" })}
      data-testid="register-model"
    >
      {t.models.register}
    </Button>
  );
  return (
    <>
      <PageHeader title={t.models.title} subtitle={t.models.subtitle}>
        {registerButton}
      </PageHeader>
      <div className={classes.filters}>
        <SearchInput label={t.models.search} value={q} onChange={find} className={classes.search} />
        <Select
          aria-label={t.models.filterState}
          placeholder={t.models.anyState}
          data={STATES.map((value) => ({ value, label: t.states[value] }))}
          value={state ?? null}
          onChange={(value) => set({ state: value ?? undefined })}
          clearable
          w={150}
        />
      </div>
      <Panel flush>
        {models.error && !models.data ? (
          <ErrorState error={models.error} retry={() => models.refetch()} />
        ) : (
          <DataTable
            label={t.models.title}
            rows={rows}
            columns={columns}
            rowId={(m) => m.id}
            testId="models"
            empty={
              <EmptyState
                icon={<IconBox size={20} stroke={1.6} />}
                title={filtered ? t.models.noMatch : t.models.empty}
                text={filtered ? t.models.noMatchText : canChange ? t.models.emptyText : t.models.emptyReader}
              >
                {filtered ? (
                  <Button variant="default" onClick={() => navigate({ search: {} })}>
                    {t.models.clear}
                  </Button>
                ) : (
                  registerButton
                )}
              </EmptyState>
            }
          />
        )}
      </Panel>
      {canChange && (
        <RegisterDrawer
          opened={register !== undefined}
          watched={watch}
          onWatch={(id) => set({ watch: id })}
          onClose={() => set({ register: undefined, watch: undefined })}
        />
      )}
    </>
  );
}
