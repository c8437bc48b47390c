"""Small random checkpoints and an engine without threads, for tests of the native engine."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from gpuruntime.backend import FinishReason, SamplingParams, TokenLogprob
from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.core import EngineCore, Feature, StepOutput
from gpuruntime.engine.executor import Executor
from gpuruntime.engine.ledger import Ledger
from gpuruntime.engine.native_executor import NativeExecutor
from gpuruntime.engine.request import Clock, Request
from gpuruntime.engine.runner import ModelRunner
from gpuruntime.engine.shape import model_shape
from gpuruntime.engine.torch_executor import TorchExecutor
from gpuruntime.models.config import load_model_config
from gpuruntime.speculative.controller import Controller

# Tiny tensors gain nothing from threads, and two of them beside a busy process wait for each other.
torch.set_num_threads(1)

TINY: dict[str, Any] = {
    "vocab_size": 211,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def save_random_llama(target: Path, *, seed: int = 0, shards: str = "5GB", **changes: Any) -> Any:
    """Writes a random fp32 Llama made by transformers and returns transformers' own model."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**{**TINY, **changes})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(target, max_shard_size=shards)
    return model


def byte_tokenizer(*special: str) -> Tokenizer:
    """Every token is one byte, so every character beyond ASCII is split; the special tokens follow from 256 on."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def save_byte_model(target: Path, *, context: int = 128, **changes: Any) -> Path:
    """A random model over a byte tokenizer: texts are noise, tokens map to bytes; 256 begins and 257 ends a text."""
    save_random_llama(
        target, vocab_size=258, max_position_embeddings=context, eos_token_id=257, pad_token_id=256, **changes
    )
    tokenizer = byte_tokenizer("<|start|>", "<|end|>")
    tokenizer.save(str(target / "tokenizer.json"))
    (target / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    (target / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    (target / "generation_config.json").write_text('{"temperature": 0.2, "top_p": 0.9, "eos_token_id": 257}')
    return target


def greedy_reference(model: Any, prompt: Sequence[int], count: int) -> list[int]:
    """transformers' greedy continuation past any end token.

    A loop of its own: ``generate`` takes do_sample and the end token from the model's directory whatever one asks.
    """
    tokens: list[int] = []
    inputs, past = torch.tensor([list(prompt)]), None
    with torch.inference_mode():
        for _ in range(count):
            output = model(inputs, past_key_values=past, use_cache=True)
            past = output.past_key_values
            tokens.append(int(output.logits[0, -1].argmax()))
            inputs = torch.tensor([tokens[-1:]])
    return tokens


@dataclass
class Engine:
    """A core stepped by hand; ``texts`` collects tokens by key and ``ends`` the reasons."""

    core: EngineCore
    executor: Executor
    clock: Callable[[], float] = time.monotonic
    texts: dict[int, list[int]] = field(default_factory=dict)
    logprobs: dict[int, list[TokenLogprob]] = field(default_factory=dict)
    prompt_logprobs: dict[int, list[TokenLogprob | None]] = field(default_factory=dict)
    ends: dict[int, StepOutput] = field(default_factory=dict)
    _keys: Any = field(default_factory=lambda: itertools.count(1))

    def add(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        salt: bytes = b"",
        end_ids: Sequence[int] = (),
        deadline_s: float = math.inf,
    ) -> int:
        key = next(self._keys)
        request = Request(
            key=key,
            prompt_len=len(prompt),
            tokens=list(prompt),
            params=params,
            seed=params.seed or 0,
            salt=salt,
            end_ids=frozenset(end_ids) | frozenset(params.stop_token_ids),
            clock=Clock(self.clock()),
            deadline_s=deadline_s,
        )
        self.texts[key], self.logprobs[key], self.prompt_logprobs[key] = [], [], []
        self.core.add(request)
        return key

    def step(self) -> None:
        for output in self.core.step():
            self.take(output)

    def take(self, output: StepOutput | None) -> None:
        if output is None:
            return
        self.texts[output.key] += output.tokens
        self.logprobs[output.key] += output.logprobs
        self.prompt_logprobs[output.key] += output.prompt_logprobs
        if output.finish_reason is not None:
            self.ends[output.key] = output

    def drain(self) -> None:
        while self.core.busy:
            self.step()
        self.core.audit()

    def reason(self, key: int) -> FinishReason | None:
        return self.ends[key].finish_reason


def make_engine(
    model_dir: Path,
    *,
    blocks: int = 256,
    max_seqs: int = 16,
    max_tokens: int = 64,
    cache: bool = True,
    dtype: Any = "fp32",
    executor: Executor | None = None,
    device_share: float = 1.0,
    features: Sequence[Feature] = (),
    clock: Callable[[], float] = time.monotonic,
) -> Engine:
    """An engine over ``blocks`` KV blocks; pass ``executor`` to reuse loaded weights with fewer blocks."""
    model_config = load_model_config(model_dir)
    if executor is None:
        element = 4 if dtype == "fp32" else 2
        kv_bytes = blocks * 16 * model_config.kv_bytes_per_token(element)
        config = EngineConfig(model_dir, dtype=dtype, kv_bytes=kv_bytes)
        executor = TorchExecutor(config, model_config, min(model_config.max_position, 4096))
    shape = model_shape(model_config, 4)
    ledger = Ledger(shape, kv_capacity_tokens=blocks * 16, max_seqs=max_seqs, device_share=device_share)
    core = EngineCore(
        ModelRunner(executor),
        ledger,
        max_seqs=max_seqs,
        max_tokens=max_tokens,
        num_blocks=blocks,
        cache=cache,
        features=features,
        clock=clock,
    )
    return Engine(core, executor, clock)


def native_executor(model_dir: Path, *, blocks: int, dtype: Any) -> Executor:
    """The C++ step over that model; the machine needs a compiler, as for building it."""
    model_config = load_model_config(model_dir)
    kv_bytes = blocks * 16 * model_config.kv_bytes_per_token(2)
    return NativeExecutor(EngineConfig(model_dir, dtype=dtype, kv_bytes=kv_bytes, threads=1), model_config, 512)


class Eager(Controller):
    """Drafts whether it pays or not: as many as there are, or by ``depths`` in turn."""

    def __init__(self, depths: Sequence[int] = (16,)) -> None:
        super().__init__()
        self._wanted = itertools.cycle(depths)

    def choose(self, keys: Sequence[int], depths: Sequence[int], budget: int) -> list[int]:
        plan = []
        for depth in depths:
            plan.append(min(depth, budget, next(self._wanted)))
            budget -= plan[-1]
        return plan


def greedy(count: int) -> SamplingParams:
    return SamplingParams(max_tokens=count, temperature=0.0)
