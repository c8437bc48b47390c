import { Button, PasswordInput, Stack, TextInput, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect } from "react";
import { FormError } from "../../components/FormError";
import { Logo } from "../../components/Logo";
import { meQuery, useMe, useSignIn } from "../../hooks/useMe";
import { t } from "../../i18n";
import classes from "./SignInPage.module.css";

/** Only a path of this site is followed after sign-in. */
function safeNext(next: string | undefined): string {
  return next?.startsWith("/") && !next.startsWith("//") ? next : "/";
}

export function SignInPage() {
  const { next, ended } = useSearch({ from: "/signin" });
  const navigate = useNavigate();
  const queries = useQueryClient();
  const me = useMe();
  const signIn = useSignIn();
  const form = useForm({ mode: "uncontrolled", initialValues: { email: "", password: "" } });

  useEffect(() => {
    if (me.data) void navigate({ to: safeNext(next), replace: true });
  }, [me.data, navigate, next]);

  const submit = form.onSubmit((values) =>
    signIn.mutate(values, { onSuccess: () => queries.fetchQuery({ ...meQuery, staleTime: 0 }) }),
  );

  return (
    <main className={classes.page}>
      <form className={classes.card} onSubmit={submit} data-testid="sign-in-form" aria-label={t.signin.title}>
        <Logo size={36} />
        <div>
          <Title order={1}>{t.signin.title}</Title>
          <p className={classes.text}>{t.signin.text}</p>
        </div>
        {ended && !signIn.error && (
          <p className={classes.ended} role="status">
            {t.signin.ended}
          </p>
        )}
        <Stack gap="sm">
          <TextInput
            label={t.signin.email}
            type="email"
            autoComplete="username"
            required
            withAsterisk={false}
            autoFocus
            key={form.key("email")}
            {...form.getInputProps("email")}
          />
          <PasswordInput
            label={t.signin.password}
            autoComplete="current-password"
            required
            withAsterisk={false}
            key={form.key("password")}
            {...form.getInputProps("password")}
          />
        </Stack>
        <FormError error={signIn.error} />
        <Button type="submit" fullWidth loading={signIn.isPending}>
          {t.signin.submit}
        </Button>
      </form>
      <p className={classes.foot}>{t.signin.foot}</p>
    </main>
  );
}
