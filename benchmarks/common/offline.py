"""An offline engine in a process of its own, under the Python of its own environment: ``offline.py ENGINE MODEL``.

Each line on stdin, ``{"prompts": [[ids]], "max_tokens": n}``, is generated greedily as one batch and answered with
``{"seconds": s, "tokens": n}``. The first line on stdout says that the model is loaded.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Prompts = list[list[int]]
Generate = Callable[[Prompts, int], int]


def load_ours(model: str) -> Generate:
    from gpuruntime.backend import SamplingParams
    from gpuruntime.llm import LLM

    llm = LLM(model, dtype="int8", kv_bytes=512 << 20, max_model_len=4096)

    def generate(prompts: Prompts, max_tokens: int) -> int:
        params = SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True)
        return sum(len(output.token_ids) for output in llm.generate(prompts, params))

    return generate


def load_openvino(model: str) -> Generate:
    import numpy as np
    import openvino  # type: ignore[import-not-found]
    import openvino_genai  # type: ignore[import-not-found]

    pipeline = openvino_genai.LLMPipeline(model, "CPU")
    settings = openvino_genai.GenerationConfig()
    settings.do_sample = False
    settings.ignore_eos = True

    def generate(prompts: Prompts, max_tokens: int) -> int:
        settings.max_new_tokens = max_tokens
        ids = np.array(prompts, dtype=np.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        return sum(len(tokens) for tokens in pipeline.generate(inputs, settings).tokens)

    return generate


ENGINES: dict[str, Callable[[str], Generate]] = {"ours": load_ours, "openvino": load_openvino}


def main(engine: str, model: str) -> None:
    # Whatever an engine prints goes to the log: stdout carries the answers alone.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")

    generate = ENGINES[engine](model)
    answer({"ready": True})
    for line in sys.stdin:
        question = json.loads(line)
        began = time.perf_counter()
        tokens = generate(question["prompts"], question["max_tokens"])
        answer({"seconds": time.perf_counter() - began, "tokens": tokens})


if __name__ == "__main__":
    main(*sys.argv[1:3])
