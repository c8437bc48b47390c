import { Kbd, UnstyledButton } from "@mantine/core";
import { spotlight } from "@mantine/spotlight";
import { IconSearch } from "@tabler/icons-react";
import { Logo } from "../components/Logo";
import { t } from "../i18n";
import { LiveIndicator } from "./LiveIndicator";
import { NavLinks } from "./NavLinks";
import { SchemeSwitch } from "./SchemeSwitch";
import classes from "./Sidebar.module.css";
import { TenantSwitcher } from "./TenantSwitcher";
import { UserMenu } from "./UserMenu";

/** Whose keyboards have ⌘. */
const APPLE = /mac|iphone|ipad/i.test(navigator.platform);

export function Sidebar() {
  return (
    <div className={classes.sidebar}>
      <div className={classes.brand}>
        <Logo />
        <span>{t.product}</span>
      </div>
      <TenantSwitcher />
      <UnstyledButton className={classes.search} onClick={spotlight.open}>
        <IconSearch size={15} stroke={1.6} aria-hidden="true" />
        {t.nav.search}
        <Kbd size="xs" className={classes.kbd}>
          {APPLE ? "⌘K" : "Ctrl K"}
        </Kbd>
      </UnstyledButton>
      <NavLinks />
      <div className={classes.foot}>
        <LiveIndicator />
        <SchemeSwitch />
      </div>
      <UserMenu />
    </div>
  );
}
