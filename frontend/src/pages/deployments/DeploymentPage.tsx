import { Button, Skeleton, Tabs } from "@mantine/core";
import { IconArrowLeft, IconMessage } from "@tabler/icons-react";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ErrorState } from "../../components/ErrorState";
import { PageHeader } from "../../components/PageHeader";
import { Panel } from "../../components/Panel";
import { Snippets } from "../../components/Snippets";
import { StatePill } from "../../components/StatePill";
import { useDeployment } from "../../hooks/useDeployments";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { DeploymentFacts } from "./DeploymentFacts";
import { DeploymentMenu } from "./DeploymentMenu";
import { DeploymentMetrics } from "./DeploymentMetrics";
import { DeploymentReplicas } from "./DeploymentReplicas";
import { DeploymentSettings } from "./DeploymentSettings";
import classes from "./Deployments.module.css";
import { LastFailure } from "./LastFailure";
import { ReplicaLogs } from "./ReplicaLogs";

const TABS = ["metrics", "replicas", "logs", "use", "settings"] as const;
type Tab = (typeof TABS)[number];

export function DeploymentPage() {
  const { id } = useParams({ from: "/t/$scope/deployments/$id" });
  const search = useSearch({ from: "/t/$scope/deployments/$id" });
  const navigate = useNavigate({ from: "/t/$scope/deployments/$id" });
  const { current, canUse } = useScope();
  const found = useDeployment(id);
  const scope = current?.slug ?? "";
  const tab: Tab = TABS.find((one) => one === search.tab) ?? "metrics";
  const deployment = found.data;
  const open = (next: string | null) =>
    navigate({ search: (s) => ({ ...s, tab: next === "metrics" ? undefined : (next ?? undefined) }) });

  const back = (
    <Link className={classes.back} to="/t/$scope/deployments" params={{ scope }}>
      <IconArrowLeft size={14} aria-hidden="true" />
      {t.deployments.title}
    </Link>
  );
  if (found.error && !deployment) {
    return (
      <>
        {back}
        <Panel>
          <ErrorState error={found.error} retry={() => found.refetch()} />
        </Panel>
      </>
    );
  }
  if (!deployment) {
    return (
      <>
        {back}
        <Skeleton height={34} width={260} mb="lg" />
        <Skeleton height={64} mb="lg" />
        <Skeleton height={320} />
      </>
    );
  }
  return (
    <>
      {back}
      <PageHeader
        title={
          <>
            {deployment.name}
            <StatePill state={deployment.state.state} />
          </>
        }
        subtitle={deployment.state.reason}
      >
        {canUse && (
          <Button
            component={Link}
            to={`/t/${scope}/playground?deployment=${id}`}
            variant="default"
            leftSection={<IconMessage size={16} stroke={1.6} />}
          >
            {t.deployments.open}
          </Button>
        )}
        <DeploymentMenu deployment={deployment} />
      </PageHeader>
      <LastFailure deployment={deployment} />
      <DeploymentFacts deployment={deployment} />
      <Tabs value={tab} onChange={open} keepMounted={false}>
        <Tabs.List mb="md" className={classes.tabs}>
          {TABS.map((one) => (
            <Tabs.Tab key={one} value={one}>
              {t.deployments.tabs[one]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="metrics">
          <DeploymentMetrics deployment={deployment} />
        </Tabs.Panel>
        <Tabs.Panel value="replicas">
          <DeploymentReplicas deployment={deployment} />
        </Tabs.Panel>
        <Tabs.Panel value="logs">
          <ReplicaLogs
            deployment={deployment}
            replica={search.replica}
            onReplica={(replica) => navigate({ search: (s) => ({ ...s, replica }) })}
          />
        </Tabs.Panel>
        <Tabs.Panel value="use">
          <Panel title={t.deployments.useTitle}>
            <Snippets
              body={{
                model: deployment.name,
                messages: [{ role: "user", content: t.snippets.question }],
                stream: true,
              }}
            />
          </Panel>
        </Tabs.Panel>
        <Tabs.Panel value="settings">
          <DeploymentSettings deployment={deployment} />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}
