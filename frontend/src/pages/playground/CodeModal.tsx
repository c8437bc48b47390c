import { Modal, SegmentedControl, Stack } from "@mantine/core";
import { useState } from "react";
import { Snippets } from "../../components/Snippets";
import { t } from "../../i18n";
import type { ChatBody } from "../../lib/snippets";
import type { Letter } from "./Side";

interface Props {
  opened: boolean;
  onClose: () => void;
  bodies: Partial<Record<Letter, ChatBody>>;
}

/** The conversation as a request one can run elsewhere, with one's own key. */
export function CodeModal({ opened, onClose, bodies }: Props) {
  const [chosen, setChosen] = useState<Letter>("A");
  const body = bodies[chosen] ?? bodies.A;
  if (!body) return null;
  // The request that is answered last: what came back is no part of it.
  const asked = body.messages.findLastIndex((m) => m.role === "user");
  const messages =
    asked < 0
      ? [...body.messages, { role: "user", content: t.snippets.question }]
      : body.messages.slice(0, asked + 1);
  return (
    <Modal opened={opened} onClose={onClose} title={t.playground.viewCode} size="xl">
      <Stack gap="sm" align="flex-start">
        {bodies.B && (
          <SegmentedControl
            size="xs"
            aria-label={t.playground.parameters.whose}
            data={(["A", "B"] as const).map((value) => ({
              value,
              label: `${value}: ${bodies[value]?.model ?? ""}`,
            }))}
            value={chosen}
            onChange={(value) => setChosen(value as Letter)}
          />
        )}
        <Snippets body={{ ...body, messages, stream: true }} />
        <p className="muted">{t.playground.codeHint}</p>
      </Stack>
    </Modal>
  );
}
