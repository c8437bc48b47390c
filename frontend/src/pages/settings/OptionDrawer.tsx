import { Button, NumberInput, Select, Switch, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import type { Setting } from "../../api/types";
import { ConflictNotice } from "../../components/ConflictNotice";
import { FormDrawer } from "../../components/FormDrawer";
import { Loaded } from "../../components/Loaded";
import { type SettingValue, useEditSetting, useSettings } from "../../hooks/useSettings";
import { t } from "../../i18n";
import { describe, fromField, rangeOf, shown, suffixOf, toField } from "./options";

interface FieldProps {
  setting: Setting;
  value: SettingValue;
  onChange: (value: SettingValue) => void;
}

/** The input that fits the option's kind. */
function Field({ setting, value, onChange }: FieldProps) {
  const label = t.settings.option.value;
  const description = rangeOf(setting);
  if (setting.kind === "boolean")
    return (
      <Switch label={label} checked={value === true} onChange={(e) => onChange(e.currentTarget.checked)} />
    );
  if (setting.kind === "choice")
    return (
      <Select
        label={label}
        data={setting.choices}
        value={String(value)}
        onChange={(next) => next && onChange(next)}
        allowDeselect={false}
      />
    );
  if (setting.kind === "text")
    return (
      <TextInput
        label={label}
        description={description}
        value={String(value ?? "")}
        onChange={(e) => onChange(e.target.value)}
        data-autofocus
      />
    );
  return (
    <NumberInput
      label={label}
      description={description}
      value={toField(setting, value as number | null) ?? ""}
      onChange={(next) => onChange(next === "" ? null : fromField(setting, Number(next)))}
      min={toField(setting, setting.low) ?? undefined}
      max={toField(setting, setting.high) ?? undefined}
      allowDecimal={setting.kind === "number"}
      suffix={suffixOf(setting)}
      thousandSeparator
      data-autofocus
    />
  );
}

interface FormProps {
  setting: Setting;
  edit: ReturnType<typeof useEditSetting>;
  onClose: () => void;
}

function Form({ setting, edit, onClose }: FormProps) {
  const [value, setValue] = useState<SettingValue>(setting.value as SettingValue);
  const save = (next: SettingValue) =>
    edit.save(next, () => {
      notifications.show({ message: t.settings.option.done });
      onClose();
    });
  return (
    <FormDrawer
      opened
      title={describe(setting)}
      submit={t.actions.save}
      busy={edit.busy}
      error={edit.error}
      disabled={value === null}
      onClose={onClose}
      onSubmit={(event) => {
        event.preventDefault();
        save(value);
      }}
      testId="option-form"
    >
      <ConflictNotice edit={edit} fields={{ value: t.settings.option.value }} />
      <Field setting={setting} value={value} onChange={setValue} />
      {setting.changed_at !== null && (
        <Button
          variant="subtle"
          color="gray"
          size="compact-sm"
          onClick={() => save(null)}
          style={{ alignSelf: "start" }}
        >
          {t.settings.option.reset} ({shown(setting, setting.default)})
        </Button>
      )}
    </FormDrawer>
  );
}

/** Changes one option; its address is `?option=KEY`. */
export function OptionDrawer({ name, onClose }: { name: string | undefined; onClose: () => void }) {
  const settings = useSettings();
  const known = settings.data?.find((one) => one.key === name);
  const edit = useEditSetting(known?.key);
  const close = () => {
    edit.reset();
    onClose();
  };
  const setting = edit.opened ?? known;
  if (!known || !setting) return null;
  if (edit.loading) return <Loaded query={settings}>{() => null}</Loaded>;
  return <Form key={`${known.key}-${edit.version}`} setting={setting} edit={edit} onClose={close} />;
}
