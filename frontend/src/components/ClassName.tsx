import { Fragment } from "react";

/** The name of a class in code, which may break between its words: `LlamaForCausalLM`. */
export function ClassName({ name }: { name: string }) {
  const words = name.split(/(?<=[a-z0-9])(?=[A-Z])/);
  return words.map((word, at) => (
    <Fragment key={at}>
      {at > 0 && <wbr />}
      {word}
    </Fragment>
  ));
}
