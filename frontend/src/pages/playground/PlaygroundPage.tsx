import { ActionIcon, Drawer, Select, Tooltip } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconAdjustmentsHorizontal, IconCode, IconEraser } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { ErrorState } from "../../components/ErrorState";
import { PageHeader } from "../../components/PageHeader";
import { TenantSelect } from "../../components/TenantSelect";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { ChatInput } from "./ChatInput";
import { CodeModal } from "./CodeModal";
import { Conversation } from "./Conversation";
import classes from "./Playground.module.css";
import { SettingsForm } from "./SettingsForm";
import { DEFAULTS, type Settings, toBody } from "./settings";
import { useChat } from "./useChat";
import { useFirstTarget, useTargets } from "./useTargets";

export function PlaygroundPage() {
  const search = useSearch({ from: "/t/$scope/playground" });
  const navigate = useNavigate({ from: "/t/$scope/playground" });
  const { current, canUse } = useScope();
  const tenant = current?.tenant ?? search.tenant;
  const targets = useTargets(tenant);
  const first = useFirstTarget(tenant, targets.data);
  const chat = useChat();
  const [settings, setSettings] = useState<Settings>(DEFAULTS);
  const [settingsOpen, drawer] = useDisclosure(false);
  const [codeOpen, code] = useDisclosure(false);
  const chosen = targets.data?.find((d) => d.id === search.deployment) ?? first;
  const words = t.playground;

  const send = (text: string) => {
    if (!tenant || !chosen) return;
    // A conversation stays with whom it began, whatever becomes ready or lost meanwhile.
    if (!search.deployment)
      void navigate({ search: (s) => ({ ...s, deployment: chosen.id }), replace: true });
    chat.send(text, { tenant, model: chosen.name }, settings);
  };
  const form = <SettingsForm settings={settings} onChange={setSettings} />;
  return (
    <div className={classes.page}>
      <PageHeader title={words.title}>
        {!current?.tenant && (
          <TenantSelect
            label={undefined}
            aria-label={t.scope.tenant}
            value={search.tenant ?? null}
            onChange={(value) => navigate({ search: { tenant: value ?? undefined } })}
            w={170}
          />
        )}
        <Select
          aria-label={words.deployment}
          placeholder={words.choose}
          data={(targets.data ?? []).map((d) => ({ value: d.id, label: d.name }))}
          value={chosen?.id ?? null}
          onChange={(value) => navigate({ search: (s) => ({ ...s, deployment: value ?? undefined }) })}
          allowDeselect={false}
          w={210}
          data-testid="playground-deployment"
        />
        <Tooltip label={words.viewCode}>
          <ActionIcon
            variant="default"
            size={36}
            aria-label={words.viewCode}
            onClick={code.open}
            disabled={!chosen}
            data-testid="view-code"
          >
            <IconCode size={16} stroke={1.6} />
          </ActionIcon>
        </Tooltip>
        <Tooltip label={words.clear}>
          <ActionIcon
            variant="default"
            size={36}
            aria-label={words.clear}
            onClick={chat.clear}
            disabled={chat.turns.length === 0}
          >
            <IconEraser size={16} stroke={1.6} />
          </ActionIcon>
        </Tooltip>
        <ActionIcon
          variant="default"
          size={36}
          aria-label={words.settings}
          onClick={drawer.open}
          className={classes.onPhone}
        >
          <IconAdjustmentsHorizontal size={16} stroke={1.6} />
        </ActionIcon>
      </PageHeader>
      <div className={classes.columns}>
        <section className={classes.chat}>
          {targets.error ? (
            <ErrorState error={targets.error} retry={targets.retry} />
          ) : (
            <Conversation
              turns={chat.turns}
              tenant={tenant}
              targets={targets.data}
              onAsk={canUse && chosen ? send : undefined}
            />
          )}
          <ChatInput
            busy={chat.busy}
            disabled={!chosen || !tenant || !canUse}
            readOnly={!canUse}
            onSend={send}
            onStop={chat.stop}
          />
        </section>
        <aside className={classes.side} aria-label={words.settings}>
          {form}
        </aside>
      </div>
      <Drawer opened={settingsOpen} onClose={drawer.close} title={words.settings} size={360}>
        {form}
      </Drawer>
      {chosen && (
        <CodeModal opened={codeOpen} onClose={code.close} body={toBody(chosen.name, settings, chat.turns)} />
      )}
    </div>
  );
}
