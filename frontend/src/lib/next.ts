/** Where to after sign-in: a path of this site, and nothing that a browser reads as another host. */
export function safeNext(next: string | undefined): string {
  return next && /^\/(?![/\\])[^\s\\]*$/.test(next) ? next : "/";
}
