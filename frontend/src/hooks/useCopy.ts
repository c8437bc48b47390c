import { useEffect, useState } from "react";
import { copyText } from "../lib/copy";

const SAID_MS = 1600;

/** `copied` is true for a moment after `copy`. */
export function useCopy(): { copied: boolean; copy: (text: string) => void } {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), SAID_MS);
    return () => clearTimeout(timer);
  }, [copied]);
  return { copied, copy: (text) => void copyText(text).then(() => setCopied(true)) };
}
