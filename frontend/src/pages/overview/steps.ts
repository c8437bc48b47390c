export type StepId = "model" | "deployment" | "contract" | "key" | "request";

export interface Step {
  id: StepId;
  done: boolean;
  to: string;
}

export interface Known {
  models: number;
  deployments: number;
  contracts: number;
  keys: number;
}

/** From nothing to the first answer. Whoever may not take a step is not shown it; the last one is why this is seen. */
export function stepsOf(
  known: Known,
  who: { operator: boolean; canChange: boolean; canUse: boolean },
): Step[] {
  const steps: (Step & { shown: boolean })[] = [
    { id: "model", done: known.models > 0, to: "models?create=true", shown: who.operator },
    {
      id: "deployment",
      // Another's deployment under a contract serves as well as one's own.
      done: known.deployments > 0 || known.contracts > 0,
      to: "deployments?create=true",
      shown: who.canChange,
    },
    {
      id: "contract",
      done: known.contracts > 0,
      to: "slas?tab=contracts&create=contract",
      shown: who.operator,
    },
    { id: "key", done: known.keys > 0, to: "keys?create=true", shown: who.canUse },
    { id: "request", done: false, to: "playground", shown: who.canUse },
  ];
  return steps.filter((one) => one.shown).map(({ shown: _, ...step }) => step);
}
