import { ActionIcon, Stack, Tooltip } from "@mantine/core";
import { IconPencil } from "@tabler/icons-react";
import type { Setting } from "../../api/types";
import { Loaded } from "../../components/Loaded";
import { Panel } from "../../components/Panel";
import { useSettings } from "../../hooks/useSettings";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { ago } from "../../lib/format";
import { OptionDrawer } from "./OptionDrawer";
import { byGroup, describe, shown } from "./options";
import classes from "./Settings.module.css";

function OptionRow({ setting, onEdit }: { setting: Setting; onEdit: () => void }) {
  const words = t.settings.option;
  const own = setting.changed_at !== null;
  return (
    <li className={classes.option}>
      <div className={classes.optionText}>
        <span>{describe(setting)}</span>
        <span className={classes.note}>
          {own
            ? `${words.default(shown(setting, setting.default))} · ${words.changed(setting.changed_by ?? "", ago(setting.changed_at))}`
            : words.isDefault}
        </span>
      </div>
      <span className={classes.value} data-own={own || undefined}>
        {shown(setting, setting.value)}
      </span>
      <Tooltip label={t.actions.edit}>
        <ActionIcon
          variant="subtle"
          color="gray"
          onClick={onEdit}
          aria-label={words.edit(describe(setting))}
          data-testid={`edit-${setting.key}`}
        >
          <IconPencil size={15} stroke={1.6} />
        </ActionIcon>
      </Tooltip>
    </li>
  );
}

/** Every option of the platform by group; what differs from its default stands out. */
export function PlatformTab() {
  const settings = useSettings();
  const { values, set } = useUrl();
  return (
    <>
      <Loaded query={settings}>
        {(all) => (
          <Stack gap="md">
            {byGroup(all).map(([group, options]) => (
              <Panel key={group} title={t.settings.groups[group] ?? group}>
                <ul className={classes.options}>
                  {options.map((one) => (
                    <OptionRow key={one.key} setting={one} onEdit={() => set({ option: one.key }, true)} />
                  ))}
                </ul>
              </Panel>
            ))}
          </Stack>
        )}
      </Loaded>
      <OptionDrawer name={values.option} onClose={() => set({ option: undefined })} />
    </>
  );
}
