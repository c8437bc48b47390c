import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Model } from "../../api/types";
import cell from "../../components/Cell.module.css";
import { ClassName } from "../../components/ClassName";
import { ACTIONS, type Column } from "../../components/DataTable";
import { Hint } from "../../components/Hint";
import { StateReason } from "../../components/StateReason";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { bytes, integer, NONE } from "../../lib/format";
import { FitCell } from "./FitCell";
import { amount } from "./ModelFacts";
import { ModelMenu } from "./ModelMenu";
import classes from "./Models.module.css";
import { RegistrationProgress } from "./RegistrationProgress";

const words = t.models.columns;
const hints = t.models.hints;

function Name({ model }: { model: Model }) {
  const { current } = useScope();
  return (
    <div className={cell.two}>
      <Link
        className={cell.link}
        to="/t/$scope/models/$id"
        params={{ scope: current?.slug ?? "", id: model.id }}
      >
        {model.name}
      </Link>
      <span className={classes.sub}>
        {model.tenant && `${t.models.ownedBy(model.tenant.name)} · `}
        {model.architecture ? <ClassName name={model.architecture} /> : t.models.kinds[model.source_kind]}
        {model.licence && ` · ${model.licence}`}
      </span>
    </div>
  );
}

function State({ model }: { model: Model }) {
  if (model.state === "registering") return <RegistrationProgress model={model} />;
  return <StateReason state={model.state} reason={model.reason} />;
}

function Actions({ model, used }: { model: Model; used: number | undefined }) {
  const { current, canChange } = useScope();
  return (
    <div className={classes.actions}>
      {canChange && model.state === "ready" && (
        <Button
          component={Link}
          to={`/t/${current?.slug}/deployments?create=true&of=${model.id}`}
          size="xs"
          variant="default"
          aria-label={t.models.deployNamed(model.name)}
        >
          {t.models.deploy}
        </Button>
      )}
      <ModelMenu model={model} used={used} />
    </div>
  );
}

/** `used`: how many deployments of the scope serve the model, once that is known. */
export function modelColumns(used: (model: Model) => number | undefined): Column<Model>[] {
  return [
    {
      id: "name",
      accessorFn: (m) => m.name,
      header: words.name,
      sortFn: "text",
      cell: ({ row }) => <Name model={row.original} />,
    },
    {
      id: "state",
      accessorFn: (m) => m.state,
      header: words.state,
      sortFn: "text",
      cell: ({ row }) => <State model={row.original} />,
    },
    {
      id: "parameters",
      accessorFn: (m) => m.parameters,
      header: words.parameters,
      sortFn: "basic",
      meta: { end: true, hide: "tablet" },
      cell: ({ row }) => amount(row.original.parameters, integer),
    },
    {
      id: "weights",
      accessorFn: (m) => m.weights_bytes,
      header: words.weights,
      sortFn: "basic",
      meta: { end: true, hide: "phone" },
      cell: ({ row }) => amount(row.original.weights_bytes, bytes),
    },
    {
      id: "kv",
      accessorFn: (m) => m.kv_bytes_per_token,
      header: words.kv,
      sortFn: "basic",
      meta: { end: true, hide: "tablet" },
      cell: ({ row }) => amount(row.original.kv_bytes_per_token, bytes),
    },
    {
      id: "context",
      accessorFn: (m) => m.context_length,
      header: words.context,
      sortFn: "basic",
      meta: { end: true, hide: "tablet" },
      cell: ({ row }) => amount(row.original.context_length, integer),
    },
    {
      id: "format",
      accessorFn: (m) => m.source_format,
      header: words.format,
      sortFn: "text",
      meta: { hide: "tablet" },
      cell: ({ row }) => row.original.source_format || NONE,
    },
    {
      id: "fit",
      header: () => (
        <>
          {words.fit} <Hint text={hints.fit} />
        </>
      ),
      enableSorting: false,
      meta: { hide: "phone" },
      cell: ({ row }) => <FitCell model={row.original} />,
    },
    {
      id: "used",
      accessorFn: (m) => used(m) ?? -1,
      header: words.used,
      sortFn: "basic",
      meta: { end: true, hide: "tablet" },
      cell: ({ row }) => integer(used(row.original)),
    },
    {
      ...ACTIONS,
      cell: ({ row }) => <Actions model={row.original} used={used(row.original)} />,
    },
  ];
}
