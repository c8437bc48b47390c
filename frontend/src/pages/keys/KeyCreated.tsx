import { Button, Group, Stack, Text } from "@mantine/core";
import { CopyButton } from "../../components/CopyButton";
import { Snippets } from "../../components/Snippets";
import { useDeployments } from "../../hooks/useDeployments";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import classes from "./Keys.module.css";

/** The one time a token is seen: it is in memory only and gone when this closes. */
export function KeyCreated({ token, onDone }: { token: string; onDone: () => void }) {
  const { current } = useScope();
  const deployments = useDeployments(current?.tenant);
  const model = deployments.data?.[0]?.name ?? t.snippets.anyModel;
  return (
    <Stack gap="md">
      <Text c="dimmed" size="sm">
        {t.keys.onceText}
      </Text>
      <div className={classes.token}>
        <code data-testid="key-token">{token}</code>
        <CopyButton value={token} label={t.keys.copyToken} />
      </div>
      <div>
        <Text size="sm" fw={550} mb={6}>
          {t.keys.tryIt}
        </Text>
        <Snippets
          token={token}
          body={{ model, messages: [{ role: "user", content: t.snippets.question }], stream: true }}
        />
      </div>
      <Group justify="flex-end">
        <Button onClick={onDone}>{t.keys.done}</Button>
      </Group>
    </Stack>
  );
}
