import { Button, Group } from "@mantine/core";
import { IconAlertTriangle, IconClockPause, IconRefresh } from "@tabler/icons-react";
import { useEffect, useState } from "react";
import { t } from "../../i18n";
import type { Failure } from "./failure";
import classes from "./Playground.module.css";

/** Whole seconds until `at`, counted down; 0 once it is over. */
function useSecondsUntil(at: number | null): number {
  const left = () => (at === null ? 0 : Math.max(0, Math.ceil((at - Date.now()) / 1000)));
  const [seconds, setSeconds] = useState(left);
  useEffect(() => {
    setSeconds(left());
    if (at === null) return undefined;
    const timer = setInterval(() => {
      setSeconds(left());
      if (left() === 0) clearInterval(timer);
    }, 250);
    return () => clearInterval(timer);
  }, [at]);
  return seconds;
}

/** What went wrong, what to do about it, and when: an error of a request is never only a status code. */
export function FailureView({ failure, retry }: { failure: Failure; retry: (() => void) | undefined }) {
  const seconds = useSecondsUntil(failure.retryAt);
  const words = t.playground.failures[failure.kind];
  const waits = failure.kind === "limit" || failure.kind === "busy";
  const Icon = waits ? IconClockPause : IconAlertTriangle;
  return (
    <div className={classes.failure} role="alert" data-tone={waits ? "warn" : "bad"} data-testid="failure">
      <Icon size={17} stroke={1.6} aria-hidden="true" />
      <div>
        <div className={classes.failureTitle}>{words.title}</div>
        <p>{failure.kind === "network" ? t.errors.network : failure.message}</p>
        <p className="muted">{words.next}</p>
        <Group gap="xs" mt={8}>
          {retry && (
            <Button
              size="compact-sm"
              variant="default"
              leftSection={<IconRefresh size={14} stroke={1.6} />}
              onClick={retry}
              disabled={seconds > 0}
              data-testid="failure-retry"
            >
              {seconds > 0 ? t.playground.retryIn(seconds) : t.actions.retry}
            </Button>
          )}
          {failure.requestId && <span className="mono muted">{failure.requestId}</span>}
        </Group>
      </div>
    </div>
  );
}
