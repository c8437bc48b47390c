import { Button, Select, Switch, TextInput } from "@mantine/core";
import { IconDownload, IconSearch } from "@tabler/icons-react";
import { useEffect, useMemo, useRef, useState } from "react";
import type { Deployment } from "../../api/types";
import { CopyButton } from "../../components/CopyButton";
import { ErrorState } from "../../components/ErrorState";
import { Panel } from "../../components/Panel";
import { useReplicaLogs, useReplicas } from "../../hooks/useReplicas";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { download } from "../../lib/download";
import { integer } from "../../lib/format";
import { piecesOf, searchLines, toneOf } from "./logLines";
import classes from "./ReplicaLogs.module.css";

const words = t.deployments.logs;
/** As near to the end as counts as being there, in pixels. */
const NEAR = 24;

/** The last lines of one replica: followed while the reader is at the end, searched, copied, downloaded. */
export function ReplicaLogs({ deployment }: { deployment: Deployment }) {
  const { values, set } = useUrl();
  const replicas = useReplicas(deployment.id);
  const chosen = values.replica ?? replicas.data?.find((r) => !r.ended_at)?.id ?? replicas.data?.[0]?.id;
  const [follow, setFollow] = useState(true);
  const [q, setQ] = useState("");
  const logs = useReplicaLogs(chosen, follow);
  const all = logs.data?.lines;
  const lines = useMemo(() => searchLines(all ?? [], q), [all, q]);
  const text = lines.join("\n");
  return (
    <Panel flush>
      <div className={classes.bar}>
        <Select
          aria-label={words.replica}
          data={(replicas.data ?? []).map((r) => ({
            value: r.id,
            label: `${r.id} · ${(t.states as Record<string, string>)[r.state] ?? r.state}`,
          }))}
          value={chosen ?? null}
          onChange={(value) => value && set({ replica: value })}
          allowDeselect={false}
          placeholder={replicas.isPending ? t.loading : t.deployments.noReplicas}
          className={classes.select}
        />
        <TextInput
          type="search"
          aria-label={words.search}
          placeholder={words.search}
          leftSection={<IconSearch size={15} stroke={1.6} aria-hidden="true" />}
          value={q}
          onChange={(e) => setQ(e.target.value)}
          className={classes.search}
        />
        <Switch
          label={words.follow}
          checked={follow}
          onChange={(e) => setFollow(e.currentTarget.checked)}
          size="sm"
        />
        <Button
          variant="default"
          leftSection={<IconDownload size={15} stroke={1.6} aria-hidden="true" />}
          disabled={!text}
          onClick={() => download(`${deployment.name}-${chosen}.log`, `${text}\n`)}
        >
          {words.download}
        </Button>
        <CopyButton value={text} label={words.copy} />
      </div>
      {logs.data?.stale && (
        <p className={classes.stale} role="status">
          {words.stale}
        </p>
      )}
      {logs.error && !all ? (
        <ErrorState error={logs.error} retry={() => logs.refetch()} />
      ) : (
        <Lines
          lines={lines}
          q={q}
          follow={follow}
          onAway={() => setFollow(false)}
          none={
            !all && (replicas.isPending || logs.isFetching)
              ? words.loading
              : q
                ? words.noneFound
                : words.empty
          }
        />
      )}
      <div className={`${classes.foot} num`}>
        {q ? words.found(integer(lines.length), integer(all?.length)) : words.newest}
      </div>
    </Panel>
  );
}

interface LinesProps {
  lines: string[];
  q: string;
  follow: boolean;
  /** The reader scrolled up: new lines must not pull the view away. */
  onAway: () => void;
  none: string;
}

function Lines({ lines, q, follow, onAway, none }: LinesProps) {
  const view = useRef<HTMLDivElement>(null);
  // New lines move the view to the end
  useEffect(() => {
    if (follow && view.current && lines) view.current.scrollTop = view.current.scrollHeight;
  }, [lines, follow]);
  const wheel = (delta: number) => {
    const box = view.current;
    if (!box || delta >= 0) return;
    if (box.scrollHeight > box.clientHeight + NEAR) onAway();
  };
  return (
    <div
      ref={view}
      role="log"
      className={classes.lines}
      tabIndex={0}
      aria-label={words.title}
      aria-live="off"
      data-testid="logs"
      onWheel={(event) => wheel(event.deltaY)}
      onKeyDown={(event) => {
        if (event.key === "ArrowUp" || event.key === "PageUp" || event.key === "Home") onAway();
      }}
    >
      {lines.length === 0 && <span className="muted">{none}</span>}
      {lines.map((line, i) => (
        // Lines have no name but their place, and are replaced together
        <div key={i} data-tone={toneOf(line)}>
          {piecesOf(line, q).map((piece, j) => (piece.hit ? <mark key={j}>{piece.text}</mark> : piece.text))}
        </div>
      ))}
    </div>
  );
}
