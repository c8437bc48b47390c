/** What is run on the new machine. The token goes into a file that only its owner reads: `ps` shows no secret. */
export function joinCommand(name: string, token: string, origin: string): string {
  const url = origin.replace(/^http/, "ws");
  return [
    `(umask 077; printf %s '${token}' > node-token)`,
    `python -m scheduler.node --join ${url} --name ${name} \\`,
    "  --token-file node-token --state-dir berth-node \\",
    "  --address \"$(hostname -I | cut -d' ' -f1)\"",
  ].join("\n");
}
