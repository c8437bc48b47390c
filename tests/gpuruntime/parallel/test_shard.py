"""How a model is dealt out: everything once, heads beside the K and V that they read, and what cannot be is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.config import ModelConfig, parse_model_config
from gpuruntime.parallel.shard import Shard, rank_config

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 211,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
}
EXPERTS = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
}


def config(**changes: Any) -> ModelConfig:
    return parse_model_config({**LLAMA, **changes})


@given(count=st.integers(0, 1000), size=st.integers(1, 9))
def test_the_parts_are_the_whole_in_order_and_as_equal_as_they_can_be(count: int, size: int) -> None:
    parts = [range(count)[Shard(rank, size).part(count)] for rank in range(size)]
    assert [index for part in parts for index in part] == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(kv=st.integers(1, 8), group=st.integers(1, 8), size=st.integers(1, 16), dim=st.sampled_from([1, 16]))
def test_each_query_head_stands_beside_the_kv_head_it_reads(kv: int, group: int, size: int, dim: int) -> None:
    heads = kv * group
    try:
        own = rank_config(config(num_attention_heads=heads, num_key_value_heads=kv, intermediate_size=5040), size)
    except ValueError:
        assert heads % size or (kv % size and size % kv)
        return
    local_group = own.num_heads // own.num_kv_heads
    for rank in range(size):
        shard = Shard(rank, size)
        q = range(heads * dim)[shard.part(heads * dim)]
        k = range(kv * dim)[shard.part(kv * dim, copies=shard.kv_copies(kv))]
        assert (len(q), len(k)) == (own.num_heads * dim, own.num_kv_heads * dim)
        for local, row in enumerate(q):
            read = k[local // dim // local_group * dim + local % dim]
            assert read == row // dim // group * dim + row % dim


def test_one_rank_is_the_whole_model() -> None:
    whole = config()
    assert rank_config(whole, 1) == whole
    assert range(211)[Shard().part(211)] == range(211)


@pytest.mark.parametrize(
    ("changes", "size", "named"),
    [
        (
            {},
            3,
            r"tensor_parallel 3: num_attention_heads 8 is no .*; num_key_value_heads 2 is .*; intermediate_size 80 ",
        ),
        ({"num_attention_heads": 24, "num_key_value_heads": 6}, 4, r"4: num_key_value_heads 6 is neither"),
        ({"intermediate_size": 90}, 4, r"tensor_parallel 4: intermediate_size 90 is no multiple of it$"),
        (
            {**EXPERTS, "moe_intermediate_size": 27},
            2,
            r"tensor_parallel 2: moe_intermediate_size 27 is no multiple of it$",
        ),
        ({"vocab_size": 3}, 4, r"tensor_parallel 4: vocab_size 3 is smaller$"),
    ],
)
def test_what_cannot_be_dealt_out_is_refused_by_name(changes: dict[str, Any], size: int, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        rank_config(config(**changes), size)


def test_a_dense_size_that_no_layer_has_is_not_asked_about() -> None:
    sparse = config(**EXPERTS, intermediate_size=81)
    assert sparse.experts is not None
    assert rank_config(sparse, 2).num_heads == 4
    mixed = replace(sparse, experts=replace(sparse.experts, layers=(True, False)))
    with pytest.raises(ValueError, match="intermediate_size 81"):
        rank_config(mixed, 2)
