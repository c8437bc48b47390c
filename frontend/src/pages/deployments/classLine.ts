import type { ServiceClass } from "../../api/types";
import { t } from "../../i18n";
import { milliseconds, percent } from "../../lib/format";

/** A service class in one line: what is promised, and to what share of requests. */
export function classLine(
  level: Pick<ServiceClass, "base_ms" | "tpot_ms" | "e2e_ms" | "attainment_target" | "isolation">,
): string {
  const words = t.classLine;
  const parts = [
    level.base_ms ? words.ttft(milliseconds(level.base_ms)) : null,
    level.tpot_ms ? words.tpot(milliseconds(level.tpot_ms)) : null,
    level.e2e_ms ? words.e2e(milliseconds(level.e2e_ms)) : null,
    words.target(percent(level.attainment_target ?? 0.95)),
    // The least is what everyone gets
    level.isolation === "time-slice" ? null : words.isolation(t.slas.isolation[level.isolation].label),
  ];
  return parts.filter(Boolean).join(" · ");
}
