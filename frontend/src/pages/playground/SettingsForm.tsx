import {
  Button,
  Collapse,
  NumberInput,
  SegmentedControl,
  Stack,
  Switch,
  TagsInput,
  Textarea,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { t } from "../../i18n";
import type { Letter } from "./Side";
import { DEFAULTS, isDefault, type NumberName, type Settings } from "./settings";

interface Field {
  name: NumberName;
  min: number;
  max: number;
  step: number;
}

const FIELDS: Field[] = [
  { name: "temperature", min: 0, max: 2, step: 0.1 },
  { name: "top_p", min: 0, max: 1, step: 0.05 },
  { name: "max_tokens", min: 1, max: 131_072, step: 64 },
  { name: "seed", min: 0, max: 2_147_483_647, step: 1 },
];
const MORE: Field[] = [
  { name: "top_k", min: 1, max: 1_000_000, step: 1 },
  { name: "min_p", min: 0, max: 1, step: 0.01 },
  { name: "presence_penalty", min: -2, max: 2, step: 0.1 },
  { name: "frequency_penalty", min: -2, max: 2, step: 0.1 },
  { name: "repetition_penalty", min: 0.1, max: 10, step: 0.05 },
];
const MAX_STOPS = 4;

interface Props {
  settings: Settings;
  onChange: (settings: Settings) => void;
}

export function SettingsForm({ settings, onChange }: Props) {
  const [more, { toggle }] = useDisclosure(false);
  const words = t.playground.parameters;
  const number = ({ name, ...range }: Field) => (
    <NumberInput
      key={name}
      label={words[name].label}
      description={words[name].hint}
      placeholder={words.default}
      value={settings[name]}
      onChange={(value) => onChange({ ...settings, [name]: typeof value === "number" ? value : "" })}
      {...range}
    />
  );
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
      {FIELDS.map(number)}
      <TagsInput
        label={words.stop.label}
        description={words.stop.hint}
        placeholder={settings.stop.length ? undefined : words.none}
        maxTags={MAX_STOPS}
        splitChars={[]}
        value={settings.stop}
        onChange={(stop) => onChange({ ...settings, stop })}
      />
      <Button
        variant="subtle"
        color="gray"
        size="compact-sm"
        justify="flex-start"
        leftSection={more ? <IconChevronDown size={14} /> : <IconChevronRight size={14} />}
        aria-expanded={more}
        onClick={toggle}
      >
        {words.more}
      </Button>
      <Collapse expanded={more}>
        <Stack gap="md">{MORE.map(number)}</Stack>
      </Collapse>
      <Button
        variant="subtle"
        color="gray"
        size="compact-sm"
        onClick={() => onChange(DEFAULTS)}
        disabled={isDefault(settings)}
      >
        {words.reset}
      </Button>
    </Stack>
  );
}

interface BothProps extends Props {
  /** B's own; undefined while both share A's. */
  own: Settings | undefined;
  onOwn: (settings: Settings | undefined) => void;
  editing: Letter;
  onEditing: (letter: Letter) => void;
}

/** For two side by side: the same parameters for both, or each its own. */
export function TwoSettings({ settings, onChange, own, onOwn, editing, onEditing }: BothProps) {
  const words = t.playground.parameters;
  const right = own !== undefined && editing === "B";
  return (
    <Stack gap="md">
      <Switch
        label={words.own}
        checked={own !== undefined}
        onChange={(e) => onOwn(e.currentTarget.checked ? settings : undefined)}
      />
      {own !== undefined && (
        <SegmentedControl
          fullWidth
          size="xs"
          aria-label={words.whose}
          data={["A", "B"]}
          value={editing}
          onChange={(value) => onEditing(value as Letter)}
        />
      )}
      <SettingsForm settings={right ? own : settings} onChange={right ? onOwn : onChange} />
    </Stack>
  );
}
