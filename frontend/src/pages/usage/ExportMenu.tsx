import { Button, Menu } from "@mantine/core";
import { IconChevronDown, IconDownload } from "@tabler/icons-react";
import type { UsageGroup } from "../../api/types";
import { exportUrl, type UsageCells } from "../../hooks/useUsage";
import { t } from "../../i18n";

const words = t.usage.export;

/** What is looked at as CSV: the table's rows, or a line a request. */
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
      </Menu.Dropdown>
    </Menu>
  );
}
