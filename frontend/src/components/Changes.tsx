import { say, t } from "../i18n";
import { type Change, changes } from "../lib/changes";
import classes from "./Changes.module.css";

function show(value: unknown): string {
  if (value === undefined || value === null) return "–";
  if (value === "") return t.kit.empty;
  if (typeof value === "boolean") return value ? t.kit.yes : t.kit.no;
  return typeof value === "string" ? say(value) : JSON.stringify(value);
}

interface Props {
  before: unknown;
  after: unknown;
  /** Names for fields, and at the same time the fields to show; left out, all under their own names. */
  fields?: Record<string, string>;
  /** Names for fields, where all are shown. */
  names?: Record<string, string>;
  heads?: { before: string; after: string };
}

/** The fields in which two states of an object differ, the old value struck out beside the new. */
export function Changes({ before, after, fields, names = fields, heads }: Props) {
  const rows: Change[] = changes(before, after).filter(({ field }) => !fields || field in fields);
  if (rows.length === 0) return <p className={classes.none}>{t.kit.conflict.same}</p>;
  return (
    <div className={classes.scroll}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">{t.kit.conflict.field}</th>
            <th scope="col">{heads?.before ?? t.kit.conflict.before}</th>
            <th scope="col">{heads?.after ?? t.kit.conflict.now}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.field}>
              <th scope="row">{names?.[row.field] ?? row.field}</th>
              <td>{row.before === undefined ? "–" : <del>{show(row.before)}</del>}</td>
              <td>{row.after === undefined ? "–" : <ins>{show(row.after)}</ins>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
