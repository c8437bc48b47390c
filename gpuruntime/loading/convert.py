"""GGUF to a Hugging Face directory, once, at registration: ``python -m gpuruntime.loading.convert SRC.gguf OUTDIR``.

A runtime then starts from bf16 safetensors and a tokenizer.json in seconds and never imports transformers. The
directory appears whole or not at all. Errors are one line on stderr and exit status 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from gpuruntime.models.config import load_model_config, read_json

GGUF_ARCHITECTURES = ("llama",)

# What the authors recommend where the file itself does not say (model cards of the families, by general.basename).
KNOWN_SAMPLING: dict[str, dict[str, float]] = {"smollm2": {"temperature": 0.2, "top_p": 0.9}}
_SAMPLING_KEYS = {"temperature": "general.sampling.temp", "top_p": "general.sampling.top_p"}
_LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class CorruptFile(ValueError):
    """The source is no whole GGUF file."""


def convert(source: Path, target: Path) -> None:
    """Writes ``target``: model.safetensors in bf16, config.json, tokenizer.json, chat template, generation_config.json.

    Raises ``ValueError`` for a truncated, corrupt or unsupported source and when ``target`` exists; ``OSError`` for a
    full disk. Needs about three times the source's size of memory.
    """
    if target.exists():
        raise ValueError(f"{target}: already exists")
    fields = read_fields(source)
    architecture = fields.get("general.architecture")
    if architecture not in GGUF_ARCHITECTURES:
        supported = ", ".join(GGUF_ARCHITECTURES)
        raise ValueError(f"{source}: GGUF architecture {architecture} is not supported; supported: {supported}")
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        _write(source, work, fields)
        load_model_config(work)
        _publish(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def read_fields(source: Path) -> dict[str, Any]:
    """Metadata of a GGUF file whose every tensor lies within it; arrays of tokens are left out."""
    from gguf import GGUFReader

    if not source.is_file():
        raise ValueError(f"{source}: no such file")
    try:
        reader = GGUFReader(source)
        ends = [int(tensor.data_offset) + int(tensor.n_bytes) for tensor in reader.tensors]
        fields = {name: f.contents() for name, f in reader.fields.items() if len(f.data) == 1}
    except Exception as error:  # the reader checks nothing: a bad file ends in whatever numpy raises
        raise CorruptFile(f"{source}: truncated or corrupt GGUF file: {type(error).__name__}: {error}") from error
    size = source.stat().st_size
    if not ends or max(ends) > size:
        raise CorruptFile(f"{source}: truncated GGUF file: {size} bytes, its tensors end at {max(ends, default=0)}")
    return fields


def sampling_defaults(fields: dict[str, Any]) -> dict[str, float]:
    """The model's own sampling: from the file's ``general.sampling.*``, else from the table of known families."""
    stored = {name: float(fields[key]) for name, key in _SAMPLING_KEYS.items() if key in fields}
    return stored or KNOWN_SAMPLING.get(str(fields.get("general.basename", "")).lower(), {})


def _write(source: Path, work: Path, fields: dict[str, Any]) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
        model = AutoModelForCausalLM.from_pretrained(
            source.parent,
            gguf_file=source.name,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
        )
    except OSError:
        raise
    except Exception as error:  # whatever transformers raises on a file it cannot follow
        raise ValueError(f"{source}: cannot be converted: {type(error).__name__}: {error}") from error
    model.config.__dict__.pop("quantization_config", None)
    model.save_pretrained(work)
    tokenizer.save_pretrained(work)
    _fix_pre_tokenizer(work / "tokenizer.json", str(fields.get("tokenizer.ggml.pre", "")))
    _merge_json(work / "generation_config.json", sampling_defaults(fields))


def _fix_pre_tokenizer(path: Path, kind: str) -> None:
    """transformers ignores ``tokenizer.ggml.pre`` and splits as GPT-2 does; these families split otherwise."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    split = {"type": "Split", "pattern": {"Regex": _LLAMA3_SPLIT}, "behavior": "Isolated", "invert": False}
    stages = {
        "smollm": [{"type": "Digits", "individual_digits": True}, byte_level],
        "llama-bpe": [split, {**byte_level, "use_regex": False}],
    }
    if kind not in stages:
        return
    tokenizer = read_json(path)
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": stages[kind]}
    path.write_text(json.dumps(tokenizer, ensure_ascii=False), "utf-8")


def _merge_json(path: Path, values: dict[str, float]) -> None:
    stored = read_json(path) if path.is_file() else {}
    if values:
        stored |= {"do_sample": True, **values}
    path.write_text(json.dumps(stored, indent=2) + "\n", "utf-8")


def _publish(work: Path, target: Path) -> None:
    """Makes the directory appear in one step, readable by the runtimes' user."""
    for path in work.iterdir():
        path.chmod(0o644)
        with path.open("rb") as file:
            os.fsync(file.fileno())
    work.chmod(0o755)
    try:
        work.rename(target)
    except OSError:
        # Another conversion of the same file was quicker; its result is the same.
        if not (target / "config.json").is_file():
            raise


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gpuruntime.loading.convert", description=__doc__)
    parser.add_argument("source", type=Path, help="a GGUF file")
    parser.add_argument("target", type=Path, help="the directory to create")
    arguments = parser.parse_args(argv)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            convert(arguments.source, arguments.target)
    except (ValueError, OSError, MemoryError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{arguments.target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
