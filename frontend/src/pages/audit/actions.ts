import { t } from "../../i18n";

/** What the filter offers; an action that is not here can still be searched for. */
export const ACTIONS = [
  "tenant.create",
  "tenant.change",
  "quota.set",
  "member.set",
  "member.remove",
  "invitation.create",
  "invitation.accept",
  "invitation.revoke",
  "key.create",
  "key.change",
  "key.rotate",
  "key.revoke",
  "key.delete",
  "model.register",
  "model.delete",
  "deployment.create",
  "deployment.change",
  "deployment.delete",
  "class.create",
  "class.change",
  "contract.grant",
  "contract.change",
  "contract.end",
  "node.create",
  "node.cordon",
  "node.drain",
  "node.uncordon",
  "gpu.fence",
  "gpu.clear",
  "gpu.judge",
  "option.change",
  "alert_route.create",
  "alert_route.change",
  "alert_route.delete",
  "user.create",
  "user.set_password",
];

/** A person by their address; what the installation does by itself, by a word. */
export function actorWords(actor: string): string {
  return t.audit.actors[actor] ?? actor;
}

/** `key.create` as "created API key"; what has no word stays as it is. */
export function actionWords(action: string): string {
  const [object = "", verb = ""] = action.split(".");
  const what = t.audit.objects[object];
  const did = t.audit.verbs[verb];
  return what && did ? t.audit.did(did, what) : action;
}
