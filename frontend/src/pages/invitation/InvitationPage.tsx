import { Button, PasswordInput, Stack, TextInput, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconMailX } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useLocation, useNavigate } from "@tanstack/react-router";
import { ApiError } from "../../api/errors";
import type { InvitationLook } from "../../api/types";
import { EmptyState } from "../../components/EmptyState";
import { FormError } from "../../components/FormError";
import { Logo } from "../../components/Logo";
import { useAcceptInvitation, useLookInvitation } from "../../hooks/useInvitations";
import { meQuery } from "../../hooks/useMe";
import { useSignInWays } from "../../hooks/useProvider";
import { t } from "../../i18n";
import { absolute } from "../../lib/format";
import { LanguageSelect } from "../../shell/LanguageSelect";
import { PendingPage } from "../PendingPage";
import { ProviderButton } from "../signin/ProviderButton";
import classes from "../signin/SignInPage.module.css";

/** Where passwords are closed, whoever is invited comes by the provider. */
function AcceptByProvider({ look, provider }: { look: InvitationLook; provider: string }) {
  const words = t.invitation;
  return (
    <div className={classes.card} data-testid="invitation-form">
      <Logo size={36} />
      <div>
        <Title order={1}>{words.title(look.tenant.name)}</Title>
        <p className={classes.text}>{words.text(look.invited_by || words.someone, t.roles[look.role])}</p>
      </div>
      <p className={classes.text}>{words.asAddress(look.email)}</p>
      <ProviderButton name={provider} next="/" />
    </div>
  );
}

function AcceptForm({ token, look }: { token: string; look: InvitationLook }) {
  const accept = useAcceptInvitation();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const form = useForm({ initialValues: { name: "", password: "", code: "" } });
  const { error } = accept;
  const asksCode =
    look.has_account && error instanceof ApiError && /mfa_required|wrong_code/.test(error.code ?? "");
  const words = t.invitation;
  const submit = form.onSubmit((values) =>
    accept.mutate(
      { token, ...values },
      {
        onSuccess: async () => {
          await queries.fetchQuery({ ...meQuery, staleTime: 0 });
          await navigate({ to: "/t/$scope/overview", params: { scope: look.tenant.slug } });
        },
      },
    ),
  );
  return (
    <form className={classes.card} onSubmit={submit} data-testid="invitation-form">
      <Logo size={36} />
      <div>
        <Title order={1}>{words.title(look.tenant.name)}</Title>
        <p className={classes.text}>
          {words.text(look.invited_by || words.someone, t.roles[look.role])}{" "}
          {look.has_account && words.hasAccount}
        </p>
      </div>
      <Stack gap="sm">
        <TextInput label={t.signin.email} value={look.email} readOnly autoComplete="username" />
        {!look.has_account && (
          <TextInput
            label={words.name}
            autoComplete="name"
            required
            withAsterisk={false}
            autoFocus
            {...form.getInputProps("name")}
          />
        )}
        <PasswordInput
          label={look.has_account ? words.passwordOfAccount : words.password}
          description={look.has_account ? undefined : words.passwordHint}
          autoComplete={look.has_account ? "current-password" : "new-password"}
          required
          withAsterisk={false}
          {...form.getInputProps("password")}
        />
        {asksCode && (
          <TextInput
            label={t.signin.code}
            description={t.signin.codeHint}
            autoComplete="one-time-code"
            autoFocus
            {...form.getInputProps("code")}
          />
        )}
      </Stack>
      <FormError error={error} />
      <Button type="submit" fullWidth loading={accept.isPending}>
        {words.accept}
      </Button>
      <p className={classes.foot}>
        {words.until(absolute(look.expires_at))} {words.goodNow}
      </p>
    </form>
  );
}

/** Where an invitation's link leads: `/invitation#TOKEN`. */
export function InvitationPage() {
  const token = useLocation({ select: (location) => location.hash });
  const look = useLookInvitation(token);
  const ways = useSignInWays();
  const words = t.invitation;
  if (token && (look.isPending || ways.isPending)) return <PendingPage />;
  const provider = ways.data?.password === false ? ways.data.provider : null;
  return (
    <main className={classes.page}>
      {token && look.data && provider ? (
        <AcceptByProvider look={look.data} provider={provider} />
      ) : token && look.data ? (
        <AcceptForm token={token} look={look.data} />
      ) : (
        <EmptyState
          icon={<IconMailX size={20} stroke={1.6} />}
          title={token ? words.bad : words.noToken}
          text={look.error?.message ?? words.noTokenText}
        >
          <Button component="a" href="/signin" variant="default">
            {words.toSignIn}
          </Button>
        </EmptyState>
      )}
      <LanguageSelect />
    </main>
  );
}
