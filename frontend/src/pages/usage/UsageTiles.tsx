import type { UsageSums } from "../../api/types";
import { StatTile, StatTiles } from "../../components/StatTile";
import { t } from "../../i18n";
import { integer, NONE, percent } from "../../lib/format";
import { cost } from "../../lib/money";

const words = t.usage.tiles;
const ratio = (part: number, all: number) => (all ? percent(part / all) : NONE);

export function UsageTiles({ total, currency }: { total: UsageSums; currency: string }) {
  return (
    <StatTiles>
      <StatTile
        {...words.requests}
        value={integer(total.requests)}
        detail={words.goodOf(ratio(total.good, total.offered))}
        testId="usage-requests"
      />
      <StatTile
        {...words.output}
        value={integer(total.completion_tokens)}
        detail={words.inTime(ratio(total.good_tokens, total.completion_tokens))}
        testId="usage-output"
      />
      <StatTile
        {...words.prompt}
        value={integer(total.prompt_tokens)}
        detail={words.cached(ratio(total.cached_tokens, total.prompt_tokens))}
        testId="usage-prompt"
      />
      <StatTile {...words.cost} value={cost(total.cost, currency)} detail={currency} testId="usage-cost" />
    </StatTiles>
  );
}
