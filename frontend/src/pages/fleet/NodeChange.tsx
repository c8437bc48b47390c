import { notifications } from "@mantine/notifications";
import type { Node } from "../../api/fleet";
import { ConfirmModal } from "../../components/ConfirmModal";
import { type NodeVerb, useChangeNode } from "../../hooks/useNodes";
import { t } from "../../i18n";
import { Moves } from "./Moves";

interface Props {
  node: Node;
  verb: NodeVerb;
  onClose: () => void;
  onRemoved?: () => void;
}

function wordsOf(verb: NodeVerb, name: string) {
  const words = t.fleet.actions;
  const all = {
    cordon: { title: words.cordonTitle(name), text: words.cordonText, done: words.cordoned(name) },
    uncordon: { title: words.uncordonTitle(name), text: words.uncordonText, done: words.uncordoned(name) },
    drain: { title: words.drainTitle(name), text: words.drainText, done: words.drained(name) },
    remove: { title: words.removeTitle(name), text: words.removeText, done: words.removed(name) },
  };
  return all[verb];
}

/** Says what a change of a node does (of a drain: to whom), then does it. */
export function NodeChange({ node, verb, onClose, onRemoved }: Props) {
  const change = useChangeNode();
  const { title, text, done } = wordsOf(verb, node.name);
  const confirm = () =>
    change.mutate(
      { shown: node, body: verb },
      {
        onSuccess: () => {
          notifications.show({ message: done });
          onClose();
          if (verb === "remove") onRemoved?.();
        },
      },
    );
  return (
    <ConfirmModal
      opened
      title={title}
      text={text}
      action={t.fleet.actions[verb]}
      danger={verb === "remove"}
      busy={change.isPending}
      error={change.error}
      onConfirm={confirm}
      onClose={onClose}
    >
      {verb === "drain" && <Moves node={node} />}
    </ConfirmModal>
  );
}
