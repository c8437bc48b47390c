import { Button, Group, Modal, Text } from "@mantine/core";
import { CodeBlock } from "../../components/CodeBlock";
import { CopyButton } from "../../components/CopyButton";
import { t } from "../../i18n";

export interface InvitationLink {
  email: string;
  url: string;
  mailed: boolean;
}

/** The one time an invitation's link is seen. */
export function LinkModal({ link, onClose }: { link: InvitationLink | null; onClose: () => void }) {
  const words = t.members.link;
  return (
    <Modal opened={link !== null} onClose={onClose} title={words.title} closeOnClickOutside={false} size="lg">
      {link && (
        <>
          <Text c="dimmed" size="sm" mb="sm">
            {words.text(link.email)} {link.mailed ? words.mailed : words.notMailed}
          </Text>
          <div data-testid="invitation-link">
            <CodeBlock code={link.url} label={words.copy} />
          </div>
          <Group justify="flex-end" mt="md" gap="xs">
            <CopyButton full value={link.url} label={words.copy} />
            <Button onClick={onClose}>{words.done}</Button>
          </Group>
        </>
      )}
    </Modal>
  );
}
