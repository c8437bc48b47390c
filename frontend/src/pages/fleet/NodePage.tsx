import { Skeleton } from "@mantine/core";
import { IconCpu } from "@tabler/icons-react";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Node } from "../../api/fleet";
import { BackLink } from "../../components/BackLink";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { FactGrid } from "../../components/FactGrid";
import { Loaded } from "../../components/Loaded";
import { PageHeader } from "../../components/PageHeader";
import { Panel } from "../../components/Panel";
import { TimeAgo } from "../../components/TimeAgo";
import { useNode, useNodes } from "../../hooks/useNodes";
import { useScope } from "../../hooks/useScope";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { NONE } from "../../lib/format";
import { DeviceHistory } from "./DeviceHistory";
import { DevicePicture } from "./DevicePicture";
import { DrainProgress } from "./DrainProgress";
import classes from "./Fleet.module.css";
import { SEAT_COLUMNS, seatRows } from "./fleetColumns";
import { coloursOf } from "./layout";
import { NodeFacts, NodePill } from "./NodeFacts";
import { NodeMenu } from "./NodeMenu";
import { nodeState } from "./nodeState";

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
  const all = useNodes();
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
          nodes={all.data ?? [node]}
          onRemoved={() => navigate({ to: "/t/$scope/fleet", params: { scope: current?.slug ?? "" } })}
        />
      </PageHeader>
      {nodeState(node) === "silent" && <p className={classes.notice}>{t.fleet.node.silentText}</p>}
      <DrainProgress node={node} />
      <Facts node={node} />
      <div className={classes.stack}>
        <Devices node={node} />
        <Seats node={node} />
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
      ]}
    />
  );
}

function Devices({ node }: { node: Node }) {
  const { values, set } = useUrl();
  const colours = useMemo(() => coloursOf([node], "deployment"), [node]);
  const devices = useMemo(() => [...node.devices].sort((a, b) => a.index - b.index), [node.devices]);
  const chosen = devices.find((device) => device.id === values.device) ?? devices[0];
  return (
    <>
      <Panel title={t.fleet.views.devices}>
        {devices.length === 0 && <p className={classes.quiet}>{t.fleet.node.noDevices}</p>}
        <div className={classes.devices}>
          {devices.map((device) => (
            <DevicePicture
              key={device.id}
              device={device}
              by="deployment"
              colours={colours}
              chosen={devices.length > 1 && device.id === chosen?.id}
              onChoose={() => set({ device: device.id })}
            />
          ))}
        </div>
      </Panel>
      {chosen && <DeviceHistory key={chosen.id} device={chosen} />}
    </>
  );
}

function Seats({ node }: { node: Node }) {
  const rows = useMemo(() => seatRows([node]), [node]);
  return (
    <Panel title={t.fleet.seats.title} flush>
      <DataTable
        label={t.fleet.seats.title}
        rows={rows}
        columns={SEAT_COLUMNS}
        rowId={(s) => s.id}
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
