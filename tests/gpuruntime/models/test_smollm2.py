"""The real SmolLM2-135M against transformers on the same weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gpuruntime.loading.tokenizer import ChatTokenizer
from helpers.engine import greedy, greedy_reference, make_engine
from helpers.model import smollm2_dir, smollm2_gguf  # noqa: F401 - fixtures

QUESTIONS = (
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "In 2024, how many days were in February? Explain in 3 steps.",
)


@pytest.fixture(scope="module")
def prompts(smollm2_dir: Path) -> list[tuple[int, ...]]:  # noqa: F811
    tokenizer = ChatTokenizer(smollm2_dir)
    return [tokenizer.encode_chat([{"role": "user", "content": text}]) for text in QUESTIONS]


def test_greedy_tokens_equal_transformers_in_fp32(smollm2_dir: Path, prompts: list[tuple[int, ...]]) -> None:  # noqa: F811
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(smollm2_dir, dtype=torch.float32).eval()
    engine = make_engine(smollm2_dir, blocks=64, max_tokens=48)
    keys = [engine.add(prompt, greedy(24)) for prompt in prompts]
    engine.drain()
    for key, prompt in zip(keys, prompts, strict=True):
        assert engine.texts[key] == greedy_reference(reference, prompt, 24)


def test_bf16_answers_the_question(smollm2_dir: Path, prompts: list[tuple[int, ...]]) -> None:  # noqa: F811
    tokenizer = ChatTokenizer(smollm2_dir)
    engine = make_engine(smollm2_dir, blocks=64, dtype="bf16")
    key = engine.add(prompts[0], greedy(20), end_ids=tokenizer.eos_token_ids)
    engine.drain()
    assert tokenizer.tokenizer.decode(engine.texts[key]) == "The capital of France is Paris."
    assert engine.reason(key) == "stop"


def test_the_tokenizer_equals_transformers(smollm2_dir: Path) -> None:  # noqa: F811
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(smollm2_dir)
    tokenizer = ChatTokenizer(smollm2_dir)
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "naïve café 12345 é 😀\n\n  x = {1: 'a'}"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "日本語"},
    ]
    expected = reference.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert list(tokenizer.encode_chat(messages)) == expected
