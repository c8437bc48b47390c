import { PendingPage } from "../PendingPage";

export function InvitationPage() {
  return <PendingPage />;
}
