import { MantineProvider, Menu } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { ObjectMenu } from "../../src/components/ObjectMenu";

test("a menu is made when it is asked for, and gives the focus back", async () => {
  render(
    <MantineProvider env="test">
      <ObjectMenu label="of one">
        <Menu.Item>Rotate</Menu.Item>
      </ObjectMenu>
    </MantineProvider>,
  );
  const button = screen.getByRole("button", { name: "of one" });
  expect(screen.queryByRole("menu", { hidden: true })).toBeNull();
  await userEvent.click(button);
  const menu = await screen.findByRole("menu");
  expect(menu.getAttribute("aria-labelledby")).toBe(button.id);
  expect(button.getAttribute("aria-expanded")).toBe("true");
  await userEvent.keyboard("{Escape}");
  expect(button.getAttribute("aria-expanded")).toBe("false");
  await expect.poll(() => document.activeElement).toBe(button);
});
