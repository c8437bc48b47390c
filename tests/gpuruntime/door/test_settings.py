"""What reaches the engine from the command line and from an older agent's message."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest

from gpuruntime.door.backends import make_backend
from gpuruntime.door.settings import read_settings
from gpuruntime.engine.backend import NativeBackend
from gpuruntime.engine.config import EngineConfig
from gpuruntime.protocol import EngineSettings, RuntimeConfig
from helpers.tiny_llama import write_tiny_llama


async def test_options_reach_the_engine(tmp_path: Path) -> None:
    options = {
        "--dtype": "int8",
        "--kv-dtype": "int8",
        "--attention-sinks": "4",
        "--attention-window": "256",
        "--request-timeout": "90",
        "--speculation": "draft",
        "--draft-model": str(tmp_path),
        "--max-drafts": "3",
        "--tensor-parallel": "2",
        "--backend": "torch",
    }
    arguments = [part for option in options.items() for part in option]
    settings = read_settings(["serve", "--model", str(tmp_path), *arguments])
    backend = await make_backend(settings.config)
    assert isinstance(backend, NativeBackend)
    config = backend._config
    assert (config.dtype, config.kv_dtype, config.attention_sinks, config.attention_window) == ("int8", "int8", 4, 256)
    assert (config.request_timeout_s, config.speculation, config.max_drafts) == (90.0, "draft", 3)
    assert (config.draft_model_path, config.tensor_parallel, config.backend) == (tmp_path, 2, "torch")


def test_a_message_of_an_older_agent_leaves_the_engines_defaults() -> None:
    old = {
        "replica_id": "rep_1",
        "deployment": "d",
        "model_path": "/m",
        "served_model_name": "d",
        "token": "t",
        "run_file": "/r",
        "engine": {"dtype": "bf16", "kv_bytes": 1 << 20, "max_num_seqs": 4},
    }
    config = msgspec.json.decode(json.dumps(old), type=RuntimeConfig)
    assert config.engine == EngineSettings(kv_bytes=1 << 20, max_num_seqs=4)


def test_the_wire_and_the_engine_agree_on_defaults() -> None:
    wire = EngineSettings()
    own = {field.name: field.default for field in fields(EngineConfig)}
    shared = (
        "backend",
        "kv_dtype",
        "attention_sinks",
        "attention_window",
        "request_timeout_s",
        "speculation",
        "max_drafts",
        "tensor_parallel",
    )
    assert {name: getattr(wire, name) for name in shared} == {name: own[name] for name in shared}


async def test_an_engine_that_would_outgrow_its_slice_is_not_started(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path)
    kv_bytes = 64 << 20
    config = RuntimeConfig(
        replica_id="rep_1",
        deployment="d",
        model_path=str(tmp_path),
        served_model_name="d",
        token="t",
        run_file="/r",
        device_memory_bytes=kv_bytes,
        engine=EngineSettings(dtype="fp32", kv_bytes=kv_bytes),
    )
    with pytest.raises(ValueError, match="and its slice has 64 MiB"):
        await make_backend(config)
    config.device_memory_bytes = 1 << 30
    await make_backend(config)
