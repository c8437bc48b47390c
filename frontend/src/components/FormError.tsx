import { Alert } from "@mantine/core";
import { IconAlertCircle } from "@tabler/icons-react";
import { useEffect, useRef } from "react";

/** What the server refused; a long form scrolls to it, since it may stand below the button just pressed. */
export function FormError({ error }: { error: Error | null }) {
  const shown = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (error) shown.current?.scrollIntoView?.({ block: "nearest" });
  }, [error]);
  if (!error) return null;
  return (
    <Alert
      ref={shown}
      color="red"
      variant="light"
      mt="md"
      p="xs"
      icon={<IconAlertCircle size={16} />}
      role="alert"
      styles={{ root: { background: "var(--b-bad-soft)" }, icon: { color: "var(--b-bad)" } }}
    >
      {error.message}
    </Alert>
  );
}
