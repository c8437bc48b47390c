import type { Model } from "../../api/types";
import { ClassName } from "../../components/ClassName";
import { CopyButton } from "../../components/CopyButton";
import { FactGrid } from "../../components/FactGrid";
import { TimeAgo } from "../../components/TimeAgo";
import { t } from "../../i18n";
import { bytes, integer, NONE } from "../../lib/format";
import classes from "./Models.module.css";

/** A number that is not known yet is a dash: a model on its way in has no needs. */
export const amount = (value: number, show: (n: number) => string) => (value ? show(value) : NONE);

/** What a model is and needs. */
export function ModelFacts({ model: m }: { model: Model }) {
  const words = t.models.facts;
  const hints = t.models.hints;
  const sampling = Object.entries(m.default_sampling).map(([name, value]) => `${name} ${value}`);
  const digest = (
    <>
      <span className={`mono ${classes.digest}`}>{m.digest}</span>
      <CopyButton value={m.digest} />
    </>
  );
  return (
    <FactGrid
      rows={[
        { label: words.parameters, value: amount(m.parameters, integer) },
        { label: words.weights, hint: hints.weights, value: amount(m.weights_bytes, bytes) },
        { label: words.kv, hint: hints.kv, value: amount(m.kv_bytes_per_token, bytes) },
        { label: words.workspace, hint: hints.workspace, value: amount(m.workspace_bytes, bytes) },
        { label: words.context, hint: hints.context, value: amount(m.context_length, integer) },
        { label: words.architecture, value: m.architecture ? <ClassName name={m.architecture} /> : NONE },
        { label: words.format, value: m.source_format || NONE },
        { label: words.licence, value: m.licence || words.none },
        { label: words.size, value: amount(m.size_bytes, bytes) },
        { label: words.registered, value: <TimeAgo at={m.created_at} /> },
        ...(sampling.length > 0 ? [{ label: words.sampling, value: sampling.join(", ") }] : []),
        { label: words.source, value: <span className="mono">{m.source}</span>, wide: true },
        ...(m.digest ? [{ label: words.digest, hint: hints.digest, value: digest, wide: true }] : []),
      ]}
    />
  );
}
