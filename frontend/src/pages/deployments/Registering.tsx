import { Loader } from "@mantine/core";
import cell from "../../components/Cell.module.css";
import { useModels } from "../../hooks/useModels";
import { say, t } from "../../i18n";
import { percent } from "../../lib/format";
import classes from "./Deployments.module.css";

/** Models on their way in: what a first start waits for before there is anything to deploy. */
export function Registering() {
  const models = useModels();
  const coming = (models.data ?? []).filter((m) => m.state === "registering");
  return coming.map((model) => (
    <div key={model.id} className={classes.notice} role="status" data-testid="registering">
      <Loader size={14} aria-hidden="true" />
      {t.deployments.registering(model.name, percent(model.progress))}
      {model.reason && <span className={cell.sub}>{say(model.reason)}</span>}
    </div>
  ));
}
