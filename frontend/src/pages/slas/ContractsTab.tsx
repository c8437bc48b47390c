import { Button } from "@mantine/core";
import { IconFileCertificate, IconPlus } from "@tabler/icons-react";
import { useMemo } from "react";
import type { ContractState } from "../../api/types";
import { EmptyState } from "../../components/EmptyState";
import { FilterBar, FilterName, FilterSelect } from "../../components/FilterBar";
import { ResourceTable } from "../../components/ResourceTable";
import { useBudgets } from "../../hooks/useBudgets";
import { useClasses } from "../../hooks/useClasses";
import { useContractPage } from "../../hooks/useContracts";
import { useList } from "../../hooks/useList";
import { useScope } from "../../hooks/useScope";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { ContractDrawer } from "./ContractDrawer";
import { ContractHistory } from "./ContractHistory";
import { contractColumns } from "./contractColumns";
import { EndContract } from "./EndContract";

const STATES: ContractState[] = ["current", "scheduled", "ended", "replaced"];
const FILTERS = ["q", "deployment", "service_class", "state"] as const;

/** Who was promised what on which deployment. Those in force are shown, until another state is asked for. */
export function ContractsTab() {
  const { current, operator } = useScope();
  const { values, set } = useUrl();
  const list = useList({ filters: FILTERS, sort: "-valid_from" });
  const state = STATES.find((one) => one === list.values.state) ?? "current";
  const page = useContractPage({ tenant: current?.tenant, ...list.query, state });
  const classes = useClasses();
  const budgets = useBudgets("contract", current?.tenant);
  const words = t.slas.contracts;
  const create = () => set({ create: "contract" }, true);
  const columns = useMemo(
    () =>
      contractColumns(
        {
          onEdit: operator ? (one) => set({ edit: one.id }, true) : undefined,
          onEnd: operator ? (one) => set({ end: one.id }, true) : undefined,
          onHistory: (one) => set({ contract: one.id }, true),
          tenantShown: current?.tenant === undefined,
        },
        budgets,
      ),
    [operator, set, current?.tenant, budgets],
  );
  const named = (id: string | undefined) => page.data?.results.find((one) => one.id === id);
  return (
    <>
      <FilterBar list={list} search={words.search}>
        <FilterSelect
          list={list}
          name="state"
          label={words.states.current}
          options={STATES.map((value) => ({ value, label: words.states[value] }))}
        />
        <FilterName
          list={list}
          name="deployment"
          label={words.columns.deployment}
          kind="deployment"
          tenant={current?.tenant}
        />
        <FilterSelect
          list={list}
          name="service_class"
          label={words.columns.class}
          options={(classes.data ?? []).map((c) => ({ value: c.name, label: c.name }))}
        />
        {operator && (
          <Button
            leftSection={<IconPlus size={16} />}
            onClick={create}
            ml="auto"
            data-testid="create-contract"
          >
            {words.create}
          </Button>
        )}
      </FilterBar>
      <ResourceTable
        list={list}
        page={page}
        columns={columns}
        rowId={(one) => one.id}
        label={t.slas.tabs.contracts}
        onOpen={(one) => set({ contract: one.id }, true)}
        testId="contracts"
        empty={
          <EmptyState
            icon={<IconFileCertificate size={20} stroke={1.6} />}
            title={words.empty}
            text={operator ? words.emptyText : words.emptyTenant}
          >
            {operator && <Button onClick={create}>{words.create}</Button>}
          </EmptyState>
        }
      />
      <ContractHistory id={values.contract} onClose={() => set({ contract: undefined })} />
      {operator && (
        <>
          <ContractDrawer
            creating={values.create === "contract"}
            id={values.edit}
            onClose={() => set({ create: undefined, edit: undefined })}
          />
          <EndContract contract={named(values.end)} onClose={() => set({ end: undefined })} />
        </>
      )}
    </>
  );
}
