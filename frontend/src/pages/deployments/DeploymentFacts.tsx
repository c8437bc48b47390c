import type { ReactNode } from "react";
import type { Deployment } from "../../api/types";
import { t } from "../../i18n";
import classes from "./Deployments.module.css";
import { LiveAttainment } from "./LiveAttainment";

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className={classes.fact}>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function DeploymentFacts({ deployment }: { deployment: Deployment }) {
  const words = t.deployments.facts;
  return (
    <dl className={classes.facts}>
      <Fact label={words.model}>{deployment.model.name}</Fact>
      <Fact label={words.class}>{deployment.service_class.name}</Fact>
      <Fact label={words.attainment}>
        <LiveAttainment deployment={deployment.id} />
      </Fact>
      <Fact label={words.replicas}>
        <span className="num">{words.readyOf(deployment.state.ready, deployment.state.wanted)}</span>
      </Fact>
      <Fact label={words.tenant}>{deployment.tenant.name}</Fact>
    </dl>
  );
}
