import { Button } from "@mantine/core";
import { IconLifebuoy } from "@tabler/icons-react";
import { Link, Navigate, useParams } from "@tanstack/react-router";
import { EmptyState } from "../components/EmptyState";
import { useSignOut } from "../hooks/useMe";
import { t } from "../i18n";

/** The URL names a tenant this person cannot see, or there is none at all. */
export function NoScope({ first }: { first: string | undefined }) {
  const { scope } = useParams({ strict: false });
  const signOut = useSignOut();
  if (first && !scope) return <Navigate to="/t/$scope/overview" params={{ scope: first }} />;
  return (
    <main id="content">
      <EmptyState
        page
        icon={<IconLifebuoy size={20} stroke={1.6} />}
        title={first ? t.scope.unknown : t.scope.none}
        text={first ? t.scope.unknownText : t.scope.noneText}
      >
        {first ? (
          <Button component={Link} to={`/t/${first}/overview`} variant="default">
            {t.errors.home}
          </Button>
        ) : (
          <Button
            variant="default"
            onClick={() => signOut.mutate(undefined, { onSuccess: () => location.assign("/signin") })}
          >
            {t.user.signOut}
          </Button>
        )}
      </EmptyState>
    </main>
  );
}
