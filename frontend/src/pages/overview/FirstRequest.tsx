import { Button, Group } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { CodeBlock } from "../../components/CodeBlock";
import type { Name } from "../../hooks/useNames";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { snippet } from "../../lib/snippets";
import classes from "./Overview.module.css";

/** A request to copy. */
export function FirstSnippet({ deployment }: { deployment: Name }) {
  return (
    <div className={classes.snippet}>
      <CodeBlock
        code={snippet("curl", {
          model: deployment.name,
          messages: [{ role: "user", content: t.snippets.question }],
          stream: true,
        })}
      />
    </div>
  );
}

/** The next step of an installation that nobody has asked anything yet. */
export function FirstRequest({ deployment }: { deployment: Name | undefined }) {
  const { current } = useScope();
  const scope = current?.slug ?? "";
  if (!deployment) {
    return (
      <Button component={Link} to={`/t/${scope}/deployments?create=true`}>
        {t.deployments.create}
      </Button>
    );
  }
  return (
    <>
      <FirstSnippet deployment={deployment} />
      <Group gap="xs" mt="sm">
        <Button component={Link} to={`/t/${scope}/playground?deployment=${deployment.id}`}>
          {t.overview.openPlayground}
        </Button>
        <Button component={Link} to={`/t/${scope}/keys?create=true`} variant="default">
          {t.keys.create}
        </Button>
      </Group>
    </>
  );
}
