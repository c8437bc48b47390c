import { Alert, Button, Group, Loader, Modal, Stack, Text, TextInput } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck } from "@tabler/icons-react";
import { useState } from "react";
import { CodeBlock } from "../../components/CodeBlock";
import { FormError } from "../../components/FormError";
import { useCreateNode, useNode } from "../../hooks/useNodes";
import { t } from "../../i18n";
import { slugError } from "../../lib/slug";
import classes from "./Fleet.module.css";
import { joinCommand } from "./joinCommand";

interface Props {
  opened: boolean;
  onClose: () => void;
}

/** Two steps: a name, then the token (this once) with the line to run, and word when the agent connected. */
export function AddNodeModal({ opened, onClose }: Props) {
  const create = useCreateNode();
  const [name, setName] = useState("");
  const [tried, setTried] = useState(false);
  const problem = slugError(name);
  const created = create.data;
  const close = () => {
    onClose();
    create.reset();
    setName("");
    setTried(false);
  };
  if (created) {
    return (
      <Modal
        opened={opened}
        onClose={close}
        title={t.fleet.add.created(created.node.name)}
        size="lg"
        closeOnClickOutside={false}
      >
        <Joining id={created.node.id} name={created.node.name} token={created.token} onDone={close} />
      </Modal>
    );
  }
  const submit = (event: React.FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (!problem) create.mutate(name);
  };
  return (
    <Modal opened={opened} onClose={close} title={t.fleet.add.title}>
      <form onSubmit={submit}>
        <TextInput
          label={t.fleet.add.name}
          description={t.fleet.add.nameHint}
          placeholder="gpu-01"
          value={name}
          onChange={(e) => setName(e.target.value)}
          error={tried ? problem : null}
          data-autofocus
        />
        <FormError error={create.error} />
        <Group justify="flex-end" mt="lg" gap="xs">
          <Button variant="default" onClick={close}>
            {t.actions.cancel}
          </Button>
          <Button type="submit" loading={create.isPending}>
            {t.fleet.add.submit}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}

interface JoiningProps {
  id: string;
  name: string;
  token: string;
  onDone: () => void;
}

function Joining({ id, name, token, onDone }: JoiningProps) {
  const words = t.fleet.add;
  const node = useNode(id, 1_500).data;
  const joined = node?.online ?? false;
  return (
    <Stack gap="sm">
      <Alert color="yellow" variant="light" p="xs" icon={<IconAlertTriangle size={16} />}>
        {words.once}
      </Alert>
      <Text size="sm">{words.run}</Text>
      <CodeBlock code={joinCommand(name, token, location.origin)} />
      <Text size="xs" c="dimmed">
        {words.runHint}
      </Text>
      <div className={classes.waiting} role="status" data-testid="joining" data-joined={joined}>
        {joined ? (
          <>
            <IconCircleCheck size={18} color="var(--b-good)" aria-hidden="true" />
            {words.connected(words.devices(node?.devices.length ?? 0))}
          </>
        ) : (
          <>
            <Loader size={14} aria-hidden="true" />
            {words.waiting}
          </>
        )}
      </div>
      <Group justify="flex-end">
        <Button variant={joined ? "filled" : "default"} onClick={onDone}>
          {joined ? words.done : words.leave}
        </Button>
      </Group>
    </Stack>
  );
}
