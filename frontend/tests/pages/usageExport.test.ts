import { describe, expect, it } from "vitest";
import { chargebackUrl } from "../../src/hooks/useUsage";
import { months } from "../../src/pages/usage/ExportMenu";

describe("a month to charge", () => {
  it("is UTC's, across the end of a year and of a long month", () => {
    expect(months(new Date("2026-01-31T23:30:00-05:00"))).toEqual(["2026-02", "2026-01", "2025-12"]);
    expect(months(new Date("2026-03-31T12:00:00Z"))).toEqual(["2026-03", "2026-02", "2026-01"]);
  });

  it("is of the same tenant and key, not of the time that is looked at", () => {
    const url = chargebackUrl({ tenant: "ten_1", key: "key_1", from: "a", to: "b" }, "2026-02");
    expect(url).toBe("/api/v1/usage/chargeback.csv?month=2026-02&by=key&tenant=ten_1&key=key_1");
  });
});
