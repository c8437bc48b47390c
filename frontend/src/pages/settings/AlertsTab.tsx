import { Stack } from "@mantine/core";
import { FiringList } from "../../components/FiringList";
import { Loaded } from "../../components/Loaded";
import { Panel } from "../../components/Panel";
import { useFiring } from "../../hooks/useAlerts";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { AlertRoutes } from "./AlertRoutes";

/** What is wrong now, and who is told of it. */
export function AlertsTab() {
  const { current } = useScope();
  const firing = useFiring(current?.tenant);
  return (
    <Stack gap="md">
      <Panel title={t.settings.firing.title} hint={t.settings.firing.hint}>
        <Loaded query={firing}>
          {(page) =>
            page.results.length === 0 ? (
              <p className="muted">{t.settings.firing.none}</p>
            ) : (
              <FiringList alerts={page.results} />
            )
          }
        </Loaded>
      </Panel>
      <AlertRoutes />
    </Stack>
  );
}
