import { Skeleton } from "@mantine/core";
import { IconCpu } from "@tabler/icons-react";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useMemo } from "react";
import type { MapGpu, Node } from "../../api/fleet";
import { BackLink } from "../../components/BackLink";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { FactGrid } from "../../components/FactGrid";
import { Loaded } from "../../components/Loaded";
import { PageHeader } from "../../components/PageHeader";
import { Panel } from "../../components/Panel";
import { TimeAgo } from "../../components/TimeAgo";
import { useFleetMap } from "../../hooks/useFleetMap";
import { useNode } from "../../hooks/useNodes";
import { useScope } from "../../hooks/useScope";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { NONE } from "../../lib/format";
import { DeviceHistory } from "./DeviceHistory";

import { DrainProgress } from "./DrainProgress";
import classes from "./Fleet.module.css";
import { SEAT_COLUMNS, seatRows } from "./fleetColumns";
import { GpuPicture } from "./GpuPicture";
import { coloursOf } from "./layout";
import { MapKey } from "./MapKey";
import { NodeFacts, NodePill } from "./NodeFacts";
import { NodeMenu } from "./NodeMenu";
import { nodeState } from "./nodeState";
import { useSegmentCard } from "./SegmentCard";

const SKELETON = (
  <>
    <Skeleton height={34} width={220} mb="lg" />
    <Skeleton height={64} mb="lg" />
    <Skeleton height={260} />
  </>
);

export function NodePage() {
  const { id } = useParams({ from: "/t/$scope/fleet/$id" });
  const found = useNode(id);
  return (
    <>
      <BackLink to="/t/$scope/fleet">{t.fleet.back}</BackLink>
      <Loaded query={found} skeleton={SKELETON}>
        {(node) => <Shown node={node} />}
      </Loaded>
    </>
  );
}

function Shown({ node }: { node: Node }) {
  const navigate = useNavigate({ from: "/t/$scope/fleet/$id" });
  const { current } = useScope();
  const map = useFleetMap(node.id);
  return (
    <>
      <PageHeader
        title={
          <>
            {node.name}
            <NodePill node={node} />
          </>
        }
        subtitle={<NodeFacts node={node} />}
      >
        <NodeMenu
          node={node}
          taken={node.devices.some((device) => device.seats.length > 0)}
          onRemoved={() => navigate({ to: "/t/$scope/fleet", params: { scope: current?.slug ?? "" } })}
        />
      </PageHeader>
      {nodeState(node) === "silent" && <p className={classes.notice}>{t.fleet.node.silentText}</p>}
      <DrainProgress node={node} />
      <Facts node={node} />
      <div className={classes.stack}>
        <Loaded query={map} skeleton={<Skeleton height={190} radius={10} />}>
          {({ gpus }) => (
            <>
              <Devices gpus={gpus} />
              <Seats gpus={gpus} />
            </>
          )}
        </Loaded>
      </div>
    </>
  );
}

function Facts({ node }: { node: Node }) {
  const words = t.fleet.node;
  const behind = node.observed_generation < node.generation;
  return (
    <FactGrid
      rows={[
        { label: words.lastSeen, value: <TimeAgo at={node.last_seen_at} /> },
        { label: words.joined, value: <TimeAgo at={node.connected_at} /> },
        {
          label: words.upToDate,
          hint: words.upToDateHint,
          value: behind ? words.upToDateNo(node.observed_generation, node.generation) : words.upToDateYes,
        },
        { label: words.address, value: <span className="mono">{node.address}</span> },
        { label: words.provider, value: node.provider || NONE },
        {
          label: words.domain,
          hint: words.domainHint,
          value: node.fault_domain || words.domainAlone,
        },
      ]}
    />
  );
}

function Devices({ gpus }: { gpus: MapGpu[] }) {
  const { values, set } = useUrl();
  const colours = useMemo(() => coloursOf(gpus, "deployment"), [gpus]);
  const { handlers, card } = useSegmentCard(gpus);
  const chosen = gpus.find((gpu) => gpu.id === values.device) ?? gpus[0];
  return (
    <>
      <Panel title={t.fleet.views.devices}>
        {gpus.length === 0 ? <p className={classes.quiet}>{t.fleet.node.noDevices}</p> : <MapKey />}
        <div className={classes.devices}>
          {gpus.map((gpu) => (
            <GpuPicture
              key={gpu.id}
              gpu={gpu}
              by="deployment"
              colours={colours}
              handlers={handlers}
              chosen={gpus.length > 1 && gpu.id === chosen?.id}
              onChoose={() => set({ device: gpu.id })}
            />
          ))}
        </div>
        {card}
      </Panel>
      {chosen && <DeviceHistory key={chosen.id} gpu={chosen} />}
    </>
  );
}

function Seats({ gpus }: { gpus: MapGpu[] }) {
  const rows = useMemo(() => seatRows(gpus), [gpus]);
  return (
    <Panel title={t.fleet.seats.title} flush>
      <DataTable
        label={t.fleet.seats.title}
        rows={rows}
        columns={SEAT_COLUMNS}
        rowId={(s) => s.replica}
        empty={
          <EmptyState
            icon={<IconCpu size={20} stroke={1.6} />}
            title={t.fleet.seats.empty}
            text={t.fleet.seats.emptyText}
          />
        }
      />
    </Panel>
  );
}
