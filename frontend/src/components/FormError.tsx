import { Alert } from "@mantine/core";
import { IconAlertCircle } from "@tabler/icons-react";

export function FormError({ error }: { error: Error | null }) {
  if (!error) return null;
  return (
    <Alert color="red" variant="light" mt="md" p="xs" icon={<IconAlertCircle size={16} />} role="alert">
      {error.message}
    </Alert>
  );
}
