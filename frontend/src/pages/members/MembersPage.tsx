import { Button } from "@mantine/core";
import { IconUserPlus, IconUsers } from "@tabler/icons-react";
import { useMemo, useState } from "react";
import type { Member } from "../../api/types";
import { EmptyState } from "../../components/EmptyState";
import { FilterBar, FilterSelect } from "../../components/FilterBar";
import { PageHeader } from "../../components/PageHeader";
import { ResourceTable } from "../../components/ResourceTable";
import { useList } from "../../hooks/useList";
import { useMe } from "../../hooks/useMe";
import { useMembers } from "../../hooks/useMembers";
import { tenantNames, useScope } from "../../hooks/useScope";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { InvitationsPanel } from "./InvitationsPanel";
import { InviteDrawer } from "./InviteDrawer";
import { type InvitationLink, LinkModal } from "./LinkModal";
import { ChangeRole, RemoveMember, type RoleChange } from "./MemberModals";
import { memberColumns } from "./memberColumns";
import { ROLES } from "./roles";

export function MembersPage() {
  const { current, all, canChange } = useScope();
  const { data: me } = useMe();
  const { values, set } = useUrl();
  const list = useList({ filters: ["q", "role"], sort: "-created_at" });
  const members = useMembers(current?.tenant, list.query);
  const [change, setChange] = useState<RoleChange | null>(null);
  const [removing, setRemoving] = useState<Member | null>(null);
  const [link, setLink] = useState<InvitationLink | null>(null);
  const self = me?.user.id ?? "";
  const columns = useMemo(() => {
    const verbs = {
      change: (member: Member, role: RoleChange["role"]) => setChange({ member, role }),
      remove: setRemoving,
    };
    return memberColumns({ canChange, self, tenants: current?.tenant ? undefined : tenantNames(all), verbs });
  }, [all, canChange, current?.tenant, self]);
  const invite = canChange && (
    <Button
      leftSection={<IconUserPlus size={16} />}
      onClick={() => set({ invite: "true" }, true)}
      data-testid="invite"
    >
      {t.members.invite}
    </Button>
  );
  return (
    <>
      <PageHeader title={t.members.title} subtitle={t.members.subtitle}>
        {invite}
      </PageHeader>
      <FilterBar list={list} search={t.members.search}>
        <FilterSelect
          list={list}
          name="role"
          label={t.members.role}
          options={ROLES.map((value) => ({ value, label: t.roles[value] }))}
        />
      </FilterBar>
      <ResourceTable<Member>
        list={list}
        page={members}
        columns={columns}
        rowId={(member) => member.id}
        label={t.members.title}
        testId="members"
        empty={
          <EmptyState
            icon={<IconUsers size={20} stroke={1.6} />}
            title={t.members.empty}
            text={t.members.emptyText}
          >
            {invite}
          </EmptyState>
        }
      />
      {canChange && <InvitationsPanel onLink={setLink} />}
      <InviteDrawer
        opened={values.invite === "true" && canChange}
        onClose={() => set({ invite: undefined })}
        onLink={setLink}
      />
      <LinkModal link={link} onClose={() => setLink(null)} />
      <ChangeRole change={change} onClose={() => setChange(null)} />
      <RemoveMember member={removing} onClose={() => setRemoving(null)} />
    </>
  );
}
