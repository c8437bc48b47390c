import { t } from "../i18n";
import { NONE } from "./format";

/** Decimal text of the server as money. It is a number only for showing: sums are made there, never here. */
export function money(
  amount: string | number | null | undefined,
  currency: string,
  digits: { least: number; most: number } = { least: 2, most: 2 },
): string {
  if (amount === null || amount === undefined || amount === "") return NONE;
  const value = Number(amount);
  if (!Number.isFinite(value)) return NONE;
  const format = { minimumFractionDigits: digits.least, maximumFractionDigits: digits.most };
  try {
    return new Intl.NumberFormat(t.locale, {
      style: "currency",
      currency,
      currencyDisplay: "narrowSymbol",
      ...format,
    }).format(value);
  } catch {
    // What the operator entered as currency is no ISO code: it stands behind the figure as it is.
    return `${new Intl.NumberFormat(t.locale, format).format(value)} ${currency}`.trim();
  }
}

/** A cost that may be far below a cent: as many digits as it takes to see the first two of it. */
export function cost(amount: string | number | null | undefined, currency: string): string {
  const size = Math.abs(Number(amount));
  if (!(size > 0) || size >= 1) return money(amount, currency);
  const most = Math.min(10, Math.max(2, 1 - Math.floor(Math.log10(size))));
  return money(amount, currency, { least: 2, most });
}

/** The price of a million tokens, to the four decimals that it has. */
export function price(amount: string | number | null | undefined, currency: string): string {
  return money(amount, currency, { least: 2, most: 4 });
}
