import { TextInput, type TextInputProps } from "@mantine/core";
import { t } from "../../i18n";

export function CodeInput(props: TextInputProps) {
  return (
    <TextInput
      label={t.signin.code}
      description={t.signin.codeHint}
      autoComplete="one-time-code"
      required
      withAsterisk={false}
      autoFocus
      data-testid="code"
      {...props}
    />
  );
}
