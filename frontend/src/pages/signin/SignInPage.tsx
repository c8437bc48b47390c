import { Anchor, Button, Divider, PasswordInput, Stack, TextInput, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { ApiError } from "../../api/errors";
import { FormError } from "../../components/FormError";
import { Logo } from "../../components/Logo";
import { meQuery, useMe, useSignIn } from "../../hooks/useMe";
import { useSignInWays } from "../../hooks/useProvider";
import { t } from "../../i18n";
import { safeNext } from "../../lib/next";
import { LanguageSelect } from "../../shell/LanguageSelect";
import { CodeInput } from "./CodeInput";
import { ProviderButton } from "./ProviderButton";
import { ProviderCodeForm } from "./ProviderCodeForm";
import classes from "./SignInPage.module.css";
import { failure, said } from "./said";

const NEEDS_CODE = new Set(["mfa_required", "wrong_code"]);

export function SignInPage() {
  const { next, step } = useSearch({ from: "/signin" });
  const navigate = useNavigate();
  const me = useMe();

  useEffect(() => {
    if (me.data) void navigate({ to: safeNext(next), replace: true });
  }, [me.data, navigate, next]);

  return (
    <main className={classes.page}>
      {step === "code" ? <ProviderCodeForm /> : <SignInForm />}
      <LanguageSelect />
    </main>
  );
}

function SignInForm() {
  const { next, ended, failed } = useSearch({ from: "/signin" });
  const queries = useQueryClient();
  const ways = useSignInWays().data;
  const [asOperator, setAsOperator] = useState(false);
  const signIn = useSignIn();
  const form = useForm({ initialValues: { email: "", password: "", code: "" } });
  const { error } = signIn;
  const asksCode = (error instanceof ApiError && NEEDS_CODE.has(error.code ?? "")) || form.values.code !== "";
  const byPassword = ways?.password !== false || asOperator;

  const submit = form.onSubmit((values) =>
    signIn.mutate(values, { onSuccess: () => queries.fetchQuery({ ...meQuery, staleTime: 0 }) }),
  );
  const startAgain = () => {
    form.reset();
    signIn.reset();
  };

  return (
    <>
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
        <FormError error={error || asksCode ? null : failure(failed)} />
        {ways?.provider && !asksCode && (
          <ProviderButton
            name={ways.provider}
            next={safeNext(next)}
            variant={byPassword ? "default" : "filled"}
          />
        )}
        {ways?.provider && byPassword && !asksCode && <Divider label={t.signin.or} />}
        {asksCode && <CodeInput {...form.getInputProps("code")} />}
        {byPassword && !asksCode && (
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
        {(byPassword || asksCode) && (
          <Button type="submit" fullWidth loading={signIn.isPending}>
            {t.signin.submit}
          </Button>
        )}
        {!byPassword && (
          <Anchor component="button" type="button" size="sm" onClick={() => setAsOperator(true)}>
            {t.signin.asOperator}
          </Anchor>
        )}
        {asksCode && (
          <Anchor component="button" type="button" size="sm" onClick={startAgain}>
            {t.signin.other}
          </Anchor>
        )}
      </form>
      {!asksCode && <p className={classes.foot}>{t.signin.foot}</p>}
    </>
  );
}
