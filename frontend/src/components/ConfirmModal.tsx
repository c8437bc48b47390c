import { Button, Group, Modal, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { t } from "../i18n";
import { FormError } from "./FormError";

interface Props {
  opened: boolean;
  title: string;
  text: string;
  action: string;
  danger?: boolean;
  busy: boolean;
  error: Error | null;
  onConfirm: () => void;
  onClose: () => void;
  children?: ReactNode;
}

export function ConfirmModal({
  opened,
  title,
  text,
  action,
  danger = false,
  busy,
  error,
  onConfirm,
  onClose,
  children,
}: Props) {
  return (
    <Modal opened={opened} onClose={onClose} title={title} size="sm">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onConfirm();
        }}
      >
        <Text c="dimmed" size="sm">
          {text}
        </Text>
        {children}
        <FormError error={error} />
        <Group justify="flex-end" mt="lg" gap="xs">
          <Button variant="default" onClick={onClose}>
            {t.actions.cancel}
          </Button>
          <Button
            type="submit"
            color={danger ? "red.8" : undefined}
            loading={busy}
            data-testid="confirm"
            data-autofocus={!children || undefined}
          >
            {action}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
