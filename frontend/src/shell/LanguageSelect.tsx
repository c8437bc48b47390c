import { NativeSelect } from "@mantine/core";
import { chooseLanguage, LANGUAGES, type Language, language, t } from "../i18n";

/** Every language under its own name, so that it is found by whom it is for. */
export function LanguageSelect({ label }: { label?: string }) {
  return (
    <NativeSelect
      size={label ? "sm" : "xs"}
      label={label}
      aria-label={label ?? t.user.language}
      data={Object.entries(LANGUAGES).map(([value, name]) => ({ value, label: name }))}
      value={language()}
      onChange={(event) => chooseLanguage(event.target.value as Language)}
      data-testid="language"
    />
  );
}
