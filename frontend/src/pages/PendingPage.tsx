import { Center, Loader } from "@mantine/core";
import { t } from "../i18n";

/** A page whose code has not arrived yet. */
export function PendingPage() {
  return (
    <Center mih="40dvh">
      <Loader size="sm" color="gray" role="status" aria-label={t.loading} />
    </Center>
  );
}
