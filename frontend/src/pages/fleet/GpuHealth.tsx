import { Modal, Stack } from "@mantine/core";
import type { MapGpu } from "../../api/fleet";
import { Loaded } from "../../components/Loaded";
import { StatePill } from "../../components/StatePill";
import { TimeAgo } from "../../components/TimeAgo";
import { useGpu } from "../../hooks/useGpus";
import { say, t } from "../../i18n";
import { integer } from "../../lib/format";
import classes from "./Fleet.module.css";

const TONES: Record<string, string> = { watch: "warning", drain: "draining", fence: "failed" };

/** What is wrong with a GPU, since when, and what to do about it. */
export function GpuHealth({ gpu, onClose }: { gpu: MapGpu; onClose: () => void }) {
  const found = useGpu(gpu.id);
  const words = t.fleet.health;
  return (
    <Modal opened onClose={onClose} title={words.of(words.name(gpu.label, gpu.node.name))} size="lg">
      <Loaded query={found}>
        {({ health, health_reason: reason, health_since: since, faults }) => (
          <Stack gap="sm" data-testid="gpu-health">
            <p className={classes.quiet}>
              <strong>{words.states[health]}</strong>
              {since && (
                <>
                  {" · "}
                  <TimeAgo at={since} />
                </>
              )}
              {reason && <> · {say(reason)}</>}
            </p>
            <p className={classes.quiet}>{words.meaning[health]}</p>
            {faults.length === 0 ? (
              <p className={classes.quiet}>{words.noFaults}</p>
            ) : (
              <ul className={classes.faults}>
                {faults.map((fault) => (
                  <li key={fault.key}>
                    <span className={classes.faultHead}>
                      <strong>{say(fault.sentence)}</strong>
                      <StatePill
                        state={TONES[fault.severity] ?? "warning"}
                        label={words.severities[fault.severity]}
                      />
                    </span>
                    <span>{say(fault.todo)}</span>
                    <span className="muted num">
                      {fault.count > 0 && `${words.times(integer(fault.count), fault.count)} · `}
                      <TimeAgo at={fault.last_at} />
                    </span>
                  </li>
                ))}
              </ul>
            )}
          </Stack>
        )}
      </Loaded>
    </Modal>
  );
}
