import { describe, expect, it } from "vitest";
import catalogue from "../../src/i18n/zh.sentences.json";
import { translator } from "../../src/lib/sentences";

const say = translator(catalogue, { ready: "就绪", failed: "失败", admin: "管理员", viewer: "查看者" });

/** The English sentence as the server would send it, and the Chinese one, both filled by hand. */
function filled(english: string, chinese: string): [string, string] {
  const values: string[] = [];
  const sent = english.replace(/([a-z]?)\{\}/g, (_, before) => {
    const word = chinese.includes(`{${values.length + 1}:word}`) ? "once" : `v${values.length + 1}`;
    values.push(before ? "" : word); // after a letter it is a plural's s, which Chinese does without
    return before ? `${before}s` : word;
  });
  const said = (_: string, number: string) => values[Number(number) - 1]?.replace("once", "一次") ?? "";
  return [sent, chinese.replace(/\{(\d)(?::word)?\}/g, said)];
}

describe("the server's sentences in Chinese", () => {
  it("finds the template of every sentence, and its values", () => {
    const wrong: Record<string, string> = {};
    for (const [english, chinese] of Object.entries(catalogue.sentences)) {
      const [sent, expected] = filled(english, chinese);
      if (say(sent) !== expected) wrong[sent] = say(sent);
    }
    expect(wrong).toEqual({});
  });

  it("translates values that are sentences, states and roles themselves", () => {
    expect(say("This needs the role admin; yours is viewer")).toBe(
      "此操作需要角色“管理员”；您的角色是“查看者”",
    );
    expect(say("ready is failed: architecture 'X' is not supported; supported: a, b")).toBe(
      "ready 的状态为“失败”：不支持架构 'X'；支持：a, b",
    );
    expect(say("Node a is drained: 1 of 2 replicas are ready elsewhere")).toBe(
      "节点 a 正在排空：2 个副本中有 1 个在别处就绪",
    );
    expect(say("The runtime ended (exit code 1): out of memory; restart 2 follows 0.5 s later")).toBe(
      "运行时已结束（退出码 1）：out of memory；0.5 s 后进行第 2 次重启".replace("0.5 s 后", "0.5 秒后"),
    );
  });

  it("says why a GPU is not healthy", () => {
    expect(
      say(
        "GPU gpu-3 of node n1 is fenced: The driver reported XID 95: a memory error that may have reached any process. Reset the GPU when it is empty; if it comes again, have the GPU replaced",
      ),
    ).toBe(
      "节点 n1 的 GPU gpu-3 已隔离：驱动报告 XID 95：可能影响任何进程的显存错误。GPU 空闲后请重置；若再次出现，请更换 GPU",
    );
    expect(say("Fenced by ann@example.com: fans are changed. Clear it when it may be used again")).toBe(
      "由 ann@example.com 隔离：fans are changed。可以重新使用时请解除隔离",
    );
  });

  it("reads a list piece by piece", () => {
    expect(
      say(
        "No device has 4.0 GB free: n1 cpu0 has 1.0 GB of 2.0 GB, n2 cpu0 has 0.5 GB of 2.0 GB, and 3 more have no more",
      ),
    ).toBe(
      "没有设备有 4.0 GB 空闲：n1 cpu0 有 1.0 GB（共 2.0 GB），n2 cpu0 有 0.5 GB（共 2.0 GB），另外 3 台不更多",
    );
    expect(
      say("the one device with room: none of its replicas failed here, none of its replicas is here"),
    ).toBe("唯一有空间的设备：其副本未曾在此失败，其副本都不在此");
  });

  it("says sentences that were put together", () => {
    expect(
      say(
        "It failed 2 times where it could run. Last on n1: The runtime ended (killed by SIGKILL). The next try is 120 s after the last",
      ),
    ).toBe(
      "它在可运行的位置失败了 2 次。最近一次（位于 n1）：运行时已结束（被 SIGKILL 终止）。下一次尝试在上次之后 120 秒",
    );
    expect(say("name: This field is required.")).toBe("name：此字段必填。");
    expect(
      say("This password is too short. It must contain at least 10 characters. This password is too common."),
    ).toBe("密码太短，至少 10 个字符。此密码过于常见。");
  });

  it("leaves what it does not know, and names that are words", () => {
    expect(say("ggml_abort: not implemented")).toBe("ggml_abort: not implemented");
    expect(say("ready")).toBe("ready");
    expect(say("")).toBe("");
  });
});

it("says why a plan was made and why there is no room", () => {
  const said = translator(catalogue, {});
  expect(
    said(
      "7 GPUs in use, and nobody moves who could stay. Not taken: exact would move 8 replicas that are younger than 1200 s",
    ),
  ).toBe("使用 7 个 GPU，能留下的都不迁移。未采用：重新装箱会迁移 8 个运行不足 1200 秒的副本");
  expect(
    said("None of 3 GPUs has a place for 1g.10gb (10.5 GB) or more: 2 are full, 1 take nothing new"),
  ).toBe("3 个 GPU 中没有一个能放下 1g.10gb（10.5 GB）或更大的切片：2 个已满，1 个不接收新副本");
});

it("says what is wrong deep in a model's file", () => {
  const said = translator(catalogue, {});
  expect(
    said(
      "conversion failed: m.gguf: cannot be converted: tensor blk.0.attn_q.weight has shape [3, 4], the metadata imply [8, 8]",
    ),
  ).toBe("转换失败：m.gguf：无法转换：张量 blk.0.attn_q.weight 的形状为 [3, 4]，而元数据要求 [8, 8]");
  expect(
    said("conversion failed: m.gguf: cannot be converted: llama.expert_count = 8 is not supported"),
  ).toBe("转换失败：m.gguf：无法转换：不支持 llama.expert_count = 8");
  expect(said("/models/m/model.safetensors: tensor lm_head.weight is missing")).toBe(
    "/models/m/model.safetensors：缺少张量 lm_head.weight",
  );
});
