import { Button, Drawer, Group, Stack } from "@mantine/core";
import type { FormEventHandler, ReactNode } from "react";
import { t } from "../i18n";
import { FormError } from "./FormError";
import { LaterInDialog } from "./Later";

interface Props {
  opened: boolean;
  title: string;
  /** What the button says. */
  submit: string;
  busy: boolean;
  error: Error | null;
  onSubmit: FormEventHandler<HTMLFormElement>;
  onClose: () => void;
  size?: number;
  disabled?: boolean;
  testId?: string;
  children: ReactNode;
}

/** A form at the right; Escape and the cancel button leave it, its error stands above the button. */
export function FormDrawer(props: Props) {
  return (
    <Drawer opened={props.opened} onClose={props.onClose} title={props.title} size={props.size ?? 460}>
      <LaterInDialog>
        <form onSubmit={props.onSubmit} data-testid={props.testId}>
          <Stack gap="md">{props.children}</Stack>
          <FormError error={props.error} />
          <Group justify="flex-end" gap="xs" mt="lg">
            <Button variant="default" onClick={props.onClose}>
              {t.actions.cancel}
            </Button>
            <Button type="submit" loading={props.busy} disabled={props.disabled} data-testid="submit">
              {props.submit}
            </Button>
          </Group>
        </form>
      </LaterInDialog>
    </Drawer>
  );
}
