import { Anchor, Button, PasswordInput, Stack, TextInput, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect } from "react";
import { ApiError } from "../../api/errors";
import { FormError } from "../../components/FormError";
import { Logo } from "../../components/Logo";
import { meQuery, useMe, useSignIn } from "../../hooks/useMe";
import { t } from "../../i18n";
import { ago } from "../../lib/format";
import { LanguageSelect } from "../../shell/LanguageSelect";
import classes from "./SignInPage.module.css";

/** Only a path of this site is followed after sign-in. */
function safeNext(next: string | undefined): string {
  return next?.startsWith("/") && !next.startsWith("//") ? next : "/";
}

/** The first answer without a code is a question, no failure; a lockout says for how long. */
function said(error: Error | null): Error | null {
  if (!(error instanceof ApiError)) return error;
  if (error.code === "mfa_required") return null;
  if (error.status === 429 && error.retryAfter)
    return new Error(t.signin.locked(ago(new Date(Date.now() + error.retryAfter * 1000).toISOString())));
  return error;
}

const NEEDS_CODE = new Set(["mfa_required", "wrong_code"]);

export function SignInPage() {
  const { next, ended } = useSearch({ from: "/signin" });
  const navigate = useNavigate();
  const queries = useQueryClient();
  const me = useMe();
  const signIn = useSignIn();
  const form = useForm({ initialValues: { email: "", password: "", code: "" } });
  const { error } = signIn;
  const step = error instanceof ApiError && NEEDS_CODE.has(error.code ?? "") ? "code" : "password";
  const asksCode = step === "code" || form.values.code !== "";

  useEffect(() => {
    if (me.data) void navigate({ to: safeNext(next), replace: true });
  }, [me.data, navigate, next]);

  const submit = form.onSubmit((values) =>
    signIn.mutate(values, { onSuccess: () => queries.fetchQuery({ ...meQuery, staleTime: 0 }) }),
  );
  const startAgain = () => {
    form.reset();
    signIn.reset();
  };

  return (
    <main className={classes.page}>
      <form className={classes.card} onSubmit={submit} data-testid="sign-in-form" aria-label={t.signin.title}>
        <Logo size={36} />
        <div>
          <Title order={1}>{asksCode ? t.signin.codeTitle : t.signin.title}</Title>
          <p className={classes.text}>{asksCode ? t.signin.codeText(form.values.email) : t.signin.text}</p>
        </div>
        {ended && !error && (
          <p className={classes.ended} role="status">
            {t.signin.ended}
          </p>
        )}
        {asksCode ? (
          <TextInput
            label={t.signin.code}
            description={t.signin.codeHint}
            autoComplete="one-time-code"
            required
            withAsterisk={false}
            autoFocus
            data-testid="code"
            {...form.getInputProps("code")}
          />
        ) : (
          <Stack gap="sm">
            <TextInput
              label={t.signin.email}
              type="email"
              autoComplete="username"
              required
              withAsterisk={false}
              autoFocus
              {...form.getInputProps("email")}
            />
            <PasswordInput
              label={t.signin.password}
              autoComplete="current-password"
              required
              withAsterisk={false}
              {...form.getInputProps("password")}
            />
          </Stack>
        )}
        <FormError error={said(error)} />
        <Button type="submit" fullWidth loading={signIn.isPending}>
          {t.signin.submit}
        </Button>
        {asksCode && (
          <Anchor component="button" type="button" size="sm" onClick={startAgain}>
            {t.signin.other}
          </Anchor>
        )}
      </form>
      {!asksCode && <p className={classes.foot}>{t.signin.foot}</p>}
      <LanguageSelect />
    </main>
  );
}
