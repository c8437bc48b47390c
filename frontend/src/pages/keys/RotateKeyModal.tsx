import { Button, Group, Modal, Select, Text } from "@mantine/core";
import { useState } from "react";
import type { Key } from "../../api/types";
import { FormError } from "../../components/FormError";
import { useRotateKey } from "../../hooks/useKeys";
import { t } from "../../i18n";
import { KeyCreated } from "./KeyCreated";

const GRACES = ["0", "3600", "86400", "604800"];

/** Another secret for a key; the one before works for a while, so that nothing stops in between. */
export function RotateKeyModal({ apiKey, onClose }: { apiKey: Key | null; onClose: () => void }) {
  const rotate = useRotateKey();
  const [grace, setGrace] = useState("86400");
  const close = () => {
    rotate.reset();
    onClose();
  };
  return (
    <Modal
      opened={apiKey !== null}
      onClose={close}
      title={rotate.data ? t.keys.created : t.keys.rotateTitle(apiKey?.name ?? "")}
      size={rotate.data ? "lg" : "sm"}
      closeOnClickOutside={!rotate.data}
    >
      {rotate.data ? (
        <KeyCreated made={rotate.data} onDone={close} />
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (apiKey) rotate.mutate({ id: apiKey.id, grace_seconds: Number(grace) });
          }}
        >
          <Text c="dimmed" size="sm" mb="md">
            {t.keys.rotateText}
          </Text>
          <Select
            label={t.keys.grace}
            data={GRACES.map((value) => ({ value, label: t.keys.graces[value] ?? value }))}
            value={grace}
            onChange={(value) => value && setGrace(value)}
            allowDeselect={false}
          />
          <FormError error={rotate.error} />
          <Group justify="flex-end" mt="lg" gap="xs">
            <Button variant="default" onClick={close}>
              {t.actions.cancel}
            </Button>
            <Button type="submit" loading={rotate.isPending} data-testid="confirm">
              {t.keys.rotate}
            </Button>
          </Group>
        </form>
      )}
    </Modal>
  );
}
