import { notifications } from "@mantine/notifications";
import type { Node } from "../../api/fleet";
import { ConfirmModal } from "../../components/ConfirmModal";
import { type NodeVerb, useChangeNode } from "../../hooks/useNodes";
import { t } from "../../i18n";

interface Props {
  node: Node;
  nodes: Node[];
  verb: NodeVerb;
  onClose: () => void;
  onRemoved?: () => void;
}

function wordsOf(verb: NodeVerb, name: string) {
  const words = t.fleet.actions;
  return {
    cordon: [words.cordonTitle(name), words.cordonText, words.cordoned(name)],
    uncordon: [words.uncordonTitle(name), words.uncordonText, words.uncordoned(name)],
  }[verb] as [string, string, string];
}

/** Says what a change of a node does, then does it. */
export function NodeChange({ node, verb, onClose }: Props) {
  const change = useChangeNode();
  const [title, text, done] = wordsOf(verb, node.name);
  const confirm = () =>
    change.mutate(
      { id: node.id, verb },
      {
        onSuccess: () => {
          notifications.show({ message: done });
          onClose();
        },
      },
    );
  return (
    <ConfirmModal
      opened
      title={title}
      text={text}
      action={t.fleet.actions[verb]}
      busy={change.isPending}
      error={change.error}
      onConfirm={confirm}
      onClose={onClose}
    />
  );
}
