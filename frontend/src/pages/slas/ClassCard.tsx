import { ActionIcon, Group, Tooltip } from "@mantine/core";
import { IconPencil, IconTrash } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { ServiceClassDetail } from "../../api/types";
import { Facts } from "../../components/Facts";
import { Panel } from "../../components/Panel";
import { useScope } from "../../hooks/useScope";
import { say, t } from "../../i18n";
import { integer, milliseconds, NONE, percent } from "../../lib/format";
import { price } from "../../lib/money";
import { ttftLine } from "./promise";
import classes from "./Slas.module.css";

interface Props {
  level: ServiceClassDetail;
  onEdit: (() => void) | undefined;
  onDelete: (() => void) | undefined;
}

export function ClassCard({ level, onEdit, onDelete }: Props) {
  const { current } = useScope();
  const words = t.slas.classes;
  const { input, cached, output } = level.price_per_million;
  const rows = [
    { ...words.facts.ttft, value: ttftLine(level) },
    {
      ...words.facts.tpot,
      value: level.tpot_ms
        ? words.tpot(
            milliseconds(level.tpot_ms),
            level.stretch_tpot_ms ? milliseconds(level.stretch_tpot_ms) : null,
          )
        : NONE,
    },
    { ...words.facts.e2e, value: milliseconds(level.e2e_ms) },
    { ...words.facts.fluidity, value: percent(level.fluidity_floor) },
    { ...words.facts.target, value: percent(level.attainment_target) },
    {
      label: words.facts.isolation.label,
      hint: t.slas.isolation[level.isolation].hint,
      value: t.slas.isolation[level.isolation].label,
    },
    {
      ...words.facts.price,
      value: [input, cached, output].map((one) => price(one, level.currency)).join(" / "),
    },
  ];
  return (
    <Panel
      title={<span className={classes.className}>{level.name}</span>}
      aside={
        <Group gap={4}>
          {onEdit && (
            <Tooltip label={t.actions.edit}>
              <ActionIcon
                variant="subtle"
                color="gray"
                size="sm"
                aria-label={words.editOf(level.name)}
                onClick={onEdit}
                data-testid={`edit-class-${level.name}`}
              >
                <IconPencil size={15} stroke={1.6} />
              </ActionIcon>
            </Tooltip>
          )}
          {onDelete && (
            <Tooltip label={t.actions.delete}>
              <ActionIcon
                variant="subtle"
                color="gray"
                size="sm"
                aria-label={words.deleteOf(level.name)}
                onClick={onDelete}
              >
                <IconTrash size={15} stroke={1.6} />
              </ActionIcon>
            </Tooltip>
          )}
        </Group>
      }
    >
      <p className={classes.about}>{say(level.description) || "\u00a0"}</p>
      <Facts rows={rows} />
      {level.contracts_open === 0 ? (
        <span className={classes.unused}>{words.usedBy("0", 0)}</span>
      ) : (
        <Link
          className={classes.users}
          to="/t/$scope/slas"
          params={{ scope: current?.slug ?? "" }}
          search={{ tab: "contracts", service_class: level.name }}
        >
          {words.usedBy(integer(level.contracts_open), level.contracts_open)}
        </Link>
      )}
    </Panel>
  );
}
