import { Button } from "@mantine/core";
import { IconCircle, IconCircleCheckFilled } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useContractPage } from "../../hooks/useContracts";
import { useModels } from "../../hooks/useModels";
import { useNames } from "../../hooks/useNames";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import classes from "./Overview.module.css";
import { stepsOf } from "./steps";

const words = t.overview.steps;

/** What is there already on the way to a first answer, and the one thing to do next. */
export function NextSteps() {
  const scopes = useScope();
  const { current } = scopes;
  const models = useModels();
  const tenant = current?.tenant;
  const deployments = useNames("deployment", "", tenant);
  const contracts = useContractPage({ tenant, state: "current", page_size: 1 });
  const keys = useNames("key", "", tenant);
  if (!deployments.data || !contracts.data || !keys.data) return null;
  const steps = stepsOf(
    {
      models: models.data?.filter((one) => one.state === "ready").length ?? 0,
      deployments: deployments.data.names.length,
      contracts: contracts.data.results.length,
      keys: keys.data.names.length,
    },
    scopes,
  );
  const next = steps.find((one) => !one.done);
  return (
    <ol className={classes.steps} data-testid="next-steps">
      {steps.map((step) => (
        <li key={step.id} className={classes.step} data-done={step.done || undefined}>
          {step.done ? (
            <IconCircleCheckFilled size={18} aria-label={words.done} role="img" />
          ) : (
            <IconCircle size={18} stroke={1.6} aria-hidden="true" />
          )}
          <span>
            <b>{words[step.id].title}</b>
            <span className="muted">{words[step.id].text}</span>
          </span>
          {!step.done && (
            <Button
              component={Link}
              to={`/t/${current?.slug ?? ""}/${step.to}`}
              size="compact-sm"
              variant={step === next ? "filled" : "default"}
            >
              {words[step.id].action}
            </Button>
          )}
        </li>
      ))}
    </ol>
  );
}
