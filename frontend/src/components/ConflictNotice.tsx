import { Alert, Button, Group } from "@mantine/core";
import { IconGitMerge } from "@tabler/icons-react";
import type { Edit } from "../hooks/useEdit";
import { t } from "../i18n";
import { Changes } from "./Changes";

interface Props<T> {
  edit: Edit<T, never>;
  fields?: Record<string, string>;
}

/** After a refused change: what someone else made of it, and the two ways to go on. */
export function ConflictNotice<T>({ edit, fields }: Props<T>) {
  if (edit.conflict === undefined) return null;
  return (
    <Alert
      color="yellow"
      variant="light"
      title={t.kit.conflict.title}
      icon={<IconGitMerge size={16} />}
      role="alert"
      data-testid="conflict"
    >
      {t.kit.conflict.text}
      <Changes before={edit.opened} after={edit.conflict} fields={fields} />
      <Group gap="xs" mt="sm">
        <Button size="xs" onClick={edit.reload}>
          {t.kit.conflict.reload}
        </Button>
        <Button size="xs" variant="default" onClick={edit.overwrite} loading={edit.busy}>
          {t.kit.conflict.overwrite}
        </Button>
      </Group>
    </Alert>
  );
}
