import { TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useEffect, useRef, useState } from "react";

const TYPING_MS = 250;

interface Props {
  value: string;
  label: string;
  onChange: (q: string) => void;
  className?: string;
}

/** Text is handed on, to the URL, once typing pauses: no letter waits for a list, or costs a question to the server. */
export function SearchInput({ value, label, onChange, className }: Props) {
  const [text, setText] = useState(value);
  const handedOn = useRef(value);
  // Another's change is shown; what was handed on comes back late, when more may have been typed
  useEffect(() => {
    if (value !== handedOn.current) setText(value);
    handedOn.current = value;
  }, [value]);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => {
      handedOn.current = text;
      onChange(text);
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [text, value, onChange]);
  return (
    <TextInput
      type="search"
      aria-label={label}
      placeholder={label}
      leftSection={<IconSearch size={15} stroke={1.6} aria-hidden="true" />}
      value={text}
      onChange={(event) => setText(event.target.value)}
      className={className}
    />
  );
}
