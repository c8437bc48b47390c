import { Button } from "@mantine/core";
import { IconPlus, IconStack2 } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { EmptyState } from "../../components/EmptyState";
import { FilterBar, FilterSelect } from "../../components/FilterBar";
import { PageHeader } from "../../components/PageHeader";
import { ResourceTable } from "../../components/ResourceTable";
import { useDeploymentPage } from "../../hooks/useDeployments";
import { useList } from "../../hooks/useList";
import { useModels } from "../../hooks/useModels";
import { useScope } from "../../hooks/useScope";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { CreateDeploymentDrawer } from "./CreateDeploymentDrawer";
import { deploymentColumns } from "./deploymentColumns";
import { Registering } from "./Registering";

const WANTED = ["running", "stopped"] as const;

export function DeploymentsPage() {
  const { values, set } = useUrl();
  const navigate = useNavigate();
  const { current, canChange } = useScope();
  const list = useList({ filters: ["q", "desired_state", "model"], sort: "-created_at" });
  const page = useDeploymentPage({ ...list.query, tenant: current?.tenant });
  const models = useModels(current?.tenant);
  const columns = useMemo(() => deploymentColumns(!current?.tenant), [current?.tenant]);
  // From "Deploy" of a model the parameter names the model to start from; it filters nothing then.
  const creating = canChange && values.create !== undefined;
  const createButton = canChange && (
    <Button
      leftSection={<IconPlus size={16} />}
      onClick={() => set({ create: "true" })}
      data-testid="create-deployment"
    >
      {t.deployments.create}
    </Button>
  );
  const open = (id: string) =>
    void navigate({ to: "/t/$scope/deployments/$id", params: { scope: current?.slug ?? "", id } });
  return (
    <>
      <PageHeader title={t.deployments.title} subtitle={t.deployments.subtitle}>
        {createButton}
      </PageHeader>
      <Registering />
      <FilterBar list={list} search={t.deployments.search}>
        <FilterSelect
          list={list}
          name="desired_state"
          label={t.deployments.anyState}
          options={WANTED.map((value) => ({ value, label: t.deployments.wanted[value] }))}
        />
        <FilterSelect
          list={list}
          name="model"
          label={t.deployments.anyModel}
          options={(models.data ?? []).map((model) => ({ value: model.id, label: model.name }))}
        />
      </FilterBar>
      <ResourceTable
        list={list}
        page={page}
        columns={columns}
        rowId={(d) => d.id}
        label={t.deployments.title}
        testId="deployments"
        onOpen={(d) => open(d.id)}
        empty={
          <EmptyState
            icon={<IconStack2 size={20} stroke={1.6} />}
            title={t.deployments.empty}
            text={t.deployments.emptyText}
          >
            {createButton}
          </EmptyState>
        }
      />
      <CreateDeploymentDrawer
        key={creating ? (values.of ?? "new") : "closed"}
        opened={creating}
        model={values.of}
        onClose={() => set({ create: undefined, of: undefined })}
      />
    </>
  );
}
