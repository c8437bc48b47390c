import { expect, it } from "vitest";
import catalogue from "../../src/i18n/zh.sentences.json";
import { searcher } from "../../src/lib/searched";

const small = {
  sentences: {
    "{} has no room for {}": "{1} 没有空间容纳 {2}",
    "there is no room": "没有空间",
    "is full": "已满",
  },
  libraries: {},
  words: { node: "节点" },
};

it("asks for each Chinese word and for the English of every sentence that says it", () => {
  const searched = searcher(small, { failed: "失败" });
  expect(searched("没有空间")).toBe('"没有空间|has no room for|there is no room"');
  expect(searched("失败 gpu-7  节点")).toBe('"失败|failed" gpu-7 "节点|node"');
  expect(searched("计费")).toBe("计费");
  expect(searched("no room")).toBe("no room");
});

it("keeps the address short, whatever is typed", () => {
  const searched = searcher(catalogue, {});
  for (const text of ["的", "请求", "显存", "未"])
    expect(encodeURIComponent(searched(text)).length).toBeLessThan(6000);
});
