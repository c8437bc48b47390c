import { Menu } from "@mantine/core";
import {
  IconCopyPlus,
  IconMessage,
  IconPlayerPlay,
  IconPlayerStop,
  IconShieldCheck,
  IconTrash,
  IconVersions,
} from "@tabler/icons-react";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Deployment } from "../../api/types";
import { ObjectMenu } from "../../components/ObjectMenu";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { ChangeModal, type Verb } from "./ChangeModal";

const ICON = { size: 15, stroke: 1.6 };

/** Who only uses a deployment by contract changes nothing of it; operators change the platform's. */
export function useMayChange(deployment: Deployment): boolean {
  const { canChange, operator } = useScope();
  return operator || (canChange && deployment.access === "owner");
}

/** What one may do to a deployment, in the list and on its page. */
export function DeploymentMenu({ deployment }: { deployment: Deployment }) {
  const [verb, setVerb] = useState<Verb | null>(null);
  const { current, canUse } = useScope();
  const mayChange = useMayChange(deployment);
  const navigate = useNavigate();
  const running = deployment.desired_state === "running";
  const scope = current?.slug ?? "";
  const deleted = () => void navigate({ to: "/t/$scope/deployments", params: { scope } });
  if (!canUse && !mayChange) return null;
  return (
    <>
      <ObjectMenu label={t.deployments.menu(deployment.name)} width={180} testId="deployment-menu">
        {canUse && (
          <Menu.Item
            component={Link}
            to={`/t/${scope}/playground?deployment=${deployment.id}`}
            leftSection={<IconMessage {...ICON} />}
          >
            {t.deployments.open}
          </Menu.Item>
        )}
        {mayChange && (
          <>
            {running ? (
              <Menu.Item
                leftSection={<IconPlayerStop {...ICON} />}
                onClick={() => setVerb("stop")}
                data-testid="stop-deployment"
              >
                {t.deployments.verbs.stop}
              </Menu.Item>
            ) : (
              <Menu.Item
                leftSection={<IconPlayerPlay {...ICON} />}
                onClick={() => setVerb("start")}
                data-testid="start-deployment"
              >
                {t.deployments.verbs.start}
              </Menu.Item>
            )}
            <Menu.Item
              leftSection={<IconVersions {...ICON} />}
              onClick={() => setVerb("scale")}
              data-testid="scale-deployment"
            >
              {t.deployments.verbs.scale}
            </Menu.Item>
            <Menu.Item
              leftSection={<IconShieldCheck {...ICON} />}
              onClick={() => setVerb("class")}
              data-testid="class-deployment"
            >
              {t.deployments.verbs.class}
            </Menu.Item>
            <Menu.Item
              leftSection={<IconCopyPlus {...ICON} />}
              onClick={() => setVerb("clone")}
              data-testid="clone-deployment"
            >
              {t.deployments.verbs.clone}
            </Menu.Item>
            <Menu.Divider />
            <Menu.Item
              color="red"
              disabled={running || deployment.state.state === "stopping"}
              leftSection={<IconTrash {...ICON} />}
              onClick={() => setVerb("delete")}
              data-testid="delete-deployment"
            >
              {running ? t.deployments.stopFirst : t.deployments.verbs.delete}
            </Menu.Item>
          </>
        )}
      </ObjectMenu>
      {verb && (
        <ChangeModal deployment={deployment} verb={verb} onClose={() => setVerb(null)} onDeleted={deleted} />
      )}
    </>
  );
}
