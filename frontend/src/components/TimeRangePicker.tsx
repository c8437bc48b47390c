import { Button, Popover, TextInput } from "@mantine/core";
import { IconCheck, IconChevronDown, IconClock } from "@tabler/icons-react";
import { type FormEvent, useState } from "react";
import type { TimeRange } from "../hooks/useTimeRange";
import { t } from "../i18n";
import { localInput } from "../lib/timeRange";
import classes from "./TimeRangePicker.module.css";

export const SPANS = ["15m", "1h", "6h", "24h", "7d", "30d"] as const;

interface Props {
  range: TimeRange;
  spans?: readonly string[];
}

function Absolute({ range, onDone }: { range: TimeRange; onDone: () => void }) {
  const [from, setFrom] = useState(localInput(range.from));
  const [to, setTo] = useState(localInput(range.to));
  const wrong = Boolean(from && to) && from >= to;
  const apply = (event: FormEvent) => {
    event.preventDefault();
    if (wrong) return;
    range.setAbsolute(new Date(from).toISOString(), new Date(to).toISOString());
    onDone();
  };
  return (
    <form onSubmit={apply} className={classes.absolute}>
      <div className={classes.head}>{t.kit.range.absolute}</div>
      <TextInput
        type="datetime-local"
        label={t.kit.range.from}
        value={from}
        required
        withAsterisk={false}
        onChange={(event) => setFrom(event.target.value)}
      />
      <TextInput
        type="datetime-local"
        label={t.kit.range.to}
        value={to}
        required
        withAsterisk={false}
        error={wrong && t.kit.range.order}
        onChange={(event) => setTo(event.target.value)}
      />
      <Button type="submit" variant="default" fullWidth>
        {t.kit.range.apply}
      </Button>
    </form>
  );
}

/** The last hours or days, or from one time to another; the choice is in the URL. */
export function TimeRangePicker({ range, spans = SPANS }: Props) {
  const [opened, setOpened] = useState(false);
  const close = () => setOpened(false);
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" shadow="md" trapFocus returnFocus>
      <Popover.Target>
        <Button
          variant="default"
          onClick={() => setOpened(!opened)}
          leftSection={<IconClock size={15} stroke={1.6} aria-hidden="true" />}
          rightSection={<IconChevronDown size={14} stroke={1.6} aria-hidden="true" />}
          aria-label={`${t.kit.range.label}: ${range.label}`}
          data-testid="time-range"
          className={classes.button}
        >
          {range.label}
        </Button>
      </Popover.Target>
      <Popover.Dropdown className={classes.dropdown} aria-label={t.kit.range.label}>
        <div className={classes.spans}>
          <div className={classes.head}>{t.kit.range.relative}</div>
          {spans.map((span) => (
            <button
              key={span}
              type="button"
              className={classes.span}
              aria-pressed={range.span === span}
              onClick={() => {
                range.setSpan(span);
                close();
              }}
            >
              {t.kit.range.spans[span] ?? span}
              {range.span === span && <IconCheck size={14} aria-hidden="true" />}
            </button>
          ))}
        </div>
        <Absolute range={range} onDone={close} />
      </Popover.Dropdown>
    </Popover>
  );
}
