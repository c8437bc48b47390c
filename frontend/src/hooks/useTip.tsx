import { Tooltip } from "@mantine/core";
import { type ReactNode, type RefObject, useRef, useState } from "react";

interface Tip<T extends HTMLElement> {
  target: {
    ref: RefObject<T | null>;
    onPointerEnter: () => void;
    onPointerLeave: () => void;
    onFocus: () => void;
    onBlur: () => void;
  };
  tip: ReactNode;
}

/** A tooltip that is made once it is asked for, beside its target: a table has hundreds that nobody looks at. */
export function useTip<T extends HTMLElement>(label: () => string): Tip<T> {
  const ref = useRef<T>(null);
  const [asked, setAsked] = useState(false);
  const [over, setOver] = useState(false);
  const show = () => {
    setAsked(true);
    setOver(true);
  };
  const hide = () => setOver(false);
  return {
    target: { ref, onPointerEnter: show, onPointerLeave: hide, onFocus: show, onBlur: hide },
    tip: asked && <Tooltip target={ref} label={label()} opened={over} />,
  };
}
