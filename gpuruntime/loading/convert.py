"""GGUF to a Hugging Face directory, once, at registration: ``python -m gpuruntime.loading.convert SRC.gguf OUTDIR``.

A runtime then starts from safetensors and a tokenizer.json in seconds. The directory appears whole or not at all;
errors are one line on stderr and exit status 1.
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

from gpuruntime.gguf_header import GgufError, GgufHeader, read_gguf_header
from gpuruntime.loading.gguf_config import build_config
from gpuruntime.loading.gguf_tensors import read_rope_factors, write_tensors
from gpuruntime.loading.gguf_tokenizer import build_tokenizer, end_token_ids, special_tokens
from gpuruntime.models.config import load_model_config

# What the authors recommend where the file itself does not say (model cards of the families, by general.basename).
KNOWN_SAMPLING: dict[str, dict[str, float]] = {"smollm2": {"temperature": 0.2, "top_p": 0.9}}
_SAMPLING_KEYS = {"temperature": "general.sampling.temp", "top_p": "general.sampling.top_p"}


class CorruptFile(ValueError):
    """The source is no whole GGUF file."""


def convert(source: Path, target: Path) -> None:
    """Writes ``target``: model.safetensors, config.json, tokenizer.json, chat template, generation_config.json.

    Raises ``ValueError`` for a truncated, corrupt or unsupported source and when ``target`` exists; ``OSError`` for a
    full disk. Takes some 100 MB of memory whatever the model's size, its vocabulary aside.
    """
    if target.exists():
        raise ValueError(f"{target}: already exists")
    header = read_header(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        try:
            _write(source, header, work)
            load_model_config(work)
        except ValueError as error:
            raise ValueError(f"{source}: cannot be converted: {error}") from error
        _publish(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def read_header(source: Path) -> GgufHeader:
    """The header with its arrays. Raises ``CorruptFile`` unless every tensor lies within the file."""
    if not source.is_file():
        raise ValueError(f"{source}: no such file")
    try:
        return read_gguf_header(source, arrays=True)
    except GgufError as error:
        raise CorruptFile(f"{source}: truncated or corrupt GGUF file: {error}") from error


def sampling_defaults(fields: dict[str, Any]) -> dict[str, float]:
    """The model's own sampling: from the file's ``general.sampling.*``, else from the table of known families."""
    stored = {name: float(fields[key]) for name, key in _SAMPLING_KEYS.items() if key in fields}
    return stored or KNOWN_SAMPLING.get(str(fields.get("general.basename", "")).lower(), {})


def _write(source: Path, header: GgufHeader, work: Path) -> None:
    config = build_config(header, read_rope_factors(source, header))
    build_tokenizer(header).save(str(work / "tokenizer.json"))
    special, ends = special_tokens(header), end_token_ids(header)
    _write_json(work / "config.json", config)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **special}
    _write_json(work / "tokenizer_config.json", settings)
    generation: dict[str, Any] = {"bos_token_id": config["bos_token_id"]} if "bos_token_id" in config else {}
    if ends:
        generation["eos_token_id"] = ends[0] if len(ends) == 1 else ends
    if sampling := sampling_defaults(header.metadata):
        generation |= {"do_sample": True, **sampling}
    _write_json(work / "generation_config.json", generation)
    template = header.metadata.get("tokenizer.chat_template")
    if isinstance(template, str):
        (work / "chat_template.jinja").write_text(template, "utf-8")
    write_tensors(source, header, config, work / "model.safetensors")


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


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
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{arguments.target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
