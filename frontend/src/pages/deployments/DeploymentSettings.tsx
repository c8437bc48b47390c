import { Button } from "@mantine/core";
import type { Deployment } from "../../api/types";
import { Panel } from "../../components/Panel";
import { TimeAgo } from "../../components/TimeAgo";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { bytes, integer } from "../../lib/format";
import { useMayChange } from "./DeploymentMenu";
import classes from "./DeploymentSettings.module.css";
import { EditDeploymentDrawer } from "./EditDeploymentDrawer";

export function DeploymentSettings({ deployment: d }: { deployment: Deployment }) {
  const words = t.deployments.form;
  const mayChange = useMayChange(d);
  const { values, set } = useUrl();
  const engines = words.engines as Record<string, string>;
  const kvDtypes = words.kvDtypes as Record<string, string>;
  const rows: [string, React.ReactNode][] = [
    [
      t.deployments.facts.id,
      <span key="id" className="mono">
        {d.id}
      </span>,
    ],
    [words.engine, engines[d.engine] ?? d.engine],
    [words.dtype, d.dtype],
    [words.maxLen, d.max_model_len ? integer(d.max_model_len) : t.deployments.modelsOwn],
    [words.maxSeqs, integer(d.max_num_seqs)],
    [words.kv, bytes(d.kv_bytes)],
    [words.kvDtype, kvDtypes[d.kv_dtype] ?? d.kv_dtype],
    [words.maxTokens, integer(d.default_max_tokens)],
    [words.replicas, integer(d.replica_count)],
    [t.deployments.columns.created, <TimeAgo key="created" at={d.created_at} />],
  ];
  return (
    <Panel
      title={t.deployments.tabs.settings}
      aside={
        mayChange && (
          <Button size="xs" variant="default" onClick={() => set({ edit: d.id }, true)}>
            {t.deployments.edit.open}
          </Button>
        )
      }
    >
      <dl className={classes.list}>
        {rows.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd className="num">{value}</dd>
          </div>
        ))}
      </dl>
      <EditDeploymentDrawer
        id={mayChange ? values.edit : undefined}
        onClose={() => set({ edit: undefined })}
      />
    </Panel>
  );
}
