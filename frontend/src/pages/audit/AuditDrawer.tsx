import { Button, Drawer, Group, Stack } from "@mantine/core";
import type { AuditEvent } from "../../api/types";
import { Changes } from "../../components/Changes";
import { CodeBlock } from "../../components/CodeBlock";
import { CopyId } from "../../components/CopyId";
import { Facts } from "../../components/Facts";
import { Loaded } from "../../components/Loaded";
import { useAuditEvent } from "../../hooks/useAudit";
import { t } from "../../i18n";
import { absolute } from "../../lib/format";
import type { TextSearch } from "../../lib/search";
import { actionWords, actorWords } from "./actions";

interface Props {
  id: string | undefined;
  onClose: () => void;
  onFilter: (patch: TextSearch) => void;
}

function Event({ event, onFilter }: { event: AuditEvent; onFilter: Props["onFilter"] }) {
  const words = t.audit;
  const nothing = !event.before && !event.after;
  return (
    <Stack gap="lg">
      <Facts
        rows={[
          { label: words.columns.when, value: absolute(event.created_at) },
          { label: words.actor, value: actorWords(event.actor) },
          { label: words.columns.what, value: <span className="mono">{event.action}</span> },
          { label: words.columns.object, value: <CopyId id={event.object_id} /> },
          ...(event.request_id ? [{ label: words.request, value: <CopyId id={event.request_id} /> }] : []),
        ]}
      />
      {nothing ? (
        <p className="muted">{words.noFields}</p>
      ) : (
        <Changes
          before={event.before}
          after={event.after}
          heads={{ before: words.before, after: words.after }}
        />
      )}
      <Group gap="xs">
        <Button
          size="xs"
          variant="default"
          onClick={() => onFilter({ event: undefined, object: event.object_id, cursor: undefined })}
        >
          {words.onlyThis}
        </Button>
        <Button
          size="xs"
          variant="default"
          onClick={() => onFilter({ event: undefined, actor: event.actor, cursor: undefined })}
        >
          {words.onlyActor}
        </Button>
      </Group>
      {!nothing && (
        <details>
          <summary>{words.raw}</summary>
          <CodeBlock code={JSON.stringify({ before: event.before, after: event.after }, null, 2)} />
        </details>
      )}
    </Stack>
  );
}

export function AuditDrawer({ id, onClose, onFilter }: Props) {
  const event = useAuditEvent(id);
  return (
    <Drawer
      opened={id !== undefined}
      onClose={onClose}
      title={event.data ? actionWords(event.data.action) : t.audit.event}
      size={620}
    >
      <Loaded query={event}>{(data) => <Event event={data} onFilter={onFilter} />}</Loaded>
    </Drawer>
  );
}
