"""Where a runtime's configuration comes from: one JSON document on stdin, or the command line."""

from __future__ import annotations

import argparse
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpuruntime.gguf_header import is_gguf
from gpuruntime.protocol import VERSION, EngineSettings, RuntimeConfig


class SettingsError(ValueError):
    """The configuration cannot be used; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Settings:
    """``standalone``: a person started it, and wants to read where it listens."""

    config: RuntimeConfig
    standalone: bool


def read_settings(argv: list[str]) -> Settings:
    """Raises ``SettingsError``; ``SystemExit`` for ``--help`` and wrong options, as argparse does."""
    args = _parser().parse_args(argv)
    if args.model is not None:
        _refuse_gguf(Path(args.model))
        return Settings(_from_arguments(args), standalone=True)
    if sys.stdin is None or sys.stdin.isatty():
        raise SettingsError("say which model to serve with --model PATH, or give the configuration on stdin")
    return Settings(_from_json(sys.stdin.buffer.read()), standalone=False)


def _refuse_gguf(path: Path) -> None:
    if path.is_file() and is_gguf(path):
        raise SettingsError(
            f"{path} is a GGUF file; convert it once with: python -m gpuruntime.loading.convert {path} DIRECTORY"
        )


def _from_json(data: bytes) -> RuntimeConfig:
    try:
        config = msgspec.json.decode(data, type=RuntimeConfig)
    except msgspec.DecodeError as error:
        raise SettingsError(f"the configuration on stdin is not usable: {error}") from error
    if config.v > VERSION:
        raise SettingsError(f"the configuration has version {config.v}; this runtime knows up to {VERSION}")
    if not config.token:
        raise SettingsError("the configuration has no token: a door is never open to everybody")
    return config


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gpuruntime", description="Serve one language model.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve a model over an OpenAI-compatible endpoint")
    serve.add_argument(
        "--model", metavar="PATH", help="a model directory; without it the configuration is read from stdin"
    )
    serve.add_argument("--name", help="the model's name in requests (default: the directory's name)")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=0, help="0: any free port")
    serve.add_argument("--engine", choices=["native", "vllm"], default="native")
    serve.add_argument("--token", help="the bearer token clients must send (default: a new one, printed)")
    serve.add_argument("--backend", choices=["auto", "cpu", "torch", "triton"], default="auto")
    serve.add_argument("--dtype", choices=["bf16", "fp32", "int8", "fp8"], default="bf16")
    serve.add_argument("--max-model-len", type=int)
    serve.add_argument("--max-num-seqs", type=int, default=64)
    serve.add_argument("--max-num-batched-tokens", type=int, default=512)
    serve.add_argument("--kv-bytes", type=int, default=256 << 20)
    serve.add_argument("--threads", type=int)
    serve.add_argument("--kv-dtype", choices=["auto", "int8", "fp8"], default="auto")
    serve.add_argument("--attention-sinks", type=int, help="with --attention-window: first tokens that all see")
    serve.add_argument("--attention-window", type=int, help="last tokens that each one sees")
    serve.add_argument("--request-timeout", type=float, metavar="S", help="ends a request after so many seconds")
    serve.add_argument("--speculation", choices=["off", "ngram", "draft"], default="off")
    serve.add_argument("--draft-model", metavar="PATH", help="the small model of --speculation draft")
    serve.add_argument("--max-drafts", type=int, default=5)
    serve.add_argument("--engine-process", action=argparse.BooleanOptionalAction, help="default: on a GPU")
    serve.add_argument("--tensor-parallel", type=int, default=1, metavar="N", help="processes that share the model")
    return parser


def _from_arguments(args: argparse.Namespace) -> RuntimeConfig:
    name = args.name or Path(args.model).resolve().name
    return RuntimeConfig(
        replica_id="rep_standalone",
        deployment=name,
        model_path=args.model,
        served_model_name=name,
        token=args.token or secrets.token_urlsafe(24),
        run_file="",
        host=args.host,
        port=args.port,
        engine=EngineSettings(
            engine=args.engine,
            max_model_len=args.max_model_len,
            max_num_seqs=args.max_num_seqs,
            max_num_batched_tokens=args.max_num_batched_tokens,
            kv_bytes=args.kv_bytes,
            dtype=args.dtype,
            threads=args.threads,
            kv_dtype=args.kv_dtype,
            attention_sinks=args.attention_sinks,
            attention_window=args.attention_window,
            request_timeout_s=args.request_timeout,
            speculation=args.speculation,
            draft_model_path=args.draft_model,
            max_drafts=args.max_drafts,
            backend=args.backend,
            tensor_parallel=args.tensor_parallel,
            engine_process=args.engine_process,
        ),
    )
