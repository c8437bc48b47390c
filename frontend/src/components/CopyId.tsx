import { UnstyledButton, VisuallyHidden } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useCopy } from "../hooks/useCopy";
import { useTip } from "../hooks/useTip";
import { t } from "../i18n";
import classes from "./CopyId.module.css";

/** An id that a click copies whole; `short` shows its end only. */
export function CopyId({ id, short = false }: { id: string; short?: boolean }) {
  const { copied, copy } = useCopy();
  const Icon = copied ? IconCheck : IconCopy;
  const { target, tip } = useTip<HTMLButtonElement>(() => (copied ? t.kit.idCopied : t.kit.copyId(id)));
  return (
    <>
      <UnstyledButton
        {...target}
        className={classes.id}
        data-short={short || undefined}
        onClick={() => copy(id)}
      >
        <VisuallyHidden>{t.kit.copyId(id)}</VisuallyHidden>
        <span className="mono" aria-hidden="true">
          {short && id.length > 10 ? `…${id.slice(-8)}` : id}
        </span>
        <Icon size={12} stroke={1.7} aria-hidden="true" />
      </UnstyledButton>
      {tip}
    </>
  );
}
