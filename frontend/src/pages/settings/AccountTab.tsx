export function AccountTab() {
  return null;
}
