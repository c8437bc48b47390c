import { Avatar, Menu, UnstyledButton } from "@mantine/core";
import { IconLogout } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useMe, useSignOut } from "../hooks/useMe";
import { t } from "../i18n";
import classes from "./UserMenu.module.css";

export function UserMenu() {
  const me = useMe();
  const signOut = useSignOut();
  const navigate = useNavigate();
  const user = me.data?.user;
  if (!user) return null;
  const leave = () => signOut.mutate(undefined, { onSuccess: () => navigate({ to: "/signin" }) });
  return (
    <Menu position="top-start" width={228}>
      <Menu.Target>
        <UnstyledButton className={classes.user} aria-label={t.user.menu} data-testid="user-menu">
          <Avatar size={26} radius="xl" color="gray" name={user.name || user.email} />
          <span className={classes.text}>
            <span className={classes.name}>{user.name || user.email}</span>
            <span className={classes.role}>{user.email}</span>
          </span>
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{user.email}</Menu.Label>
        <Menu.Item leftSection={<IconLogout size={15} stroke={1.6} />} onClick={leave} data-testid="sign-out">
          {t.user.signOut}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
