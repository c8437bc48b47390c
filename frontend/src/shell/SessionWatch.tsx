import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { useLive } from "../live/LiveProvider";

/** The websocket learns first that a session or a membership ended: then who one is, is asked again. */
export function SessionWatch() {
  const { status } = useLive();
  const queries = useQueryClient();
  useEffect(() => {
    if (status === "signed_out" || status === "denied") void queries.invalidateQueries({ queryKey: ["me"] });
  }, [status, queries]);
  return null;
}
