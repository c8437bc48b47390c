import type { ExplainedRequest } from "../../api/types";
import { t } from "../../i18n";
import type { ClauseFacts, Clauses } from "./clauses";

/**
 * What became of the request, in the console's language: each of the server's clauses has a code and its facts. A
 * clause that the catalogue does not know is said as the server says it.
 */
export function sentences(request: Pick<ExplainedRequest, "clauses" | "sentence">): string {
  const known: Clauses = t.requests.clauses;
  if (Object.keys(known).length === 0) return request.sentence;
  return request.clauses
    .map((clause) => known[clause.code]?.(clause.facts as ClauseFacts) ?? clause.text)
    .map((text) => `${text}${t.requests.stop}`)
    .join("");
}
