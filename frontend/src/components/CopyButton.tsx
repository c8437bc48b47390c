import { ActionIcon, Button, CopyButton as Copy, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { t } from "../i18n";

interface Props {
  value: string;
  label?: string;
  full?: boolean;
}

/** Copies; the full form is a button with words, the short one an icon. */
export function CopyButton({ value, label = t.actions.copy, full = false }: Props) {
  return (
    <Copy value={value} timeout={1600}>
      {({ copied, copy }) => {
        const icon = copied ? <IconCheck size={15} /> : <IconCopy size={15} stroke={1.6} />;
        if (full) {
          return (
            <Button variant="default" leftSection={icon} onClick={copy}>
              {copied ? t.actions.copied : label}
            </Button>
          );
        }
        return (
          <Tooltip label={copied ? t.actions.copied : label}>
            <ActionIcon variant="subtle" color="gray" size="sm" aria-label={label} onClick={copy}>
              {icon}
            </ActionIcon>
          </Tooltip>
        );
      }}
    </Copy>
  );
}
