import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { ErrorState } from "../../components/ErrorState";
import { FiringList } from "../../components/FiringList";
import { Panel } from "../../components/Panel";
import { useFiring } from "../../hooks/useAlerts";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";

/** Alerts that fire now stand above the figures; where none does, nothing stands there. */
export function FiringPanel() {
  const { current } = useScope();
  const firing = useFiring(current?.tenant);
  if (firing.error && !firing.data)
    return (
      <Panel title={t.settings.firing.title}>
        <ErrorState error={firing.error} retry={() => void firing.refetch()} />
      </Panel>
    );
  const alerts = firing.data?.results ?? [];
  if (alerts.length === 0) return null;
  return (
    <Panel
      title={t.settings.firing.title}
      hint={t.settings.firing.hint}
      aside={
        <Anchor
          size="sm"
          renderRoot={(props) => (
            <Link
              {...props}
              to="/t/$scope/settings"
              params={{ scope: current?.slug ?? "" }}
              search={{ tab: "alerts" }}
            />
          )}
        >
          {t.settings.alerts}
        </Anchor>
      }
    >
      <FiringList alerts={alerts} />
    </Panel>
  );
}
