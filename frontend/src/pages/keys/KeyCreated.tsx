import { Button, Group, Stack, Text } from "@mantine/core";
import type { CreatedKey, Key } from "../../api/types";
import { CodeBlock } from "../../components/CodeBlock";
import { CopyButton } from "../../components/CopyButton";
import { Snippets } from "../../components/Snippets";
import { useDeployments } from "../../hooks/useDeployments";
import { t } from "../../i18n";
import classes from "./Keys.module.css";

/** A first request that this key may send: to a deployment that it opens, best to one that answers now. */
function TryIt({ apiKey, token }: { apiKey: Key; token: string }) {
  const deployments = useDeployments(apiKey.tenant);
  if (!apiKey.scopes.includes("inference")) {
    const code = `curl ${location.origin}/api/v1/deployments \\\n  -H "Authorization: Bearer ${token}"`;
    return <CodeBlock code={code} label={t.snippets.copy} />;
  }
  const opened = (deployments.data ?? []).filter(
    ({ id }) => apiKey.deployments.length === 0 || apiKey.deployments.includes(id),
  );
  const model = opened.find((one) => one.state.ready > 0) ?? opened[0];
  const messages = [{ role: "user", content: t.snippets.question }];
  // The first answer one sees is short and the likeliest: a small model at its default temperature rambles.
  const body = { messages, temperature: 0, max_tokens: 64, stream: true };
  return <Snippets token={token} body={{ model: model?.name ?? t.snippets.anyModel, ...body }} />;
}

/** The one time a token is seen: it is in memory only and gone when this closes. */
export function KeyCreated({ made, onDone }: { made: CreatedKey; onDone: () => void }) {
  return (
    <Stack gap="md">
      <Text c="dimmed" size="sm">
        {t.keys.onceText}
      </Text>
      <div className={classes.token}>
        <code data-testid="key-token">{made.token}</code>
        <CopyButton value={made.token} label={t.keys.copyToken} />
      </div>
      <div>
        <Text size="sm" fw={550} mb={6}>
          {t.keys.tryIt}
        </Text>
        <TryIt apiKey={made.key} token={made.token} />
      </div>
      <Group justify="flex-end">
        <Button onClick={onDone}>{t.keys.done}</Button>
      </Group>
    </Stack>
  );
}
