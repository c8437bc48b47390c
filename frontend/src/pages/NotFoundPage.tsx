import { Button } from "@mantine/core";
import { IconCompass } from "@tabler/icons-react";
import { EmptyState } from "../components/EmptyState";
import { t } from "../i18n";

export function NotFoundPage() {
  return (
    <EmptyState
      icon={<IconCompass size={20} stroke={1.6} />}
      title={t.errors.notFound}
      text={t.errors.notFoundText}
    >
      <Button component="a" href="/" variant="default">
        {t.errors.home}
      </Button>
    </EmptyState>
  );
}
