import { Button, Skeleton } from "@mantine/core";
import { IconMessage, IconRoute } from "@tabler/icons-react";
import { Link, useParams } from "@tanstack/react-router";
import type { Deployment } from "../../api/types";
import { BackLink } from "../../components/BackLink";
import { Loaded } from "../../components/Loaded";
import { PageHeader } from "../../components/PageHeader";
import { Panel } from "../../components/Panel";
import { Snippets } from "../../components/Snippets";
import { StatePill } from "../../components/StatePill";
import { UrlTabs } from "../../components/UrlTabs";
import { useDeployment } from "../../hooks/useDeployments";
import { useScope } from "../../hooks/useScope";
import { say, t } from "../../i18n";
import { DeploymentEvents } from "./DeploymentEvents";
import { DeploymentFacts } from "./DeploymentFacts";
import { DeploymentMenu } from "./DeploymentMenu";
import { DeploymentMetrics } from "./DeploymentMetrics";
import { DeploymentReplicas } from "./DeploymentReplicas";
import { DeploymentSettings } from "./DeploymentSettings";
import classes from "./Deployments.module.css";
import { OwnerBadge } from "./deploymentColumns";
import { LastFailure } from "./LastFailure";
import { ReplicaLogs } from "./ReplicaLogs";

const SKELETON = (
  <>
    <Skeleton height={34} width={260} mb="lg" />
    <Skeleton height={64} mb="lg" />
    <Skeleton height={320} />
  </>
);

export function DeploymentPage() {
  const { id } = useParams({ from: "/t/$scope/deployments/$id" });
  const found = useDeployment(id);
  return (
    <>
      <BackLink to="/t/$scope/deployments">{t.deployments.title}</BackLink>
      <Loaded query={found} skeleton={SKELETON}>
        {(deployment) => <Shown deployment={deployment} />}
      </Loaded>
    </>
  );
}

function Shown({ deployment }: { deployment: Deployment }) {
  const words = t.deployments;
  return (
    <>
      <PageHeader
        title={
          <>
            {deployment.name}
            <StatePill state={deployment.state.state} />
            <OwnerBadge deployment={deployment} />
          </>
        }
        subtitle={say(deployment.state.reason)}
      >
        <Actions deployment={deployment} />
      </PageHeader>
      {deployment.access === "contract" && (
        <p className={classes.notice}>{words.grantedText(deployment.tenant.name)}</p>
      )}
      <LastFailure deployment={deployment} />
      <DeploymentFacts deployment={deployment} />
      <UrlTabs
        label={words.tabs.label}
        tabs={[
          {
            id: "metrics",
            label: words.tabs.metrics,
            content: () => <DeploymentMetrics deployment={deployment} />,
          },
          {
            id: "replicas",
            label: words.tabs.replicas,
            content: () => <DeploymentReplicas deployment={deployment} />,
          },
          { id: "logs", label: words.tabs.logs, content: () => <ReplicaLogs deployment={deployment} /> },
          {
            id: "events",
            label: words.tabs.events,
            content: () => <DeploymentEvents deployment={deployment} />,
          },
          { id: "use", label: words.tabs.use, content: () => <UseIt deployment={deployment} /> },
          {
            id: "settings",
            label: words.tabs.settings,
            content: () => <DeploymentSettings deployment={deployment} />,
          },
        ]}
      />
    </>
  );
}

function Actions({ deployment }: { deployment: Deployment }) {
  const { current, canUse } = useScope();
  const scope = current?.slug ?? "";
  return (
    <>
      <Button
        component={Link}
        to={`/t/${scope}/decisions?deployment=${deployment.id}&range=30d`}
        variant="default"
        leftSection={<IconRoute size={16} stroke={1.6} />}
      >
        {t.nav.decisions}
      </Button>
      {canUse && (
        <Button
          component={Link}
          to={`/t/${scope}/playground?deployment=${deployment.id}`}
          variant="default"
          leftSection={<IconMessage size={16} stroke={1.6} />}
        >
          {t.deployments.open}
        </Button>
      )}
      <DeploymentMenu deployment={deployment} />
    </>
  );
}

function UseIt({ deployment }: { deployment: Deployment }) {
  return (
    <Panel title={t.deployments.useTitle}>
      <Snippets
        body={{
          model: deployment.name,
          messages: [{ role: "user", content: t.snippets.question }],
          stream: true,
        }}
      />
    </Panel>
  );
}
