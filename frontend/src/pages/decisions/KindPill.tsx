import { StatePill } from "../../components/StatePill";
import { t } from "../../i18n";

const TONES: Record<string, string> = {
  place: "ready",
  refuse: "failed",
  replace: "degraded",
  drain: "draining",
  scale: "stopped",
};

export function KindPill({ kind }: { kind: string }) {
  return <StatePill state={TONES[kind] ?? "stopped"} label={t.decisions.kinds[kind] ?? kind} />;
}
