import { Select, Switch } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import type { Deployment } from "../../api/types";
import { CopyButton } from "../../components/CopyButton";
import { ErrorState } from "../../components/ErrorState";
import { Panel } from "../../components/Panel";
import { useReplicaLogs, useReplicas } from "../../hooks/useReplicas";
import { t } from "../../i18n";
import classes from "./ReplicaLogs.module.css";

interface Props {
  deployment: Deployment;
  replica: string | undefined;
  onReplica: (replica: string) => void;
}

/** The last lines of one replica; followed while the switch is on and the reader is at the end. */
export function ReplicaLogs({ deployment, replica, onReplica }: Props) {
  const replicas = useReplicas(deployment.id);
  const chosen = replica ?? replicas.data?.find((r) => !r.ended_at)?.id ?? replicas.data?.[0]?.id;
  const [follow, setFollow] = useState(true);
  const logs = useReplicaLogs(chosen, follow);
  const view = useRef<HTMLPreElement>(null);
  const lines = logs.data?.lines;

  // New lines move the view to the end
  useEffect(() => {
    if (follow && view.current) view.current.scrollTop = view.current.scrollHeight;
  }, [lines, follow]);

  const text = (lines ?? []).join("\n");
  return (
    <Panel flush>
      <div className={classes.bar}>
        <Select
          aria-label={t.deployments.logs.replica}
          data={(replicas.data ?? []).map((r) => ({
            value: r.id,
            label: `${r.id} · ${(t.states as Record<string, string>)[r.state] ?? r.state}`,
          }))}
          value={chosen ?? null}
          onChange={(value) => value && onReplica(value)}
          allowDeselect={false}
          placeholder={t.deployments.noReplicas}
          className={classes.select}
        />
        <Switch
          label={t.deployments.logs.follow}
          checked={follow}
          onChange={(e) => setFollow(e.currentTarget.checked)}
          size="sm"
        />
        <CopyButton value={text} label={t.deployments.logs.copy} />
      </div>
      {logs.error && !lines ? (
        <ErrorState error={logs.error} retry={() => logs.refetch()} />
      ) : (
        <pre
          ref={view}
          role="log"
          className={classes.lines}
          tabIndex={0}
          aria-label={t.deployments.logs.title}
          data-testid="logs"
        >
          {text || (
            <span className="muted">
              {logs.isFetching ? t.deployments.logs.loading : t.deployments.logs.empty}
            </span>
          )}
        </pre>
      )}
    </Panel>
  );
}
