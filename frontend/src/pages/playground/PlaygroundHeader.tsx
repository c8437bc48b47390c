import { ActionIcon, Button, Tooltip } from "@mantine/core";
import { IconAdjustmentsHorizontal, IconCode, IconColumns2, IconEraser } from "@tabler/icons-react";
import { PageHeader } from "../../components/PageHeader";
import { t } from "../../i18n";
import classes from "./Playground.module.css";

interface Props {
  /** An action that is undefined cannot be taken now; without `onCompare` two are already side by side. */
  onCompare: (() => void) | undefined;
  onCode: (() => void) | undefined;
  onClear: (() => void) | undefined;
  onSettings: () => void;
}

export function PlaygroundHeader({ onCompare, onCode, onClear, onSettings }: Props) {
  const words = t.playground;
  return (
    <PageHeader title={words.title} subtitle={words.subtitle}>
      {onCompare && (
        <Button
          variant="default"
          leftSection={<IconColumns2 size={16} stroke={1.6} />}
          onClick={onCompare}
          data-testid="compare"
        >
          {words.compare}
        </Button>
      )}
      <Tooltip label={words.viewCode}>
        <ActionIcon
          variant="default"
          size={36}
          aria-label={words.viewCode}
          onClick={onCode}
          disabled={!onCode}
          data-testid="view-code"
        >
          <IconCode size={16} stroke={1.6} />
        </ActionIcon>
      </Tooltip>
      <Tooltip label={words.clear}>
        <ActionIcon
          variant="default"
          size={36}
          aria-label={words.clear}
          onClick={onClear}
          disabled={!onClear}
        >
          <IconEraser size={16} stroke={1.6} />
        </ActionIcon>
      </Tooltip>
      <ActionIcon
        variant="default"
        size={36}
        aria-label={words.settings}
        onClick={onSettings}
        className={classes.onPhone}
      >
        <IconAdjustmentsHorizontal size={16} stroke={1.6} />
      </ActionIcon>
    </PageHeader>
  );
}
