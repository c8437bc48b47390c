import { Button, Skeleton, Stack, Tabs } from "@mantine/core";
import { IconRocket, IconStack2 } from "@tabler/icons-react";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Model } from "../../api/types";
import { BackLink } from "../../components/BackLink";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Loaded } from "../../components/Loaded";
import { PageHeader } from "../../components/PageHeader";
import { Panel } from "../../components/Panel";
import { StatePill } from "../../components/StatePill";
import { useDeployments } from "../../hooks/useDeployments";
import { useModel } from "../../hooks/useModels";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { deploymentColumns } from "../deployments/deploymentColumns";
import { FitCheck } from "../deployments/FitCheck";
import { ModelFacts } from "./ModelFacts";
import { ModelFiles } from "./ModelFiles";
import { ModelMenu } from "./ModelMenu";
import classes from "./Models.module.css";
import { defaultFit } from "./modelFit";
import { RegistrationProgress } from "./RegistrationProgress";
import { Requirements } from "./Requirements";
import { Refused } from "./Watched";

const TABS = ["fit", "files", "deployments"] as const;
type Tab = (typeof TABS)[number];

const SKELETON = (
  <>
    <Skeleton height={34} width={260} mb="lg" />
    <Skeleton height={120} mb="lg" />
    <Skeleton height={240} />
  </>
);

export function ModelPage() {
  const { id } = useParams({ from: "/t/$scope/models/$id" });
  const found = useModel(id);
  return (
    <>
      <BackLink to="/t/$scope/models">{t.models.back}</BackLink>
      <Loaded query={found} skeleton={SKELETON}>
        {(model) => <Shown model={model} />}
      </Loaded>
    </>
  );
}

function Shown({ model }: { model: Model }) {
  const search = useSearch({ from: "/t/$scope/models/$id" });
  const navigate = useNavigate({ from: "/t/$scope/models/$id" });
  const { current, canChange } = useScope();
  const scope = current?.slug ?? "";
  const deployments = useDeployments(current?.tenant);
  const using = useMemo(
    () => deployments.data?.filter((d) => d.model.id === model.id),
    [deployments.data, model.id],
  );
  const tab: Tab = TABS.find((one) => one === search.tab) ?? "fit";
  return (
    <>
      <PageHeader
        title={
          <>
            {model.name}
            <StatePill state={model.state} />
          </>
        }
        subtitle={[t.models.kinds[model.source_kind], model.tenant && t.models.ownedBy(model.tenant.name)]
          .filter(Boolean)
          .join(" · ")}
      >
        {canChange && model.state === "ready" && (
          <Button
            component={Link}
            to={`/t/${scope}/deployments?create=true&of=${model.id}`}
            leftSection={<IconRocket size={16} stroke={1.6} />}
            data-testid="deploy-model"
          >
            {t.models.deploy}
          </Button>
        )}
        <ModelMenu
          model={model}
          used={using?.length}
          onDeleted={() => navigate({ to: "/t/$scope/models", params: { scope } })}
        />
      </PageHeader>
      <Coming model={model} />
      <ModelFacts model={model} />
      <Tabs
        value={tab}
        onChange={(next) => navigate({ search: (s) => ({ ...s, tab: next ?? undefined }), replace: true })}
        keepMounted={false}
      >
        <Tabs.List mb="md" className={classes.tabs}>
          {TABS.map((one) => (
            <Tabs.Tab key={one} value={one}>
              {t.models.tabs[one]}
              {one === "deployments" && using ? ` (${using.length})` : ""}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="fit">
          {model.state === "ready" && (
            <Stack gap="md">
              <FitCheck model={model.id} request={defaultFit(model)} />
              <Requirements model={model} />
            </Stack>
          )}
        </Tabs.Panel>
        <Tabs.Panel value="files">
          <ModelFiles model={model} />
        </Tabs.Panel>
        <Tabs.Panel value="deployments">
          <Panel flush>
            <DataTable
              label={t.models.tabs.deployments}
              rows={using}
              columns={deploymentColumns(!current?.tenant)}
              rowId={(d) => d.id}
              empty={
                <EmptyState
                  icon={<IconStack2 size={20} stroke={1.6} />}
                  title={t.models.deployments.empty}
                  text={t.models.deployments.emptyText}
                />
              }
            />
          </Panel>
        </Tabs.Panel>
      </Tabs>
    </>
  );
}

/** A model that is not there yet: how far it is, or why it was refused. */
function Coming({ model }: { model: Model }) {
  if (model.state === "ready") return null;
  if (model.state !== "registering") return <Refused model={model} />;
  return (
    <div className={classes.notice}>
      <RegistrationProgress model={model} />
    </div>
  );
}
