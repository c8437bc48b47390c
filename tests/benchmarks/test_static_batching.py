"""Stage 0 of the ladder must give the same answers as the engine: else the two are not worth comparing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.common.static_batching import Options, StaticBatching
from helpers.engine import greedy, make_engine, save_random_llama

MAX_LEN = 64
LENGTHS = [(5, 9), (31, 3), (17, 12), (23, 1), (8, 20), (40, 6), (12, 4), (33, 7), (33, 5)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("static") / "llama"
    save_random_llama(path)
    return path


def prompts() -> list[tuple[int, ...]]:
    random = np.random.default_rng(3)
    made = [tuple(random.integers(3, 200, size).tolist()) for size, _ in LENGTHS]
    made[-1] = made[-2][:20] + made[-1][20:]  # the last two begin alike
    return made


@pytest.mark.parametrize(
    "options",
    [Options(), Options(paged=True), Options(chunk=16), Options(reuse=True)],
    ids=["0", "paged", "chunk", "reuse"],
)
def test_answers_are_those_of_the_engine(model: Path, options: Options) -> None:
    engine = make_engine(model, blocks=4 * MAX_LEN // 16)
    texts: dict[int, list[int]] = {}
    for key, (prompt, (_, output)) in enumerate(zip(prompts(), LENGTHS, strict=True)):
        alone = engine.add(prompt, greedy(output))
        engine.drain()
        texts[key] = engine.texts[alone]

    work: list[tuple[int, int, bool]] = []
    batching = StaticBatching(
        engine.executor, lambda *row: work.append(row), max_model_len=MAX_LEN, max_seqs=16, options=options
    )
    for key, (prompt, (_, output)) in enumerate(zip(prompts(), LENGTHS, strict=True)):
        batching.add(key, prompt, output)
    members: dict[int, Any] = {member.key: member for member in batching._queue}
    ended: list[int] = []
    counts = dict.fromkeys(texts, 0)
    while batching.busy:
        for key, last in batching.step():
            counts[key] += 1
            ended += [key] if last else []

    assert {key: member.tokens for key, member in members.items()} == texts
    assert sorted(ended) == sorted(texts)
    assert counts == {key: output for key, (_, output) in enumerate(LENGTHS)}
    # Requests that ended early are computed on: more decodes are booked than tokens delivered after the first.
    assert sum(decodes for _, _, decodes in work) > sum(output - 1 for _, output in LENGTHS)
