import { Button, SegmentedControl, Select, Skeleton } from "@mantine/core";
import { IconPlus, IconServer2 } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { memo, useCallback, useDeferredValue, useMemo, useRef } from "react";
import type { MapGpu, Node } from "../../api/fleet";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { PageHeader } from "../../components/PageHeader";
import { Panel } from "../../components/Panel";
import { SearchInput } from "../../components/SearchInput";
import { useFleetMap } from "../../hooks/useFleetMap";
import { useMe } from "../../hooks/useMe";
import { useNodes } from "../../hooks/useNodes";
import { t } from "../../i18n";
import { AddNodeModal } from "./AddNodeModal";
import classes from "./Fleet.module.css";
import { FleetTiles } from "./FleetTiles";
import { GPU_COLUMNS, SEAT_COLUMNS, seatRows } from "./fleetColumns";
import { byName, filterNodes } from "./fleetFilter";
import { GpuPicture } from "./GpuPicture";
import { LastPlan } from "./LastPlan";
import { byNode, type ColourBy, coloursOf } from "./layout";
import { MapKey } from "./MapKey";
import { NodeCard } from "./NodeCard";
import { NODE_STATES } from "./nodeState";
import { useSegmentCard } from "./SegmentCard";

const VIEWS = ["map", "devices", "seats"] as const;
type View = (typeof VIEWS)[number];
const COLOUR_BY: readonly ColourBy[] = ["deployment", "tenant"];

export function FleetPage() {
  const search = useSearch({ from: "/t/$scope/fleet" });
  const navigate = useNavigate({ from: "/t/$scope/fleet" });
  const operator = useMe().data?.user.is_operator ?? false;
  const nodes = useNodes(operator);
  const map = useFleetMap(undefined, operator);
  const cut = map.data?.gpus.some((gpu) => gpu.board) ?? false;
  const set = useCallback(
    (change: Partial<typeof search>) =>
      void navigate({ search: (s) => ({ ...s, ...change }), replace: true, resetScroll: false }),
    [navigate],
  );
  const find = useCallback((text: string) => set({ q: text || undefined }), [set]);
  const view: View = VIEWS.find((one) => one === search.view) ?? "map";
  const by: ColourBy = search.by === "tenant" ? "tenant" : "deployment";
  const q = search.q ?? "";
  const onNode = useMemo(() => map.data && byNode(map.data.gpus), [map.data]);
  const shown = useMemo(
    // A text may be of a device, and those come with the map
    () => (q && !onNode ? undefined : nodes.data && byName(filterNodes(nodes.data, onNode, q, search.state))),
    [nodes.data, onNode, q, search.state],
  );
  // A click is answered by its own control; a thousand devices follow, in slices
  const late = {
    shown: useDeferredValue(shown, undefined),
    view: useDeferredValue(view),
    by: useDeferredValue(by),
  };
  const clear = useCallback(() => set({ q: undefined, state: undefined }), [set]);
  const add = useMemo(
    () => (
      <Button leftSection={<IconPlus size={16} />} onClick={() => set({ add: "1" })} data-testid="add-node">
        {t.fleet.add.action}
      </Button>
    ),
    [set],
  );

  if (!operator) {
    return (
      <EmptyState
        icon={<IconServer2 size={20} stroke={1.6} />}
        title={t.fleet.operatorsOnly}
        text={t.fleet.operatorsOnlyText}
      />
    );
  }
  return (
    <>
      <PageHeader title={t.fleet.title} subtitle={t.fleet.subtitle}>
        {add}
      </PageHeader>
      {(nodes.error ?? map.error) && nodes.data && (
        <p className={classes.notice} role="alert">
          {t.fleet.node.staleText}
        </p>
      )}
      <div className={classes.sums}>
        <FleetTiles totals={map.data?.totals} />
      </div>
      {cut && <LastPlan simulated={(map.data?.totals.simulated ?? 0) > 0} />}
      <div className={classes.filters}>
        <SearchInput label={t.fleet.search} value={q} onChange={find} className={classes.search} />
        <Select
          aria-label={t.fleet.filterState}
          placeholder={t.fleet.anyState}
          data={NODE_STATES.map((value) => ({ value, label: t.fleet.state[value] }))}
          value={search.state ?? null}
          onChange={(value) => set({ state: value ?? undefined })}
          clearable
          w={180}
        />
        <div className={classes.push}>
          {view === "map" && (
            <Select
              aria-label={t.fleet.colourBy}
              data={COLOUR_BY.map((value) => ({
                value,
                label: `${t.fleet.colourBy}: ${t.fleet.colours[value]}`,
              }))}
              value={by}
              onChange={(value) => set({ by: value === "tenant" ? "tenant" : undefined })}
              allowDeselect={false}
              w={226}
            />
          )}
          <SegmentedControl
            aria-label={t.fleet.views.label}
            data={VIEWS.map((value) => ({ value, label: t.fleet.views[value] }))}
            value={view}
            onChange={(value) => set({ view: value === "map" ? undefined : value })}
          />
        </div>
      </div>
      {nodes.error && !nodes.data ? (
        <Panel>
          <ErrorState error={nodes.error} retry={() => nodes.refetch()} />
        </Panel>
      ) : (
        <Shown
          {...late}
          all={nodes.data?.length ?? 0}
          gpus={map.data?.gpus}
          onNode={onNode}
          add={add}
          clear={clear}
        />
      )}
      <AddNodeModal opened={search.add !== undefined} onClose={() => set({ add: undefined })} />
    </>
  );
}

