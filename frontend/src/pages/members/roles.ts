import type { Role } from "../../api/types";
import { t } from "../../i18n";

export const ROLES: Role[] = ["owner", "admin", "developer", "viewer"];

export const roleOptions = () => ROLES.map((value) => ({ value, label: t.roles[value] }));
