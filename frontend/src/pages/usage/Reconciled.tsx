import { Alert } from "@mantine/core";
import { useReconciliation } from "../../hooks/useReconciliation";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { integer } from "../../lib/format";
import classes from "./Usage.module.css";
import { hourName } from "./UsageTable";

const words = t.usage.reconciled;

/** For operators: whether the records are what the doors counted. A quiet line as long as they are. */
export function Reconciled() {
  const { operator } = useScope();
  const found = useReconciliation(operator).data;
  if (!found) return null;
  const wrong = found.rows.filter((row) => row.settled && !row.equal);
  if (!wrong.length) {
    const waiting = found.total.waiting.requests;
    return (
      <p className={classes.quiet} data-testid="reconciled">
        {words.equal(integer(found.total.records.requests))}
        {waiting > 0 && ` ${words.waiting(integer(waiting))}`}
      </p>
    );
  }
  return (
    <Alert color="red" variant="light" title={words.differs} data-testid="reconciled">
      {wrong.map((row) => (
        <div key={`${row.hour} ${row.deployment}`}>
          {words.row(
            hourName(row.hour),
            row.deployment_name || row.deployment,
            integer(row.difference.requests),
            integer(row.difference.prompt_tokens + row.difference.completion_tokens),
          )}
        </div>
      ))}
    </Alert>
  );
}
