import { Button, NumberInput, Stack, Textarea } from "@mantine/core";
import { t } from "../../i18n";
import { DEFAULTS, type Settings } from "./settings";

interface Props {
  settings: Settings;
  onChange: (settings: Settings) => void;
}

const FIELDS = [
  { name: "temperature", min: 0, max: 2, step: 0.1 },
  { name: "top_p", min: 0, max: 1, step: 0.05 },
  { name: "max_tokens", min: 1, max: 131_072, step: 64 },
  { name: "seed", min: 0, max: 2_147_483_647, step: 1 },
] as const;

export function SettingsForm({ settings, onChange }: Props) {
  const words = t.playground.parameters;
  return (
    <Stack gap="md">
      <Textarea
        label={words.system}
        placeholder={words.systemPlaceholder}
        autosize
        minRows={3}
        maxRows={10}
        value={settings.system}
        onChange={(e) => onChange({ ...settings, system: e.currentTarget.value })}
      />
      {FIELDS.map(({ name, ...range }) => (
        <NumberInput
          key={name}
          label={words[name].label}
          description={words[name].hint}
          placeholder={words.default}
          value={settings[name]}
          onChange={(value) => onChange({ ...settings, [name]: typeof value === "number" ? value : "" })}
          {...range}
        />
      ))}
      <Button
        variant="subtle"
        color="gray"
        size="compact-sm"
        onClick={() => onChange(DEFAULTS)}
        disabled={Object.values(settings).every((v) => v === "")}
      >
        {words.reset}
      </Button>
    </Stack>
  );
}
