import { Drawer, Timeline } from "@mantine/core";
import type { Contract } from "../../api/types";
import { Changes } from "../../components/Changes";
import { CopyId } from "../../components/CopyId";
import { Loaded } from "../../components/Loaded";
import { StatePill } from "../../components/StatePill";
import { useVersions } from "../../hooks/useContracts";
import { t } from "../../i18n";
import { BUDGETS } from "../../lib/budgets";
import { absolute, milliseconds, percent } from "../../lib/format";
import { price } from "../../lib/money";
import { classLine } from "../deployments/classLine";
import { PILLS, rateLine } from "./contractColumns";
import classes from "./Slas.module.css";

const words = t.slas.contracts;

/** A term as the class's card shows it; one that is not set stays away. */
function shown(name: string, value: unknown): unknown {
  if (typeof value !== "number") return value;
  if (name.endsWith("_ms")) return milliseconds(value);
  return name === "fluidity_floor" || name === "attainment_target" ? percent(value) : value;
}

/** What a version says, under the names that its changes are listed by. */
function said(contract: Contract): Record<string, unknown> {
  const { price_per_million: prices, currency, isolation, ...terms } = contract.terms;
  const each = [prices.input, prices.cached, prices.output];
  return {
    service_class: contract.service_class.name,
    ...Object.fromEntries(Object.entries(terms).map(([name, value]) => [name, shown(name, value)])),
    isolation: t.slas.isolation[isolation].label,
    price: each.map((amount) => price(amount, currency)).join(" / "),
    guaranteed_requests_per_min: contract.guaranteed_requests_per_min,
    burst_requests_per_min: contract.burst_requests_per_min,
    guaranteed_tokens_per_min: contract.guaranteed_tokens_per_min,
    burst_tokens_per_min: contract.burst_tokens_per_min,
    max_concurrency: contract.max_concurrency,
    weight: contract.weight,
    when_late: words.whenLate[contract.when_late],
    ...Object.fromEntries(BUDGETS.map((name) => [name, contract[name]])),
    tiers: contract.tiers.map((one) => `${one.tier}: ${one.class_name}`).join(", "),
  };
}

function Version({ contract, before }: { contract: Contract; before: Contract | undefined }) {
  return (
    <>
      <p className={classes.when}>
        {contract.valid_until
          ? words.between(absolute(contract.valid_from), absolute(contract.valid_until))
          : words.since(absolute(contract.valid_from))}
      </p>
      {before ? (
        <Changes
          before={said(before)}
          after={said(contract)}
          fields={{ ...words.fields, ...t.kit.budgets.fields }}
          heads={{ before: words.version(before.version), after: words.version(contract.version) }}
        />
      ) : (
        <p className="muted">
          {words.firstClass(
            contract.service_class.name,
            classLine({ ...contract.terms, isolation: "time-slice" }),
          )}{" "}
          {words.isolated(t.slas.isolation[contract.terms.isolation].label)}{" "}
          {words.firstLimits(
            rateLine(contract.guaranteed_requests_per_min, contract.burst_requests_per_min),
            rateLine(contract.guaranteed_tokens_per_min, contract.burst_tokens_per_min),
          )}
        </p>
      )}
      <CopyId id={contract.id} />
    </>
  );
}

/** Every version of one contract, newest first, each with what it changed. */
export function ContractHistory({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const versions = useVersions(id);
  const newest = versions.data?.[0];
  return (
    <Drawer
      opened={id !== undefined}
      onClose={onClose}
      size={600}
      title={newest ? words.historyOf(newest.tenant.name, newest.deployment.name) : words.history}
    >
      <Loaded query={versions}>
        {(rows) => (
          <Timeline
            bulletSize={14}
            lineWidth={2}
            active={rows.length}
            classNames={{ itemBullet: classes.bullet }}
            data-testid="contract-history"
          >
            {rows.map((one, i) => (
              <Timeline.Item
                key={one.id}
                title={
                  <span className={classes.versionTitle}>
                    {words.version(one.version)}
                    <StatePill state={PILLS[one.state]} label={words.states[one.state]} />
                  </span>
                }
              >
                <Version contract={one} before={rows[i + 1]} />
              </Timeline.Item>
            ))}
          </Timeline>
        )}
      </Loaded>
    </Drawer>
  );
}
