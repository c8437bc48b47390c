"""Which backend runs which model with which settings on which machine: one table, asked once at the start.

``docs/engine.md`` shows it, made by ``table``. No torch: the machine is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpuruntime.engine.config import EngineConfig
from gpuruntime.modelinfo import SUPPORTED_ARCHITECTURES
from gpuruntime.models.config import ModelConfig

BACKENDS = ("cpu", "torch", "triton")


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a replica starts. gpu: the compute capability of its GPU or slice, 90 for sm_90; None without one.

    interpreted: whether Triton's kernels run in its interpreter, on the CPU.
    """

    gpu: int | None = None
    interpreted: bool = False

    def __str__(self) -> str:
        if self.gpu is not None:
            return f"sm_{self.gpu}"
        return "the interpreter" if self.interpreted else "no GPU"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a start asks for."""

    config: EngineConfig
    model: ModelConfig
    machine: Machine


@dataclass(frozen=True, slots=True)
class Rule:
    """What a backend covers of one feature; ``says`` stands in the table."""

    says: str
    covers: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Feature:
    """``asked`` gives what a start asks of it, None where it asks nothing. rules: of each backend, in their order."""

    name: str
    asked: Callable[[Asked], Any]
    rules: tuple[Rule, Rule, Rule]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A backend does not cover ``value`` of a feature, of which it covers what ``covered`` says."""

    backend: str
    feature: str
    value: Any
    covered: str
    others: tuple[str, ...]

    def __str__(self) -> str:
        would = f"{' and '.join(self.others)} would" if self.others else "no backend would"
        named = self.feature if self.value is True else f"{self.feature} {self.value}"
        covered = "" if self.covered == NO.says else f" (it covers: {self.covered})"
        return f"backend {self.backend} does not cover {named}{covered}; {would}"


YES = Rule("yes", lambda value: True)
ANY = Rule("any", lambda value: True)
NO = Rule("no", lambda value: False)


def one_of(*values: str) -> Rule:
    return Rule(", ".join(values), lambda value: value in values)


def multiples(step: int, most: int | None = None) -> Rule:
    bound = "" if most is None else f" up to {most}"
    return Rule(f"multiples of {step}{bound}", lambda value: value % step == 0 and (most is None or value <= most))


def up_to(most: int) -> Rule:
    return Rule(f"up to {most}", lambda value: value <= most)


def _gpu_from(oldest: int, *, interpreter: bool) -> Rule:
    says = f"GPUs from sm_{oldest}{', the interpreter' if interpreter else ''}"

    def covers(machine: Machine) -> bool:
        return machine.gpu >= oldest if machine.gpu is not None else interpreter and machine.interpreted

    return Rule(says, covers)


_CPU_ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_ALL_ARCHITECTURES = Rule("all", lambda value: value in SUPPORTED_ARCHITECTURES)


def _fp8(asked: Asked) -> Machine | None:
    return asked.machine if "fp8" in (asked.config.dtype, asked.config.kv_dtype) else None


def _if(holds: bool) -> bool | None:
    return holds or None


FEATURES: Sequence[Feature] = (
    Feature("device", lambda asked: asked.machine, (ANY, ANY, _gpu_from(80, interpreter=True))),
    Feature(
        "architecture",
        lambda asked: asked.model.architecture,
        (one_of(*_CPU_ARCHITECTURES), _ALL_ARCHITECTURES, _ALL_ARCHITECTURES),
    ),
    Feature(
        "dtype",
        lambda asked: asked.config.dtype,
        (one_of("bf16", "int8"), one_of("bf16", "fp32", "int8"), one_of("bf16", "fp32", "int8", "fp8")),
    ),
    Feature(
        "kv_dtype",
        lambda asked: asked.config.kv_dtype,
        (one_of("auto", "int8"), one_of("auto", "int8"), one_of("auto", "int8", "fp8")),
    ),
    Feature(
        "dtype bf16 on",
        lambda asked: asked.machine if asked.config.dtype == "bf16" else None,
        (ANY, ANY, _gpu_from(80, interpreter=False)),
    ),
    Feature("fp8 on", _fp8, (NO, NO, _gpu_from(89, interpreter=True))),
    Feature("head_dim", lambda asked: asked.model.head_dim, (multiples(32, 1024), ANY, multiples(16, 256))),
    Feature("hidden_size", lambda asked: asked.model.hidden_size, (multiples(32), ANY, up_to(32768))),
    Feature("intermediate_size", lambda asked: asked.model.intermediate_size, (multiples(32), ANY, ANY)),
    Feature("sliding windows", lambda asked: _if(any(asked.model.sliding_windows)), (YES, YES, YES)),
    Feature("attention_sinks", lambda asked: asked.config.attention_sinks, (NO, YES, YES)),
    Feature(
        "attention_window beside sliding windows of the model's own",
        lambda asked: _if(asked.config.attention_window is not None and any(asked.model.sliding_windows)),
        (NO, NO, NO),
    ),
    Feature(
        "attention_window beside rope scaling dynamic, which depends on max_model_len",
        lambda asked: _if(asked.config.attention_window is not None and asked.model.rope.kind == "dynamic"),
        (NO, NO, NO),
    ),
    Feature(
        "speculation",
        lambda asked: asked.config.speculation if asked.config.speculation != "off" else None,
        (one_of("ngram", "draft"), one_of("ngram", "draft"), one_of("ngram", "draft")),
    ),
    Feature(
        "tensor_parallel",
        lambda asked: asked.config.tensor_parallel if asked.config.tensor_parallel > 1 else None,
        (NO, YES, YES),
    ),
    Feature(
        "kv_bytes measured on",
        lambda asked: asked.machine if asked.config.kv_bytes == 0 else None,
        (NO, NO, _gpu_from(80, interpreter=False)),
    ),
)


def refusals(asked: Asked, backend: str) -> list[Refusal]:
    """Everything that the backend does not cover; empty when it runs the model."""
    return list(_refusals(asked, BACKENDS.index(backend)))


def _refusals(asked: Asked, index: int) -> Iterator[Refusal]:
    for feature in FEATURES:
        value = feature.asked(asked)
        if value is None or feature.rules[index].covers(value):
            continue
        others = tuple(name for name, rule in zip(BACKENDS, feature.rules, strict=True) if rule.covers(value))
        yield Refusal(BACKENDS[index], feature.name, value, feature.rules[index].says, others)


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend that serves, and why not a better one; nothing where it was asked for by name."""

    backend: str
    passed_over: tuple[Refusal, ...] = ()


def choose(asked: Asked) -> Choice:
    """The backend that the settings name, or the best one that covers what they ask.

    Best is Triton where there is a GPU, then the C++ step, then PyTorch. Raises ``ValueError`` that names backend,
    feature and who would cover it.
    """
    named = asked.config.backend
    if named != "auto":
        if found := refusals(asked, named):
            raise ValueError("; ".join(map(str, found)))
        return Choice(named)
    passed_over: list[Refusal] = []
    for backend in ("triton", "cpu", "torch") if asked.machine.gpu is not None else ("cpu", "torch"):
        found = refusals(asked, backend)
        if not found:
            return Choice(backend, tuple(passed_over))
        passed_over += found
    raise ValueError("; ".join(map(str, passed_over)))


def table() -> str:
    """Markdown: a row a feature, a column a backend."""
    head = ["feature", *(f"`{name}`" for name in BACKENDS)]
    rows = [[feature.name, *(rule.says for rule in feature.rules)] for feature in FEATURES]
    lines: list[Sequence[str]] = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
