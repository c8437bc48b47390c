import { Button, Group } from "@mantine/core";
import { IconCircleCheck } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { Model } from "../../api/types";
import cell from "../../components/Cell.module.css";
import { FormError } from "../../components/FormError";
import { Loaded } from "../../components/Loaded";
import { useModel, useSteerModel } from "../../hooks/useModels";
import { useScope } from "../../hooks/useScope";
import { say, t } from "../../i18n";
import classes from "./Models.module.css";
import { RegistrationProgress } from "./RegistrationProgress";

interface Props {
  id: string;
  onAgain: () => void;
  onClose: () => void;
}

/** A registration that was just asked for, followed to its end. */
export function Watched({ id, onAgain, onClose }: Props) {
  const found = useModel(id);
  return (
    <Loaded query={found}>
      {(model) => (
        <div className={classes.form} data-testid="registration" data-state={model.state}>
          <div className={cell.two}>
            <strong>{model.name}</strong>
            <span className={`${classes.sub} mono`}>{model.source}</span>
          </div>
          <Shown model={model} />
          <Steps model={model} onAgain={onAgain} onClose={onClose} />
        </div>
      )}
    </Loaded>
  );
}

function Shown({ model }: { model: Model }) {
  const words = t.models.form;
  if (model.state === "registering") {
    return (
      <>
        <RegistrationProgress model={model} />
        <p className={classes.sub}>{words.leave}</p>
      </>
    );
  }
  if (model.state === "ready") {
    return (
      <div className={classes.done} role="status">
        <Group gap={8}>
          <IconCircleCheck size={18} color="var(--b-good)" aria-hidden="true" />
          <strong>{words.ready(model.name)}</strong>
        </Group>
        <span className={classes.sub}>{words.readyText}</span>
      </div>
    );
  }
  return <Refused model={model} />;
}

/** Why a model is not there: what was wrong with it, or that somebody stopped it. */
export function Refused({ model }: { model: Model }) {
  const words = t.models.progress;
  return (
    <p className={classes.refused} role="alert" data-testid="refused">
      <strong>{model.state === "cancelled" ? words.cancelled : words.refused}</strong>
      {say(model.reason)}
    </p>
  );
}

function Steps({ model, onAgain, onClose }: { model: Model } & Omit<Props, "id">) {
  const { current } = useScope();
  const cancel = useSteerModel("cancel");
  const retry = useSteerModel("retry");
  const words = t.models.form;
  const ended = model.state === "failed" || model.state === "cancelled";
  return (
    <>
      <FormError error={cancel.error ?? retry.error} />
      <Group justify="flex-end" gap="xs">
        {model.state === "registering" && (
          <Button variant="default" loading={cancel.isPending} onClick={() => cancel.mutate(model.id)}>
            {t.models.cancel.action}
          </Button>
        )}
        {ended && (
          <Button variant="default" onClick={onAgain}>
            {words.edit}
          </Button>
        )}
        {ended && (
          <Button loading={retry.isPending} onClick={() => retry.mutate(model.id)}>
            {t.models.retry.action}
          </Button>
        )}
        {model.state === "ready" && (
          <>
            <Button variant="default" onClick={onAgain}>
              {words.another}
            </Button>
            <Button component={Link} to={`/t/${current?.slug}/deployments?create=true&of=${model.id}`}>
              {t.models.deploy}
            </Button>
          </>
        )}
        {model.state === "registering" && (
          <Button variant="default" onClick={onClose}>
            {t.actions.close}
          </Button>
        )}
      </Group>
    </>
  );
}
