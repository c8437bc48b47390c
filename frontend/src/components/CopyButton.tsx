import { ActionIcon, Button, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useCopy } from "../hooks/useCopy";
import { t } from "../i18n";

interface Props {
  value: string;
  label?: string;
  full?: boolean;
}

/** Copies; the full form is a button with words, the short one an icon. */
export function CopyButton({ value, label = t.actions.copy, full = false }: Props) {
  const { copied, copy } = useCopy();
  const icon = copied ? <IconCheck size={15} /> : <IconCopy size={15} stroke={1.6} />;
  if (full) {
    return (
      <Button variant="default" leftSection={icon} onClick={() => copy(value)}>
        {copied ? t.actions.copied : label}
      </Button>
    );
  }
  return (
    <Tooltip label={copied ? t.actions.copied : label}>
      <ActionIcon variant="subtle" color="gray" size="sm" aria-label={label} onClick={() => copy(value)}>
        {icon}
      </ActionIcon>
    </Tooltip>
  );
}
