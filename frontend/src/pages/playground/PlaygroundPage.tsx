import { Drawer, SegmentedControl } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { ChatInput } from "./ChatInput";
import { CodeModal } from "./CodeModal";
import classes from "./Playground.module.css";
import { PlaygroundHeader } from "./PlaygroundHeader";
import { SettingsForm, TwoSettings } from "./SettingsForm";
import { type Letter, Side } from "./Side";
import { DEFAULTS, type Settings, toBody } from "./settings";
import { besides, namedBy, type Target } from "./targets";
import { type Chat, useChat } from "./useChat";
import { useTargets } from "./useTargets";

interface SideState {
  letter: Letter;
  chat: Chat;
  target: Target | undefined;
  settings: Settings;
}

/** Who stands on each side, as the URL names them. */
function useSides(targets: ReturnType<typeof useTargets>) {
  const search = useSearch({ from: "/t/$scope/playground" });
  const navigate = useNavigate({ from: "/t/$scope/playground" });
  const { current } = useScope();
  const tenantOf = (target: Target) => (current?.tenant ? undefined : target.tenant);
  const left = namedBy(targets.data ?? [], search.deployment, search.tenant) ?? targets.first;
  const right = namedBy(targets.data ?? [], search.right, search.right_tenant);
  return {
    left,
    right,
    two: search.right !== undefined,
    setLeft: (target: Target, replace = false) =>
      void navigate({
        search: (s) => ({ ...s, deployment: target.deployment, tenant: tenantOf(target) }),
        replace,
      }),
    setRight: (target: Target | undefined) =>
      void navigate({
        search: (s) => ({
          ...s,
          // Both sides are named from then on: a link to the comparison shows the same two.
          deployment: s.deployment ?? left?.deployment,
          tenant: s.tenant ?? (left && tenantOf(left)),
          right: target?.deployment,
          right_tenant: target && tenantOf(target),
        }),
      }),
    named: search.deployment !== undefined,
  };
}

export function PlaygroundPage() {
  const { canUse } = useScope();
  const targets = useTargets();
  const { left, right, two, setLeft, setRight, named } = useSides(targets);
  const a = useChat();
  const b = useChat();
  const [settings, setSettings] = useState<Settings>(DEFAULTS);
  const [own, setOwn] = useState<Settings>();
  const [editing, setEditing] = useState<Letter>("A");
  const [shown, setShown] = useState<Letter>("A");
  const [settingsOpen, drawer] = useDisclosure(false);
  const [codeOpen, code] = useDisclosure(false);
  const words = t.playground;

  const first: SideState = { letter: "A", chat: a, target: left, settings };
  const second: SideState = { letter: "B", chat: b, target: right, settings: own ?? settings };
  const sides = two ? [first, second] : [first];
  const busy = sides.some((side) => side.chat.busy);
  const usable = canUse && sides.every((side) => side.target);

  const send = (text: string) => {
    // A conversation stays with whom it began, whatever becomes ready or lost meanwhile.
    if (!named && left) setLeft(left, true);
    for (const side of sides) if (side.target) side.chat.send(text, side.target, side.settings);
  };
  const stop = () => {
    for (const side of sides) side.chat.stop();
  };
  const clear = () => {
    for (const side of sides) side.chat.clear();
  };
  const choose = (letter: Letter) => (key: string) => {
    const target = targets.data?.find((one) => one.key === key);
    if (target) (letter === "A" ? setLeft : setRight)(target);
  };
  const form = two ? (
    <TwoSettings
      settings={settings}
      onChange={setSettings}
      own={own}
      onOwn={setOwn}
      editing={editing}
      onEditing={setEditing}
    />
  ) : (
    <SettingsForm settings={settings} onChange={setSettings} />
  );
  const bodyOf = (side: SideState) => side.target && toBody(side.target.name, side.settings, side.chat.turns);

  return (
    <div className={classes.page}>
      <PlaygroundHeader
        onCompare={
          two || !left ? undefined : () => setRight(besides(targets.data ?? [], left, targets.ready))
        }
        onCode={left ? code.open : undefined}
        onClear={sides.some((side) => side.chat.turns.length) ? clear : undefined}
        onSettings={drawer.open}
      />
      <div className={classes.columns}>
        <div className={classes.chat}>
          {two && (
            <SegmentedControl
              className={classes.which}
              aria-label={words.which}
              data={["A", "B"]}
              value={shown}
              onChange={(value) => setShown(value as Letter)}
            />
          )}
          <div className={classes.sides} data-two={two || undefined}>
            {sides.map(({ letter, chat, target, settings: its }) => (
              <Side
                key={letter}
                letter={two ? letter : undefined}
                shown={!two || shown === letter}
                chat={chat}
                target={target}
                targets={targets.data}
                error={targets.error}
                retry={targets.retry}
                onTarget={choose(letter)}
                onAsk={usable && !busy ? send : undefined}
                onRegenerate={target && canUse && !chat.busy ? () => chat.regenerate(target, its) : undefined}
                onClose={letter === "B" ? () => setRight(undefined) : undefined}
              />
            ))}
          </div>
          <ChatInput busy={busy} disabled={!usable} readOnly={!canUse} onSend={send} onStop={stop} />
        </div>
        <aside className={classes.side} aria-label={words.settings}>
          {form}
        </aside>
      </div>
      <Drawer opened={settingsOpen} onClose={drawer.close} title={words.settings} size={360}>
        {form}
      </Drawer>
      <CodeModal
        opened={codeOpen}
        onClose={code.close}
        bodies={{ A: bodyOf(first), B: two ? bodyOf(second) : undefined }}
      />
    </div>
  );
}
