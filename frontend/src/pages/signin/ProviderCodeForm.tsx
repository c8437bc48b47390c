import { Anchor, Button, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQueryClient } from "@tanstack/react-query";
import { FormError } from "../../components/FormError";
import { Logo } from "../../components/Logo";
import { meQuery } from "../../hooks/useMe";
import { useConfirmCode } from "../../hooks/useProvider";
import { t } from "../../i18n";
import { CodeInput } from "./CodeInput";
import classes from "./SignInPage.module.css";
import { said } from "./said";

/** The provider vouched for the person; their second factor is still to come. */
export function ProviderCodeForm() {
  const queries = useQueryClient();
  const confirm = useConfirmCode();
  const form = useForm({ initialValues: { code: "" } });
  const submit = form.onSubmit(({ code }) =>
    confirm.mutate(code, { onSuccess: () => queries.fetchQuery({ ...meQuery, staleTime: 0 }) }),
  );
  return (
    <form
      className={classes.card}
      onSubmit={submit}
      data-testid="provider-code-form"
      aria-label={t.signin.title}
    >
      <Logo size={36} />
      <div>
        <Title order={1}>{t.signin.codeTitle}</Title>
        <p className={classes.text}>{t.signin.codeTextProvider}</p>
      </div>
      <CodeInput {...form.getInputProps("code")} />
      <FormError error={said(confirm.error)} />
      <Button type="submit" fullWidth loading={confirm.isPending}>
        {t.signin.submit}
      </Button>
      <Anchor href="/signin" size="sm">
        {t.signin.other}
      </Anchor>
    </form>
  );
}
