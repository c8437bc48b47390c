import { useMutation } from "@tanstack/react-query";
import { useRef } from "react";
import { type Answer, unwrap } from "../api/client";
import type { CallHeaders } from "./useEdit";
import { useRefresh } from "./useRefresh";

/** 128 random bits; `crypto.randomUUID` is missing where the page came over plain HTTP. */
function freshKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

/**
 * A POST that a second try does not repeat: the same body goes under the same Idempotency-Key until it worked.
 * `refresh`: first words of the query keys that are asked again afterwards.
 */
export function useCreate<Body, Made>(
  post: (body: Body, headers: CallHeaders) => Promise<Answer<Made>>,
  refresh: string[],
) {
  const ask = useRefresh(refresh);
  const tried = useRef<{ body: string; key: string }>(undefined);
  return useMutation({
    mutationFn: async (body: Body): Promise<Made> => {
      const text = JSON.stringify(body);
      if (tried.current?.body !== text) tried.current = { body: text, key: freshKey() };
      return unwrap(post(body, { "Idempotency-Key": tried.current.key }));
    },
    onSuccess: async () => {
      tried.current = undefined;
      await ask();
    },
  });
}
