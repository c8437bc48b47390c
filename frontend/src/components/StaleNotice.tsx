import { Alert, Button } from "@mantine/core";
import { IconClockExclamation } from "@tabler/icons-react";
import { t } from "../i18n";
import { ago } from "../lib/format";

/** What this kit needs of a query's result. */
export interface Asked<T> {
  data: T | undefined;
  error: Error | null;
  dataUpdatedAt: number;
  refetch: () => Promise<unknown>;
}

/** What is shown was loaded earlier, and the last question failed. */
export function StaleNotice({ asked }: { asked: Asked<unknown> }) {
  if (!asked.error || !asked.data) return null;
  const when = ago(new Date(asked.dataUpdatedAt).toISOString());
  return (
    <Alert
      color="yellow"
      variant="light"
      mb="sm"
      p="xs"
      role="status"
      icon={<IconClockExclamation size={16} />}
      title={t.kit.stale.title(when)}
      data-testid="stale"
    >
      {t.kit.stale.text}{" "}
      <Button variant="transparent" size="compact-xs" p={0} onClick={() => void asked.refetch()}>
        {t.actions.retry}
      </Button>
    </Alert>
  );
}