interface ShownProps {
  shown: Node[] | undefined;
  all: number;
  gpus: MapGpu[] | undefined;
  onNode: ReadonlyMap<string, MapGpu[]> | undefined;
  view: View;
  by: ColourBy;
  add: React.ReactNode;
  clear: () => void;
}

const NO_GPUS: MapGpu[] = [];
/** What a screen shows of the page's first sight. */
const NEAR_AT_FIRST = 2;

/** The same map for as long as the colours are the same: pictures are drawn anew only where something changed. */
function useColours(gpus: MapGpu[], by: ColourBy): Map<string, number> {
  const kept = useRef<Map<string, number>>(undefined);
  const colours = useMemo(() => coloursOf(gpus, by), [gpus, by]);
  const old = kept.current;
  if (!old || old.size !== colours.size || [...colours].some(([key, colour]) => old.get(key) !== colour)) {
    kept.current = colours;
  }
  return kept.current ?? colours;
}

const Shown = memo(function Shown({ shown, all, gpus, onNode, view, by, add, clear }: ShownProps) {
  const colours = useColours(gpus ?? NO_GPUS, by);
  const { handlers, card } = useSegmentCard(gpus ?? NO_GPUS);
  const picture = useCallback(
    (gpu: MapGpu) => <GpuPicture key={gpu.id} gpu={gpu} by={by} colours={colours} handlers={handlers} />,
    [by, colours, handlers],
  );
  const rows = useMemo(() => {
    const those = onNode && shown?.flatMap((node) => onNode.get(node.id) ?? NO_GPUS);
    return { gpus: those, seats: those && seatRows(those) };
  }, [shown, onNode]);
  if (shown?.length === 0) {
    const filtered = all > 0;
    return (
      <Panel flush>
        <EmptyState
          icon={<IconServer2 size={20} stroke={1.6} />}
          title={filtered ? t.fleet.noMatch : t.fleet.empty}
          text={filtered ? t.fleet.noMatchText : t.fleet.emptyText}
        >
          {filtered ? (
            <Button variant="default" onClick={clear}>
              {t.fleet.clear}
            </Button>
          ) : (
            add
          )}
        </EmptyState>
      </Panel>
    );
  }
  const empty = (
    <EmptyState
      icon={<IconServer2 size={20} stroke={1.6} />}
      title={t.fleet.seats.empty}
      text={t.fleet.seats.emptyText}
    />
  );
  if (view === "devices") {
    return (
      <Panel flush>
        <DataTable
          label={t.fleet.views.devices}
          rows={rows.gpus}
          columns={GPU_COLUMNS}
          rowId={(d) => d.id}
          empty={empty}
        />
      </Panel>
    );
  }
  if (view === "seats") {
    return (
      <Panel flush>
        <DataTable
          label={t.fleet.views.seats}
          rows={rows.seats}
          columns={SEAT_COLUMNS}
          rowId={(s) => s.replica}
          empty={empty}
        />
      </Panel>
    );
  }
  return (
    <div className={classes.stack} aria-busy={!shown}>
      {!shown && <Skeleton height={190} radius={10} />}
      {shown && shown.length > 0 && <MapKey />}
      {shown?.map((node, i) => (
        <NodeCard
          key={node.id}
          node={node}
          gpus={onNode && (onNode.get(node.id) ?? NO_GPUS)}
          picture={picture}
          near={i < NEAR_AT_FIRST}
        />
      ))}
      {card}
    </div>
  );
});
