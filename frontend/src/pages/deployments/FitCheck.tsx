import { NumberInput, Skeleton } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconCircleCheck, IconCircleX } from "@tabler/icons-react";
import { useState } from "react";
import type { Fit } from "../../api/fleet";
import type { FitRequest } from "../../api/types";
import { Hint } from "../../components/Hint";
import { useFit } from "../../hooks/useModels";
import { say, t } from "../../i18n";
import { bytes } from "../../lib/format";
import classes from "./FitCheck.module.css";
import { FitOutlook } from "./FitOutlook";

interface Props {
  model: string | null;
  request: FitRequest;
}

const PARTS = ["weights_bytes", "kv_bytes", "workspace_bytes"] as const;

/** Asked again as the form changes: what one replica needs, where all would sit, and how much goodput that gives. */
export function FitCheck({ model, request }: Props) {
  const [rate, setRate] = useState<number | "">("");
  const [settled] = useDebouncedValue({ ...request, guaranteed_tokens_per_s: rate || 0 }, 250);
  const fit = useFit(model, settled);
  const words = t.deployments.fit;
  if (!model) return <div className={classes.box}>{words.choose}</div>;
  if (fit.error) return <div className={classes.box}>{fit.error.message}</div>;
  if (!fit.data) return <Skeleton height={104} />;
  const { needs, fits, gpus } = fit.data;
  return (
    <section
      className={classes.box}
      aria-label={words.title}
      aria-busy={fit.isFetching}
      data-testid="fit"
      data-fits={fits}
    >
      <div className={classes.head} role="status">
        {fits ? (
          <IconCircleCheck size={17} color="var(--b-good)" aria-hidden="true" />
        ) : (
          <IconCircleX size={17} color="var(--b-bad)" aria-hidden="true" />
        )}
        <strong>{fits ? words.fits : words.noRoom}</strong>
        <span className={`${classes.total} num`}>{words.perReplica(bytes(needs.total_bytes))}</span>
        <Hint text={words.hint} />
      </div>
      <Needs needs={needs} />
      {gpus && (
        <NumberInput
          size="xs"
          mt="sm"
          label={words.guaranteed}
          description={words.guaranteedHint}
          placeholder={words.guaranteedNone}
          min={0}
          max={1e9}
          thousandSeparator
          value={rate}
          onChange={(value) => setRate(value === "" ? "" : Number(value))}
        />
      )}
      {gpus && <FitOutlook outlook={gpus} />}
      <Devices fit={fit.data} />
      {!fits && (
        <p className={classes.wait}>
          {!gpus && say(fit.data.reason)} {words.wait}
        </p>
      )}
    </section>
  );
}

function Needs({ needs }: { needs: Fit["needs"] }) {
  const words = t.deployments.fit;
  return (
    <>
      <div className={classes.bar} aria-hidden="true">
        {PARTS.map((part) => (
          <div
            key={part}
            data-part={part}
            style={{ width: `${(100 * needs[part]) / Math.max(1, needs.total_bytes)}%` }}
          />
        ))}
      </div>
      <div className={classes.legend}>
        {PARTS.map((part) => (
          <span key={part} className="num">
            <i data-part={part} /> {words[part]} {bytes(needs[part])}
          </span>
        ))}
      </div>
    </>
  );
}

/** Devices that are not cut: how much is free on each, or why it does not fit. */
function Devices({ fit }: { fit: Fit }) {
  if (fit.devices.length === 0) return null;
  return (
    <ul className={classes.devices}>
      {fit.devices.map((d) => (
        <li key={d.device_id}>
          <span>{`${d.node} · ${say(d.device)}`}</span>
          <span className={`${classes.verdict} num`} data-fits={d.fits}>
            {d.fits ? t.deployments.fit.free(bytes(d.free_bytes)) : say(d.reason)}
          </span>
        </li>
      ))}
    </ul>
  );
}
