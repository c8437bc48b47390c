import {
  Group,
  Input,
  type MantineColorScheme,
  SegmentedControl,
  useMantineColorScheme,
} from "@mantine/core";
import { Panel } from "../../components/Panel";
import { t } from "../../i18n";
import { LanguageSelect } from "../../shell/LanguageSelect";

const SCHEMES: MantineColorScheme[] = ["auto", "light", "dark"];

export function LookPanel() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const words = t.settings.look;
  return (
    <Panel title={words.title}>
      <Group gap="lg" align="end">
        <LanguageSelect label={words.language} />
        <Input.Wrapper label={words.theme}>
          <div>
            <SegmentedControl
              aria-label={words.theme}
              data={SCHEMES.map((value) => ({ value, label: t.scheme[value] }))}
              value={colorScheme}
              onChange={(value) => setColorScheme(value as MantineColorScheme)}
            />
          </div>
        </Input.Wrapper>
      </Group>
    </Panel>
  );
}
