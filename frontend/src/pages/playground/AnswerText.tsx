import { CodeBlock } from "../../components/CodeBlock";
import { t } from "../../i18n";
import { type Part, partsOf, spansOf } from "../../lib/answer";
import classes from "./Playground.module.css";

function Prose({ text }: { text: string }) {
  return (
    <>
      {spansOf(text).map((span, i) => {
        const key = `${i}-${span.kind}`;
        if (span.kind === "strong") return <strong key={key}>{span.text}</strong>;
        if (span.kind === "code")
          return (
            <code key={key} className={classes.inlineCode}>
              {span.text}
            </code>
          );
        return <span key={key}>{span.text}</span>;
      })}
    </>
  );
}

function PartView({ part, caret }: { part: Part; caret: boolean }) {
  const mark = caret && <span className={classes.caret} aria-hidden="true" />;
  if (part.kind === "code") return <CodeBlock code={part.text} label={t.snippets.copy} />;
  if (part.kind === "thought") {
    return (
      <details className={classes.thought} open={part.open || undefined}>
        <summary>{part.open ? t.playground.thinking : t.playground.thought}</summary>
        {part.text}
        {mark}
      </details>
    );
  }
  return (
    <div className={classes.text}>
      <Prose text={part.text} />
      {mark}
    </div>
  );
}

/** An answer as it comes: thoughts folded away once they end, code to copy, the rest as it was written. */
export function AnswerText({ text, streaming }: { text: string; streaming: boolean }) {
  const parts = partsOf(text);
  return (
    <>
      {parts.map((part, i) => (
        <PartView key={`${i}-${part.kind}`} part={part} caret={streaming && i === parts.length - 1} />
      ))}
    </>
  );
}
