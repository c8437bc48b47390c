import { Popover } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { type PointerEvent, type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import type { MapGpu, MapSeat, MapSegment } from "../../api/fleet";
import { CopyId } from "../../components/CopyId";
import { type Fact, Facts } from "../../components/Facts";
import { StatePill } from "../../components/StatePill";
import { TimeAgo } from "../../components/TimeAgo";
import { useScope } from "../../hooks/useScope";
import { say, t } from "../../i18n";
import { bytes } from "../../lib/format";
import classes from "./SegmentCard.module.css";

const HOVER_MS = 220;

/** Which box of which device; looked up anew in each picture that comes. */
interface Place {
  gpu: string;
  start: number;
  replica: string | undefined;
}

interface Shown extends Place {
  at: HTMLElement;
  /** Opened by a click, a tap or the keyboard: it stays, and has the focus. */
  pinned: boolean;
}

export type BoxHandlers = ReturnType<ReturnType<typeof useSegmentCard>["handlers"]>;

/**
 * One card for all boxes of a page: a fleet has thousands. The pointer shows it while it rests there; click, tap and
 * Enter keep it open.
 */
export function useSegmentCard(gpus: MapGpu[]) {
  const [shown, setShown] = useState<Shown | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const later = useCallback((change: (old: Shown | null) => Shown | null) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setShown((old) => (old?.pinned ? old : change(old))), HOVER_MS);
  }, []);
  const keep = useCallback(() => clearTimeout(timer.current), []);
  const leave = useCallback(() => later(() => null), [later]);
  const close = useCallback(() => {
    clearTimeout(timer.current);
    setShown(null);
  }, []);
  useEffect(() => keep, [keep]);

  const handlers = useCallback(
    (place: Place) => ({
      "aria-haspopup": "dialog" as const,
      onPointerEnter: ({ currentTarget: at, pointerType }: PointerEvent<HTMLElement>) => {
        if (pointerType === "mouse") later(() => ({ ...place, at, pinned: false }));
      },
      onPointerLeave: leave,
      onClick: ({ currentTarget: at }: { currentTarget: HTMLElement }) => {
        clearTimeout(timer.current);
        setShown({ ...place, at, pinned: true });
      },
    }),
    [later, leave],
  );

  const gpu = shown ? gpus.find((one) => one.id === shown.gpu) : undefined;
  const segment = gpu?.segments.find((one) => one.start === shown?.start);
  const card = shown && gpu && segment && (
    <Anchored shown={shown} onClose={close} onEnter={keep} onLeave={leave}>
      <Content
        gpu={gpu}
        segment={segment}
        seat={segment.seats.find((seat) => seat.replica === shown.replica)}
      />
    </Anchored>
  );
  return { handlers, card };
}

interface AnchoredProps {
  shown: Shown;
  onClose: () => void;
  onEnter: () => void;
  onLeave: () => void;
  children: ReactNode;
}

/** At the box, wherever it is scrolled to. */
function Anchored({ shown, onClose, onEnter, onLeave, children }: AnchoredProps) {
  const { at, pinned } = shown;
  const [rect, setRect] = useState(() => at.getBoundingClientRect());
  useEffect(() => {
    const follow = () => (at.isConnected && pinned ? setRect(at.getBoundingClientRect()) : onClose());
    setRect(at.getBoundingClientRect());
    window.addEventListener("scroll", follow, true);
    window.addEventListener("resize", follow);
    return () => {
      window.removeEventListener("scroll", follow, true);
      window.removeEventListener("resize", follow);
    };
  }, [at, pinned, onClose]);
  const { left, top, width, height } = rect;
  const dismiss = () => {
    if (pinned) at.focus();
    onClose();
  };
  return (
    <Popover
      opened
      onDismiss={dismiss}
      position="bottom"
      withArrow
      shadow="md"
      width={320}
      withRoles={false}
      trapFocus={pinned}
      transitionProps={{ duration: 80 }}
    >
      <Popover.Target>
        <span className={classes.anchor} style={{ left, top, width, height }} />
      </Popover.Target>
      <Popover.Dropdown
        className={classes.card}
        role="dialog"
        aria-label={t.fleet.card.label}
        onPointerEnter={onEnter}
        onPointerLeave={onLeave}
        data-testid="segment-card"
      >
        {children}
      </Popover.Dropdown>
    </Popover>
  );
}

interface ContentProps {
  gpu: MapGpu;
  segment: MapSegment;
  seat: MapSeat | undefined;
}

function Content({ gpu, segment, seat }: ContentProps) {
  const words = t.fleet.card;
  const where: Fact = {
    label: words.where,
    value: words.at(
      gpu.label,
      t.fleet.device.unitsOf(segment.start, segment.start + segment.size - 1),
      gpu.units,
    ),
  };
  const slice: Fact[] = segment.profile
    ? [
        {
          label: words.slice,
          value: [
            t.fleet.cuts[gpu.cut],
            segment.profile,
            segment.memory_bytes ? bytes(segment.memory_bytes) : null,
          ]
            .filter(Boolean)
            .join(" · "),
        },
      ]
    : [];
  const state: Fact[] =
    segment.state && segment.state !== "ready"
      ? [{ label: words.sliceState, value: words.sliceStates[segment.state] ?? segment.state }]
      : [];
  if (seat)
    return <SeatContent seat={seat} gpu={gpu} rows={[...slice, where, ...state]} reason={segment.reason} />;
  const { title, text } = words.segments[segment.kind === "slice" ? "empty" : segment.kind];
  return (
    <>
      <p className={classes.title}>{title}</p>
      <p className={classes.text}>{text}</p>
      {segment.reason && <p className={classes.text}>{say(segment.reason)}</p>}
      <Facts rows={[...slice, where, ...state]} />
    </>
  );
}

interface SeatProps {
  seat: MapSeat;
  gpu: MapGpu;
  rows: Fact[];
  reason: string;
}

function SeatContent({ seat, gpu, rows, reason }: SeatProps) {
  const { current } = useScope();
  const scope = current?.slug ?? "";
  const words = t.fleet.card;
  return (
    <>
      <p className={classes.title}>
        <Link
          to="/t/$scope/deployments/$id"
          params={{ scope, id: seat.deployment }}
          search={{ tab: "replicas" }}
        >
          {seat.deployment_name}
        </Link>
        <StatePill state={seat.state} />
      </p>
      {seat.burst && <p className={classes.text}>{words.burst}</p>}
      {reason && <p className={classes.text}>{say(reason)}</p>}
      <Facts
        rows={[
          { label: words.class, value: seat.service_class },
          { label: words.tenant, value: seat.tenant_name },
          ...rows,
          {
            label: gpu.simulated ? words.memorySimulated : words.memory,
            value: words.usedOf(bytes(seat.memory_used_bytes), bytes(seat.memory_bytes)),
          },
          { label: words.since, value: <TimeAgo at={seat.since} /> },
          { label: words.replica, value: <CopyId id={seat.replica} /> },
        ]}
      />
      <p className={classes.why}>
        <strong>{words.why}</strong> {seat.why ? say(seat.why) : words.whyGone}{" "}
        {seat.decision && (
          <Link
            to="/t/$scope/decisions"
            params={{ scope }}
            search={{ decision: seat.decision, range: "30d" }}
          >
            {words.explain}
          </Link>
        )}
      </p>
    </>
  );
}
