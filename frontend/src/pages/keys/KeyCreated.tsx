import { Button, Group, Skeleton, Stack, Text } from "@mantine/core";
import { useState } from "react";
import type { CreatedKey, Deployment, Key } from "../../api/types";
import { CodeBlock } from "../../components/CodeBlock";
import { CopyButton } from "../../components/CopyButton";
import { Snippets } from "../../components/Snippets";
import { useDeployments } from "../../hooks/useDeployments";
import { t } from "../../i18n";
import classes from "./Keys.module.css";

/** Of the deployments that the key opens, best one that answers now. */
function firstFor(key: Key, deployments: Deployment[]): string {
  const opened = deployments.filter(({ id }) => key.deployments.length === 0 || key.deployments.includes(id));
  return (opened.find((one) => one.state.ready > 0) ?? opened[0])?.name ?? t.snippets.anyModel;
}

/** A first request that this key may send. Chosen once: what is being copied does not change. */
function TryIt({ apiKey, token }: { apiKey: Key; token: string }) {
  const deployments = useDeployments(apiKey.tenant);
  const [model, setModel] = useState<string | null>(null);
  if (!apiKey.scopes.includes("inference")) {
    const code = `curl ${location.origin}/api/v1/deployments \\\n  -H "Authorization: Bearer ${token}"`;
    return <CodeBlock code={code} label={t.snippets.copy} />;
  }
  if (model === null && !deployments.isPending) setModel(firstFor(apiKey, deployments.data ?? []));
  if (model === null) return <Skeleton height={150} />;
  const messages = [{ role: "user", content: t.snippets.question }];
  // The first answer one sees is short and the likeliest: a small model at its default temperature rambles.
  return <Snippets token={token} body={{ model, messages, temperature: 0, max_tokens: 64, stream: true }} />;
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
