import { SegmentedControl, Stack } from "@mantine/core";
import { useState } from "react";
import { t } from "../i18n";
import { type ChatBody, LANGUAGES, type Language, snippet } from "../lib/snippets";
import { CodeBlock } from "./CodeBlock";

export function Snippets({ body, token }: { body: ChatBody; token?: string }) {
  const [language, setLanguage] = useState<Language>("curl");
  return (
    <Stack gap="xs" align="flex-start" w="100%">
      <SegmentedControl
        size="xs"
        aria-label={t.snippets.language}
        data={LANGUAGES.map((value) => ({ value, label: t.snippets[value] }))}
        value={language}
        onChange={(value) => setLanguage(value as Language)}
      />
      <CodeBlock code={snippet(language, body, token)} label={t.snippets.copy} />
    </Stack>
  );
}
