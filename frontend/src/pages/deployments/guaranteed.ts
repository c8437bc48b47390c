import type { Contract } from "../../api/types";

/** Tokens a second that contracts guarantee together; null where none guarantees a rate. */
export function guaranteedRate(contracts: Pick<Contract, "guaranteed_tokens_per_min">[]): number | null {
  const given = contracts.flatMap((one) => one.guaranteed_tokens_per_min ?? []);
  return given.length ? given.reduce((sum, one) => sum + one, 0) / 60 : null;
}
