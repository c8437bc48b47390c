import { Button, Group, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import { ConfirmModal } from "../../components/ConfirmModal";
import { Loaded } from "../../components/Loaded";
import { Panel } from "../../components/Panel";
import { StatePill } from "../../components/StatePill";
import { useConfirmFactor, useDisableFactor, useFactor, useRenewCodes } from "../../hooks/useAccount";
import { t } from "../../i18n";
import { MfaSetup, RecoveryCodes } from "./MfaSetup";

/** Asks for a code before something that only its holder may do. */
function useCode() {
  const [code, setCode] = useState("");
  const field = (
    <TextInput
      label={t.settings.mfa.code}
      value={code}
      onChange={(event) => setCode(event.target.value)}
      autoComplete="one-time-code"
      required
      withAsterisk={false}
      mt="md"
      data-autofocus
    />
  );
  return { code, field, clear: () => setCode("") };
}

function Enabled({ left }: { left: number }) {
  const disable = useDisableFactor();
  const renew = useRenewCodes();
  const { code, field, clear } = useCode();
  const [asking, setAsking] = useState<"disable" | "renew" | null>(null);
  const words = t.settings.mfa;
  const close = () => {
    setAsking(null);
    clear();
    disable.reset();
    if (!renew.isSuccess) renew.reset();
  };
  const confirm = () => {
    if (asking === "renew") renew.mutate(code, { onSuccess: close });
    else
      disable.mutate(code, {
        onSuccess: () => {
          close();
          notifications.show({ message: words.disabled });
        },
      });
  };
  if (renew.data) return <RecoveryCodes codes={renew.data.recovery_codes} onDone={renew.reset} />;
  return (
    <>
      <p className="muted">{words.left(left)}</p>
      <Group gap="xs">
        <Button variant="default" onClick={() => setAsking("renew")}>
          {words.renew}
        </Button>
        <Button variant="default" color="red" onClick={() => setAsking("disable")}>
          {words.disable}
        </Button>
      </Group>
      <ConfirmModal
        opened={asking !== null}
        title={asking === "renew" ? words.renew : words.disableTitle}
        text={asking === "renew" ? words.renewText : words.disableText}
        action={asking === "renew" ? words.renew : words.disable}
        danger={asking === "disable"}
        busy={disable.isPending || renew.isPending}
        error={disable.error ?? renew.error}
        onConfirm={confirm}
        onClose={close}
      >
        {field}
      </ConfirmModal>
    </>
  );
}

export function MfaPanel() {
  const factor = useFactor();
  const words = t.settings.mfa;
  // Held here, where it outlives the form: the factor may be read as on before the codes are shown, and they come once
  const confirm = useConfirmFactor();
  return (
    <Panel title={words.title}>
      <Loaded query={factor}>
        {({ enabled, required, recovery_codes_left }) => (
          <>
            <StatePill state={enabled ? "ready" : "stopped"} label={enabled ? words.on : words.off} />
            <p className="muted">
              {words.text} {required && !enabled && words.required}
            </p>
            {confirm.data ? (
              <RecoveryCodes codes={confirm.data.recovery_codes} onDone={confirm.reset} />
            ) : enabled && !confirm.isPending ? (
              <Enabled left={recovery_codes_left} />
            ) : (
              <MfaSetup confirm={confirm} />
            )}
          </>
        )}
      </Loaded>
    </Panel>
  );
}
