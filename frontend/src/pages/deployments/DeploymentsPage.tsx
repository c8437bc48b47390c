import { Button, Select, TextInput } from "@mantine/core";
import { IconPlus, IconSearch, IconStack2 } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Deployment } from "../../api/types";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { PageHeader } from "../../components/PageHeader";
import { Panel } from "../../components/Panel";
import { useDeployments } from "../../hooks/useDeployments";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { CreateDeploymentDrawer } from "./CreateDeploymentDrawer";
import classes from "./Deployments.module.css";
import { deploymentColumns } from "./deploymentColumns";
import { Registering } from "./Registering";

function matches(deployment: Deployment, q: string, state: string | undefined): boolean {
  if (state && deployment.state.state !== state) return false;
  const text = `${deployment.name} ${deployment.model.name} ${deployment.service_class.name}`.toLowerCase();
  return text.includes(q.trim().toLowerCase());
}

export function DeploymentsPage() {
  const { q = "", state, create } = useSearch({ from: "/t/$scope/deployments" });
  const navigate = useNavigate({ from: "/t/$scope/deployments" });
  const { current, canChange } = useScope();
  const deployments = useDeployments(current?.tenant);
  const columns = useMemo(() => deploymentColumns(!current?.tenant), [current?.tenant]);
  const rows = useMemo(
    () => deployments.data?.filter((d) => matches(d, q, state)),
    [deployments.data, q, state],
  );
  const states = [...new Set((deployments.data ?? []).map((d) => d.state.state))];
  const setCreate = (open: boolean) => navigate({ search: (s) => ({ ...s, create: open || undefined }) });
  const filtered = (deployments.data?.length ?? 0) > 0;

  const createButton = canChange && (
    <Button
      leftSection={<IconPlus size={16} />}
      onClick={() => setCreate(true)}
      data-testid="create-deployment"
    >
      {t.deployments.create}
    </Button>
  );
  return (
    <>
      <PageHeader title={t.deployments.title} subtitle={t.deployments.subtitle}>
        {createButton}
      </PageHeader>
      <Registering />
      <div className={classes.filters}>
        <TextInput
          aria-label={t.deployments.search}
          placeholder={t.deployments.search}
          leftSection={<IconSearch size={15} stroke={1.6} />}
          value={q}
          onChange={(e) =>
            navigate({ search: (s) => ({ ...s, q: e.target.value || undefined }), replace: true })
          }
          className={classes.search}
        />
        <Select
          aria-label={t.deployments.filterState}
          placeholder={t.deployments.anyState}
          data={states.map((value) => ({
            value,
            label: (t.states as Record<string, string>)[value] ?? value,
          }))}
          value={state ?? null}
          onChange={(value) =>
            navigate({ search: (s) => ({ ...s, state: value ?? undefined }), replace: true })
          }
          clearable
          w={150}
        />
      </div>
      <Panel flush>
        {deployments.error && !deployments.data ? (
          <ErrorState error={deployments.error} retry={() => deployments.refetch()} />
        ) : (
          <DataTable
            label={t.deployments.title}
            rows={rows}
            columns={columns}
            rowId={(d) => d.id}
            testId="deployments"
            empty={
              <EmptyState
                icon={<IconStack2 size={20} stroke={1.6} />}
                title={filtered ? t.deployments.noMatch : t.deployments.empty}
                text={filtered ? t.deployments.noMatchText : t.deployments.emptyText}
              >
                {filtered ? (
                  <Button variant="default" onClick={() => navigate({ search: {} })}>
                    {t.deployments.clear}
                  </Button>
                ) : (
                  createButton
                )}
              </EmptyState>
            }
          />
        )}
      </Panel>
      <CreateDeploymentDrawer opened={(create ?? false) && canChange} onClose={() => setCreate(false)} />
    </>
  );
}
