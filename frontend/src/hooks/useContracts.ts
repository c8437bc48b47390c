import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, collect, unwrap, WHOLE } from "../api/client";
import type { Contract, ContractChange, ContractCreate, ContractState } from "../api/types";
import { useAct } from "./useAct";
import { useCreate } from "./useCreate";
import { useEdit } from "./useEdit";
import type { ListQuery } from "./useList";

/** The contracts in force of one tenant, on its own deployments and on others'; `everyones`: without a tenant, all. */
export function useContracts(tenant: string | undefined, everyones = false) {
  return useQuery({
    queryKey: ["contracts", "current", tenant ?? null],
    enabled: tenant !== undefined || everyones,
    queryFn: () =>
      collect((cursor) =>
        unwrap(
          api.GET("/api/v1/contracts", {
            params: { query: { tenant, state: "current", cursor, page_size: WHOLE } },
          }),
        ),
      ),
  });
}

export interface ContractFilters extends ListQuery {
  tenant?: string;
  deployment?: string;
  service_class?: string;
  state?: ContractState;
}

export function useContractPage(query: ContractFilters) {
  return useQuery({
    queryKey: ["contracts", "page", query],
    placeholderData: keepPreviousData,
    queryFn: () => unwrap(api.GET("/api/v1/contracts", { params: { query } })),
  });
}

/** Every version of the contract that this one is a version of, newest first. */
export function useVersions(id: string | undefined) {
  return useQuery({
    queryKey: ["contracts", "versions", id],
    enabled: id !== undefined,
    queryFn: () => unwrap(api.GET("/api/v1/contracts/{id}/versions", { params: { path: { id: id ?? "" } } })),
  });
}

const REFRESH = ["contracts", "classes", "deployments"];

export function useCreateContract() {
  return useCreate(
    (body: ContractCreate, headers) => api.POST("/api/v1/contracts", { body, headers }),
    REFRESH,
  );
}

export function useEditContract(id: string | undefined) {
  const params = { path: { id: id ?? "" } };
  return useEdit<Contract, ContractChange>({
    key: id ? ["contracts", id] : null,
    read: () => api.GET("/api/v1/contracts/{id}", { params }),
    write: (body, headers) => api.PATCH("/api/v1/contracts/{id}", { params, body, headers }),
    refresh: REFRESH,
  });
}

/** Ends it now, or at a time to come. */
export function useEndContract() {
  return useAct({
    seen: (contract: Contract) => [contract.version, contract.state, contract.valid_until],
    read: (id) => api.GET("/api/v1/contracts/{id}", { params: { path: { id } } }),
    write: (id, at: string | null, headers) =>
      api.POST("/api/v1/contracts/{id}/end", { params: { path: { id } }, headers, body: { at } }),
    refresh: REFRESH,
  });
}
