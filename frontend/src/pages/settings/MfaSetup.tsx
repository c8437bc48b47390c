import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { type FormEvent, lazy, Suspense, useState } from "react";
import { CopyButton } from "../../components/CopyButton";
import { FormError } from "../../components/FormError";
import { useBeginFactor, type useConfirmFactor } from "../../hooks/useAccount";
import { t } from "../../i18n";
import classes from "./Settings.module.css";

/** Few people set a factor up, and each once: its code is loaded then. */
const QrCode = lazy(() => import("./QrCode").then((module) => ({ default: module.QrCode })));

export function RecoveryCodes({ codes, onDone }: { codes: string[]; onDone: () => void }) {
  const words = t.settings.mfa;
  return (
    <Stack gap="sm" data-testid="recovery-codes">
      <Text fw={550}>{words.codesTitle}</Text>
      <Text size="sm" c="dimmed">
        {words.codesText}
      </Text>
      <ul className={classes.codes}>
        {codes.map((code) => (
          <li key={code}>{code}</li>
        ))}
      </ul>
      <Group gap="xs">
        <CopyButton full value={codes.join("\n")} />
        <Button onClick={onDone}>{words.saved}</Button>
      </Group>
    </Stack>
  );
}

interface ConfirmProps {
  secret: string;
  uri: string;
  confirm: ReturnType<typeof useConfirmFactor>;
  onCancel: () => void;
}

function Confirm({ secret, uri, confirm, onCancel }: ConfirmProps) {
  const [code, setCode] = useState("");
  const words = t.settings.mfa;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    confirm.mutate(code.replace(/\s/g, ""));
  };
  return (
    <form onSubmit={submit} data-testid="mfa-form">
      <Stack gap="sm">
        <Text size="sm">{words.scan}</Text>
        <Suspense fallback={<div className={classes.qr} />}>
          <QrCode text={uri} label={words.qr} />
        </Suspense>
        <Group gap={6} wrap="nowrap">
          <Text size="sm" className="mono" style={{ overflowWrap: "anywhere" }} data-testid="mfa-secret">
            {secret}
          </Text>
          <CopyButton value={secret} label={`${t.actions.copy}: ${words.secret}`} />
        </Group>
        <TextInput
          label={words.code}
          value={code}
          onChange={(event) => setCode(event.target.value)}
          inputMode="numeric"
          autoComplete="one-time-code"
          required
          withAsterisk={false}
          maxLength={8}
          autoFocus
        />
      </Stack>
      <FormError error={confirm.error} />
      <Group gap="xs" mt="md">
        <Button variant="default" onClick={onCancel}>
          {t.actions.cancel}
        </Button>
        <Button type="submit" loading={confirm.isPending}>
          {words.confirm}
        </Button>
      </Group>
    </form>
  );
}

/** A new secret as QR code and text; it counts once a code made with it was entered. */
export function MfaSetup({ confirm }: { confirm: ReturnType<typeof useConfirmFactor> }) {
  const begin = useBeginFactor();
  const cancel = () => {
    begin.reset();
    confirm.reset();
  };
  if (begin.data)
    return <Confirm secret={begin.data.secret} uri={begin.data.uri} confirm={confirm} onCancel={cancel} />;
  return (
    <>
      <Button
        variant="default"
        loading={begin.isPending}
        onClick={() => begin.mutate(undefined)}
        data-testid="mfa-begin"
      >
        {t.settings.mfa.enable}
      </Button>
      <FormError error={begin.error} />
    </>
  );
}
