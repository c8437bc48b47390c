import { Menu, NativeSelect } from "@mantine/core";
import { IconUserMinus } from "@tabler/icons-react";
import type { Member, Role } from "../../api/types";
import { ACTIONS, type Column } from "../../components/DataTable";
import { ObjectMenu } from "../../components/ObjectMenu";
import { TimeAgo } from "../../components/TimeAgo";
import { t } from "../../i18n";
import classes from "./Members.module.css";
import { roleOptions } from "./roles";

interface Options {
  canChange: boolean;
  /** The person who looks; anyone may leave. */
  self: string;
  /** Names by id, where members of more than one tenant are listed. */
  tenants: Map<string, string> | undefined;
  verbs: { change: (member: Member, role: Role) => void; remove: (member: Member) => void };
}

const nameOf = (member: Member) => member.user.name || member.user.email;

export function memberColumns({ canChange, self, tenants, verbs }: Options): Column<Member>[] {
  const words = t.members;
  const columns: Column<Member>[] = [
    {
      id: "person",
      header: words.columns.person,
      meta: { order: "email" },
      cell: ({ row: { original: member } }) => (
        <span className={classes.person}>
          <span className={classes.name}>
            {nameOf(member)} {member.user.id === self && <span className="muted">({words.you})</span>}
          </span>
          <span className={classes.email}>{member.user.email}</span>
        </span>
      ),
    },
    {
      id: "role",
      header: words.columns.role,
      meta: { order: "role" },
      cell: ({ row: { original: member } }) =>
        canChange ? (
          <NativeSelect
            size="xs"
            w={118}
            aria-label={words.roleOf(nameOf(member))}
            data={roleOptions()}
            value={member.role}
            onChange={(event) => verbs.change(member, event.target.value as Role)}
          />
        ) : (
          t.roles[member.role]
        ),
    },
    {
      id: "joined",
      header: words.columns.joined,
      meta: { order: "created_at", hide: "phone" },
      cell: ({ row }) => <TimeAgo at={row.original.created_at} />,
    },
    {
      ...ACTIONS,
      cell: ({ row: { original: member } }) =>
        canChange || member.user.id === self ? (
          <ObjectMenu label={words.menu(nameOf(member))} testId="member-menu">
            <Menu.Item
              color="red"
              leftSection={<IconUserMinus size={15} stroke={1.6} />}
              onClick={() => verbs.remove(member)}
            >
              {member.user.id === self ? words.leave : words.remove}
            </Menu.Item>
          </ObjectMenu>
        ) : null,
    },
  ];
  if (tenants)
    columns.splice(2, 0, {
      id: "tenant",
      header: words.columns.tenant,
      meta: { hide: "phone" },
      cell: ({ row }) => tenants.get(row.original.tenant) ?? row.original.tenant,
    });
  return columns;
}
