import { Button, type ButtonProps } from "@mantine/core";
import { FormError } from "../../components/FormError";
import { useStartAtProvider } from "../../hooks/useProvider";
import { t } from "../../i18n";

/** To the provider and back to `next`. */
export function ProviderButton({ name, next, ...props }: ButtonProps & { name: string; next: string }) {
  const start = useStartAtProvider();
  return (
    <>
      <FormError error={start.error} />
      <Button
        fullWidth
        loading={start.isPending || start.isSuccess}
        onClick={() => start.mutate(next)}
        {...props}
      >
        {t.signin.withProvider(name)}
      </Button>
    </>
  );
}
