import type { ReactNode } from "react";
import type { Model } from "../../api/types";
import { CopyButton } from "../../components/CopyButton";
import { Hint } from "../../components/Hint";
import { TimeAgo } from "../../components/TimeAgo";
import { t } from "../../i18n";
import { bytes, integer, NONE } from "../../lib/format";
import classes from "./Models.module.css";

interface FactProps {
  label: string;
  hint?: string;
  wide?: boolean;
  children: ReactNode;
}

function Fact({ label, hint, wide, children }: FactProps) {
  return (
    <div className={classes.fact} data-wide={wide || undefined}>
      <dt>
        {label}
        {hint && <Hint text={hint} />}
      </dt>
      <dd className="num">{children}</dd>
    </div>
  );
}

const amount = (value: number, show: (n: number) => string) => (value ? show(value) : NONE);

/** What a model is and needs. */
export function ModelFacts({ model: m }: { model: Model }) {
  const words = t.models.facts;
  const hints = t.models.hints;
  const sampling = Object.entries(m.default_sampling).map(([name, value]) => `${name} ${value}`);
  return (
    <dl className={classes.facts}>
      <Fact label={words.parameters}>{amount(m.parameters, integer)}</Fact>
      <Fact label={words.weights} hint={hints.weights}>
        {amount(m.weights_bytes, bytes)}
      </Fact>
      <Fact label={words.kv} hint={hints.kv}>
        {amount(m.kv_bytes_per_token, bytes)}
      </Fact>
      <Fact label={words.workspace} hint={hints.workspace}>
        {amount(m.workspace_bytes, bytes)}
      </Fact>
      <Fact label={words.context} hint={hints.context}>
        {amount(m.context_length, integer)}
      </Fact>
      <Fact label={words.architecture}>{m.architecture || NONE}</Fact>
      <Fact label={words.format}>{m.source_format || NONE}</Fact>
      <Fact label={words.licence}>{m.licence || words.none}</Fact>
      <Fact label={words.size}>{amount(m.size_bytes, bytes)}</Fact>
      <Fact label={words.registered}>
        <TimeAgo at={m.created_at} />
      </Fact>
      {sampling.length > 0 && <Fact label={words.sampling}>{sampling.join(", ")}</Fact>}
      <Fact label={words.source} wide>
        <span className="mono">{m.source}</span>
      </Fact>
      {m.digest && (
        <Fact label={words.digest} hint={hints.digest} wide>
          <span className={`mono ${classes.digest}`}>{m.digest}</span>
          <CopyButton value={m.digest} />
        </Fact>
      )}
    </dl>
  );
}
