import { Link } from "@tanstack/react-router";
import type { Deployment } from "../../api/types";
import { useReplicas } from "../../hooks/useReplicas";
import { useScope } from "../../hooks/useScope";
import { say, t } from "../../i18n";
import classes from "./Deployments.module.css";

/** While a deployment waits to be tried again its own reason is the wait; what failed stands with the ended replica. */
export function LastFailure({ deployment }: { deployment: Deployment }) {
  const { current } = useScope();
  const replicas = useReplicas(deployment.id);
  const { state } = deployment.state;
  if (state !== "starting" && state !== "degraded" && state !== "failed") return null;
  const failed = replicas.data?.find((r) => r.state === "failed" && r.reason);
  if (!failed || failed.reason === deployment.state.reason) return null;
  return (
    <p className={classes.failure} role="status" data-testid="last-failure">
      {t.deployments.lastFailure(say(failed.reason))}{" "}
      <Link
        to="/t/$scope/deployments/$id"
        params={{ scope: current?.slug ?? "", id: deployment.id }}
        search={{ tab: "logs", replica: failed.id }}
      >
        {t.deployments.tabs.logs}
      </Link>
    </p>
  );
}
