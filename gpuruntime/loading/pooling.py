"""How a model's embeddings are made, as sentence-transformers writes it beside its weights."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gpuruntime.backend import Pooling
from gpuruntime.models.config import read_json

_MODES: dict[str, Pooling] = {"pooling_mode_lasttoken": "last", "pooling_mode_mean_tokens": "mean"}
_KINDS = ("Transformer", "Pooling", "Normalize")


class _Module(msgspec.Struct):
    type: str = ""
    path: str = ""

    @property
    def kind(self) -> str:
        return self.type.rpartition(".")[2]


def model_pooling(model_dir: Path) -> Pooling | None:
    """None for a recipe that is not covered: other ways of pooling, layers behind it, attention to later tokens.

    A model without a recipe was made for text; the state of its last token has seen the whole prompt. Raises
    ``ValueError`` for files that cannot be read.
    """
    if read_json(model_dir / "config.json").get("use_bidirectional_attention"):
        return None
    listed = model_dir / "modules.json"
    if not listed.is_file():
        return "last"
    try:
        modules = msgspec.json.decode(listed.read_bytes(), type=list[_Module])
    except msgspec.DecodeError as error:
        raise ValueError(f"{listed}: {error}") from error
    pooling = next((module for module in modules if module.kind == "Pooling"), None)
    if pooling is None or any(module.kind not in _KINDS for module in modules):
        return None
    settings = read_json(model_dir / pooling.path / "config.json")
    chosen = [name for name, value in settings.items() if name.startswith("pooling_mode_") and value is True]
    return _MODES.get(chosen[0]) if len(chosen) == 1 else None
