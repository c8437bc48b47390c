import { Button, Menu } from "@mantine/core";
import { IconChevronDown, IconDownload } from "@tabler/icons-react";
import type { UsageGroup } from "../../api/types";
import { chargebackUrl, exportUrl, type UsageCells } from "../../hooks/useUsage";
import { t } from "../../i18n";

const words = t.usage.export;

/** This month of UTC and the two before, as 2026-11. */
export function months(now: Date): string[] {
  return [0, 1, 2].map((back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back)).toISOString().slice(0, 7),
  );
}

/** What is looked at as CSV: the table's rows, a line a request, or a month to charge. */
export function ExportMenu({ cells, group }: { cells: UsageCells; group: UsageGroup }) {
  return (
    <Menu>
      <Menu.Target>
        <Button
          variant="default"
          leftSection={<IconDownload size={16} stroke={1.6} />}
          rightSection={<IconChevronDown size={14} stroke={1.6} />}
          data-testid="usage-export"
        >
          {words.button}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item component="a" href={exportUrl(cells, [group])} download data-testid="export-table">
          {words.table(t.usage.groups[group])}
        </Menu.Item>
        <Menu.Item component="a" href={exportUrl(cells, ["day", group === "day" ? "class" : group])} download>
          {words.days(t.usage.groups[group === "day" ? "class" : group])}
        </Menu.Item>
        <Menu.Item component="a" href={exportUrl(cells, [])} download>
          {words.requests}
        </Menu.Item>
        <Menu.Divider />
        <Menu.Label>{words.chargeback}</Menu.Label>
        {months(new Date()).map((month, back) => (
          <Menu.Item
            key={month}
            component="a"
            href={chargebackUrl(cells, month)}
            download
            data-testid={`chargeback-${back}`}
          >
            {words.month(month)}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
