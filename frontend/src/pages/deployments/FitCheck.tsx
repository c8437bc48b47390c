import { Skeleton } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconCircleCheck, IconCircleX } from "@tabler/icons-react";
import type { FitRequest } from "../../api/types";
import { Hint } from "../../components/Hint";
import { useFit } from "../../hooks/useModels";
import { say, t } from "../../i18n";
import { bytes } from "../../lib/format";
import classes from "./FitCheck.module.css";

interface Props {
  model: string | null;
  request: FitRequest;
}

const PARTS = ["weights_bytes", "kv_bytes", "workspace_bytes"] as const;

/** Asked again as the form changes: the memory one replica needs, and on which device it has room. */
export function FitCheck({ model, request }: Props) {
  const [settled] = useDebouncedValue(request, 250);
  const fit = useFit(model, settled);
  const words = t.deployments.fit;
  if (!model) return <div className={classes.box}>{words.choose}</div>;
  if (fit.error) return <div className={classes.box}>{fit.error.message}</div>;
  if (!fit.data) return <Skeleton height={104} />;
  const { devices, needs, fits } = fit.data;
  const total = needs.total_bytes;
  return (
    <section
      className={classes.box}
      aria-label={words.title}
      aria-busy={fit.isFetching}
      data-testid="fit"
      data-fits={fits}
    >
      <div className={classes.head}>
        {fits ? (
          <IconCircleCheck size={17} color="var(--b-good)" aria-hidden="true" />
        ) : (
          <IconCircleX size={17} color="var(--b-bad)" aria-hidden="true" />
        )}
        <strong>{fits ? words.fits : words.noRoom}</strong>
        <span className={`${classes.total} num`}>{words.perReplica(bytes(total))}</span>
        <Hint text={words.hint} />
      </div>
      <div className={classes.bar} aria-hidden="true">
        {PARTS.map((part) => (
          <div
            key={part}
            data-part={part}
            style={{ width: `${(100 * needs[part]) / Math.max(1, total)}%` }}
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
      <ul className={classes.devices}>
        {devices.map((d) => (
          <li key={d.device_id}>
            <span>{`${d.node} · ${d.device}`}</span>
            <span className={`${classes.verdict} num`} data-fits={d.fits}>
              {d.fits ? words.free(bytes(d.free_bytes)) : say(d.reason)}
            </span>
          </li>
        ))}
      </ul>
      {!fits && (
        <p className={classes.wait}>
          {say(fit.data.reason)} {words.wait}
        </p>
      )}
    </section>
  );
}
