"""A row's logits are the same bits in any company, chunks, blocks and order, on any threads and instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from gpuruntime.engine.native_executor import NativeExecutor
from helpers.native import Row, change_weights, make_batch, native, save_native_model

KINDS = [("bf16", "auto"), ("bf16", "int8"), ("int8", "auto"), ("int8", "int8")]
WIDTH = 6
LENGTHS = (1, 40, 17, 64, 3, 83)
PROMPTS = [np.random.default_rng(length).integers(3, 200, length).tolist() for length in LENGTHS]


@dataclass
class Model:
    """An executor and each prompt's last logits from a step of its own."""

    executor: NativeExecutor
    alone: list[Tensor] = field(default_factory=list)

    def run(self, rows: Sequence[Row]) -> Tensor:
        return self.executor.logits(make_batch(rows)).clone()


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Sizes that are no multiple of 64, groups of three, one layer with a window and one without, two threads."""
    path = tmp_path_factory.mktemp("model")
    window = {"use_sliding_window": True, "sliding_window": 19, "max_window_layers": 1}
    save_native_model(path, "qwen2", head_dim=96, intermediate_size=160, **window)
    dtype, kv_dtype = request.param
    model = Model(native(path, dtype=dtype, kv_dtype=kv_dtype, threads=2))
    model.alone = [model.run([whole(index, range(WIDTH))])[0] for index in range(len(PROMPTS))]
    return model


def whole(index: int, blocks: Sequence[int]) -> Row:
    return Row(PROMPTS[index], 0, len(PROMPTS[index]), list(blocks))


def together(order: Sequence[int]) -> list[Row]:
    return [whole(index, range(index * WIDTH, (index + 1) * WIDTH)) for index in order]


@given(data=st.data())
@settings(max_examples=25)
def test_mixed_steps_chunks_orders_and_tables(model: Model, data: st.DataObject) -> None:
    """Prompts advance by random chunks in random steps, beside one another and in scattered blocks."""
    blocks = data.draw(st.permutations(range(min(model.executor.num_blocks, 64))))
    tables = [blocks[index * WIDTH : (index + 1) * WIDTH] for index in range(len(PROMPTS))]
    model.executor.set_threads(data.draw(st.sampled_from((1, 2))))
    done = [0] * len(PROMPTS)
    while waiting := [index for index, prompt in enumerate(PROMPTS) if done[index] < len(prompt)]:
        order = data.draw(st.lists(st.sampled_from(waiting), min_size=1, unique=True))
        rows = []
        for index in order:
            left = len(PROMPTS[index]) - done[index]
            count = data.draw(st.one_of(st.just(left), st.integers(1, left)))
            rows.append(Row(PROMPTS[index], done[index], count, tables[index], wanted=count == left))
            done[index] += count
        logits = model.run(rows)
        ended = [index for index, row in zip(order, rows, strict=True) if row.wanted]
        for index, found in zip(ended, logits, strict=True):
            assert torch.equal(found, model.alone[index])


def test_token_by_token_equals_one_chunk(model: Model) -> None:
    for index, prompt in enumerate(PROMPTS):
        steps = [model.run([Row(prompt, start, 1, range(WIDTH))]) for start in range(len(prompt))]
        assert torch.equal(steps[-1][0], model.alone[index])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tiles", [True, False])
def test_threads_and_instructions(model: Model, threads: int, tiles: bool) -> None:
    order = [3, 0, 5, 1, 4, 2]
    model.executor.use_amx(tiles)
    model.executor.set_threads(threads)
    logits, picks = model.run(together(order)), model.executor.launch(make_batch(together(order))).tokens()
    model.executor.use_amx(True)
    model.executor.set_threads(2)
    assert torch.equal(logits, torch.stack([model.alone[index] for index in order]))
    assert picks == logits.argmax(-1).tolist()


@pytest.mark.parametrize("tiles", [True, False])
def test_many_rows_are_shared_out_otherwise(model: Model, tiles: bool) -> None:
    """416 tokens in a step: each of two members takes half of the rows instead of half of the columns."""
    rows = [*together(range(6)), *(whole(index, range(36 + index * WIDTH, 42 + index * WIDTH)) for index in range(6))]
    model.executor.use_amx(tiles)
    logits = model.run(rows)
    model.executor.use_amx(True)
    assert torch.equal(logits, torch.stack([*model.alone, *model.alone]))


def test_rows_without_logits_change_nothing(model: Model) -> None:
    rows = [Row(row.tokens, row.start, row.count, row.blocks, wanted=False) for row in together(range(6))]
    assert model.run(rows).shape == (0, 211)
    assert model.executor.launch(make_batch(rows)).tokens() == []
    last = [Row(row.tokens, row.count - 1, 1, row.blocks) for row in rows]
    assert torch.equal(model.run(last), torch.stack(model.alone))


@pytest.mark.parametrize("dtype", ["bf16", "int8"])
@pytest.mark.parametrize("threads", [1, 2])
def test_greedy_takes_the_lowest_id_among_equals(tmp_path: Path, dtype: str, threads: int) -> None:
    """The best row of the head is repeated in other lanes, tiles, units and members' shares."""
    save_native_model(tmp_path)
    executor = native(tmp_path, dtype=dtype, threads=threads)
    best = executor.launch(make_batch(together(range(6)))).tokens()
    head = load_file(tmp_path / "model.safetensors")["lm_head.weight"]
    for copies in ((7, 8, 210), (16, 200), (33, 1, 120), (100, 131, 99), (209, 207)):
        changed = head.clone()
        changed[list(copies)] = 3 * head[best[1]]
        change_weights(tmp_path, lm_head__weight=changed)
        again = native(tmp_path, dtype=dtype, threads=threads)
        logits = again.logits(make_batch(together(range(6)))).clone()
        assert logits[1].argmax() == min(copies)
        assert torch.equal(logits[1][list(copies)], logits[1][min(copies)].expand(len(copies)))
        assert again.launch(make_batch(together(range(6)))).tokens() == logits.argmax(-1).tolist()


def test_the_number_of_threads_may_change_with_every_step(tmp_path: Path) -> None:
    """More members than cores, so that some wake late and into a later run."""
    save_native_model(tmp_path, num_hidden_layers=1, hidden_size=192, intermediate_size=32)
    executor = native(tmp_path, threads=4)
    row = make_batch([whole(0, range(WIDTH))])
    expected = executor.logits(row).clone()
    for step in range(200):
        executor.set_threads((2, 4, 1, 3)[step % 4])
        assert torch.equal(executor.logits(row), expected)
