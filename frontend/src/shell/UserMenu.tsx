import { Avatar, Menu, UnstyledButton, VisuallyHidden } from "@mantine/core";
import { IconLanguage, IconLogout, IconUserCircle } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useMe, useSignOut } from "../hooks/useMe";
import { useScope } from "../hooks/useScope";
import { chooseLanguage, language, t } from "../i18n";
import classes from "./UserMenu.module.css";

export function UserMenu() {
  const me = useMe();
  const signOut = useSignOut();
  const navigate = useNavigate();
  const { current } = useScope();
  const user = me.data?.user;
  if (!user) return null;
  const leave = () => signOut.mutate(undefined, { onSuccess: () => navigate({ to: "/signin" }) });
  return (
    <Menu position="top-start" width={228}>
      <Menu.Target>
        <UnstyledButton className={classes.user} data-testid="user-menu">
          <VisuallyHidden>{`${t.user.menu}: `}</VisuallyHidden>
          <Avatar size={26} radius="xl" color="gray" name={user.name || user.email} aria-hidden="true" />
          <span className={classes.text}>
            <span className={classes.name}>{user.name || user.email}</span>
            {user.name && <span className={classes.role}>{user.email}</span>}
          </span>
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{user.email}</Menu.Label>
        <Menu.Item
          leftSection={<IconUserCircle size={15} stroke={1.6} />}
          onClick={() => navigate({ to: "/t/$scope/settings", params: { scope: current?.slug ?? "" } })}
        >
          {t.user.account}
        </Menu.Item>
        <Menu.Item
          leftSection={<IconLanguage size={15} stroke={1.6} />}
          onClick={() => chooseLanguage(language() === "en" ? "zh" : "en")}
          data-testid="switch-language"
        >
          {t.palette.language}
        </Menu.Item>
        <Menu.Item leftSection={<IconLogout size={15} stroke={1.6} />} onClick={leave} data-testid="sign-out">
          {t.user.signOut}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
