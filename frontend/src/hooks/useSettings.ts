import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import { useEdit } from "./useEdit";

export type SettingValue = string | number | boolean | null;

export function useSettings() {
  return useQuery({
    queryKey: ["settings"],
    queryFn: () => unwrap(api.GET("/api/v1/settings")),
  });
}

/** One setting while its form is open. */
export function useEditSetting(key: string | undefined) {
  const params = { path: { key: key ?? "" } };
  return useEdit({
    key: key === undefined ? null : ["settings", key],
    read: () => api.GET("/api/v1/settings/{key}", { params }),
    write: (value: SettingValue, headers) =>
      api.PATCH("/api/v1/settings/{key}", { params, headers, body: { value } }),
    refresh: ["settings"],
  });
}
