import { Modal } from "@mantine/core";
import { Snippets } from "../../components/Snippets";
import { t } from "../../i18n";
import type { ChatBody } from "../../lib/snippets";

interface Props {
  opened: boolean;
  onClose: () => void;
  body: ChatBody;
}

/** The conversation as a request one can run elsewhere, with one's own key. */
export function CodeModal({ opened, onClose, body }: Props) {
  const messages = body.messages.length ? body.messages : [{ role: "user", content: t.snippets.question }];
  return (
    <Modal opened={opened} onClose={onClose} title={t.playground.viewCode} size="xl">
      <Snippets body={{ ...body, messages, stream: true }} />
    </Modal>
  );
}
