import type { Deployment } from "../../api/types";
import { FactGrid } from "../../components/FactGrid";
import { t } from "../../i18n";
import { LiveAttainment } from "./LiveAttainment";

export function DeploymentFacts({ deployment }: { deployment: Deployment }) {
  const words = t.deployments.facts;
  return (
    <FactGrid
      rows={[
        { label: words.model, value: deployment.model.name },
        { label: words.class, value: deployment.service_class.name },
        { label: words.attainment, value: <LiveAttainment deployment={deployment.id} /> },
        { label: words.replicas, value: words.readyOf(deployment.state.ready, deployment.state.wanted) },
        { label: words.tenant, value: deployment.tenant.name },
      ]}
    />
  );
}
