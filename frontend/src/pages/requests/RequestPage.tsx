import { Button, Group } from "@mantine/core";
import { IconArrowLeft, IconRefresh } from "@tabler/icons-react";
import { Link, useParams } from "@tanstack/react-router";
import { ApiError } from "../../api/errors";
import type { ExplainedRequest } from "../../api/types";
import { CopyId } from "../../components/CopyId";
import { EmptyState } from "../../components/EmptyState";
import { Loaded } from "../../components/Loaded";
import { PageHeader } from "../../components/PageHeader";
import { Panel } from "../../components/Panel";
import { StatePill } from "../../components/StatePill";
import { useRequest } from "../../hooks/useRequests";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { absolute } from "../../lib/format";
import { factsOf, meanwhileOf, whereOf } from "./facts";
import { RequestFacts } from "./RequestFacts";
import classes from "./Requests.module.css";
import { RequestTimeline } from "./RequestTimeline";
import { sentences } from "./sentences";
import { stateOf, verdictLabel } from "./verdict";

const words = t.requests.one;

function Explained({ request }: { request: ExplainedRequest }) {
  const { current } = useScope();
  const scope = current?.slug ?? "";
  return (
    <div className={classes.stack}>
      <Panel>
        <div className={classes.verdict}>
          <StatePill state={stateOf(request.verdict)} label={verdictLabel(request.summary)} />
          <p className={classes.sentence} data-testid="sentence">
            {sentences(request)}
          </p>
        </div>
        <RequestTimeline request={request} />
      </Panel>
      <div className={classes.columns}>
        <RequestFacts title={words.what} rows={factsOf(request, scope)} />
        <div className={classes.stack}>
          <RequestFacts title={words.where} hint={words.whereHint} rows={whereOf(request, scope)} />
          <RequestFacts title={words.meanwhile} hint={words.meanwhileHint} rows={meanwhileOf(request)} />
        </div>
      </div>
    </div>
  );
}

/** One request: what became of it, why, and where the time went. */
export function RequestPage() {
  const { id = "" } = useParams({ strict: false });
  const { current } = useScope();
  const request = useRequest(id);
  const missing = request.error instanceof ApiError && request.error.status === 404;
  const waiting = request.isPending && request.failureCount > 0;
  return (
    <>
      <PageHeader
        title={words.title}
        subtitle={
          <Group gap="xs" component="span">
            <CopyId id={id} />
            {request.data && <span>{absolute(request.data.summary.arrived_at)}</span>}
          </Group>
        }
      >
        <Button
          component={Link}
          to={`/t/${current?.slug ?? ""}/requests`}
          variant="default"
          leftSection={<IconArrowLeft size={16} stroke={1.6} />}
        >
          {words.all}
        </Button>
      </PageHeader>
      {waiting && (
        <p className="muted" role="status">
          {words.booking}
        </p>
      )}
      {missing ? (
        <Panel>
          <EmptyState
            icon={<IconRefresh size={20} stroke={1.6} />}
            title={words.missing}
            text={words.missingText}
          >
            <Button onClick={() => void request.refetch()}>{t.actions.retry}</Button>
          </EmptyState>
        </Panel>
      ) : (
        <Loaded query={request}>{(data) => <Explained request={data} />}</Loaded>
      )}
    </>
  );
}
