import { MantineProvider } from "@mantine/core";
import { render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { ReactNode } from "react";
import { expect, test } from "vitest";
import { type Column, DataTable } from "../../src/components/DataTable";
import { t } from "../../src/i18n";

interface Row {
  id: string;
  size: number;
}

const COLUMNS: Column<Row>[] = [
  { id: "size", accessorFn: (row) => row.size, header: "Size", sortFn: "basic", cell: ({ row }) => row.id },
];
const numbered = (n: number): Row[] => Array.from({ length: n }, (_, i) => ({ id: `row ${i}`, size: -i }));

function Table({ rows }: { rows: Row[] }) {
  return <DataTable rows={rows} columns={COLUMNS} rowId={(row) => row.id} label="rows" empty={<p>none</p>} />;
}

const wrapper = ({ children }: { children: ReactNode }) => <MantineProvider>{children}</MantineProvider>;
const drawn = () =>
  within(screen.getByRole("table"))
    .getAllByRole("cell")
    .map((cell) => cell.textContent);
const press = (name: string) => userEvent.click(screen.getByRole("button", { name }));

test("of a thousand rows fifty are drawn, and each is reached", async () => {
  render(<Table rows={numbered(120)} />, { wrapper });
  const seen = [...drawn()];
  expect(seen).toHaveLength(50);
  expect(screen.getByText(t.kit.table.at("1", "50", "120"))).toBeTruthy();
  await press(t.kit.table.next);
  seen.push(...drawn());
  await press(t.kit.table.next);
  seen.push(...drawn());
  expect(seen).toEqual(numbered(120).map((row) => row.id));
  expect(screen.getByRole("button", { name: t.kit.table.next }).hasAttribute("disabled")).toBe(true);
});

test("an order is of all rows, and shown from its first", async () => {
  render(<Table rows={numbered(120)} />, { wrapper });
  await press(t.kit.table.next);
  await press("Size");
  // Numbers are first put from the largest
  await press("Size");
  expect(drawn()[0]).toBe("row 119");
});

test("rows that go take their page with them", async () => {
  const { rerender } = render(<Table rows={numbered(120)} />, { wrapper });
  await press(t.kit.table.next);
  await press(t.kit.table.next);
  rerender(<Table rows={numbered(60)} />);
  expect(drawn()).toEqual(
    numbered(60)
      .slice(50)
      .map((row) => row.id),
  );
  rerender(<Table rows={numbered(50)} />);
  expect(drawn()).toHaveLength(50);
  expect(screen.queryByRole("navigation")).toBeNull();
});
