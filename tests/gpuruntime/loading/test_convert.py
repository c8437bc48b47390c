"""GGUF conversion: what comes out, and that nothing does when it cannot be whole."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from gpuruntime.loading.convert import CorruptFile, convert, main, read_header, sampling_defaults
from gpuruntime.models.config import load_model_config
from helpers.model import smollm2_dir, smollm2_gguf  # noqa: F401 - fixtures


def test_the_converted_model_is_complete(smollm2_dir: Path) -> None:  # noqa: F811
    config = load_model_config(smollm2_dir)
    assert (config.num_layers, config.hidden_size, config.num_kv_heads, config.vocab_size) == (30, 576, 3, 49152)
    generation = json.loads((smollm2_dir / "generation_config.json").read_text())
    assert (generation["temperature"], generation["top_p"], generation["eos_token_id"]) == (0.2, 0.9, 2)
    assert "<|im_start|>" in (smollm2_dir / "chat_template.jinja").read_text()
    stages = json.loads((smollm2_dir / "tokenizer.json").read_text())["pre_tokenizer"]["pretokenizers"]
    assert [stage["type"] for stage in stages] == ["Digits", "ByteLevel"]
    assert (smollm2_dir / "model.safetensors").stat().st_mode & 0o444 == 0o444


@pytest.mark.parametrize("size", [0, 3, 100, 1_000_000, 50_000_000])
def test_a_truncated_file_leaves_nothing_behind(
    smollm2_gguf: Path,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    size: int,
) -> None:
    source = tmp_path / "cut.gguf"
    with smollm2_gguf.open("rb") as file:
        source.write_bytes(file.read(size))
    assert main([str(source), str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert "truncated" in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cut.gguf"]


def test_other_files_and_architectures_are_refused(tmp_path: Path) -> None:
    from gguf import GGUFWriter

    source = tmp_path / "noise.gguf"
    source.write_bytes(b"GGUF" + struct.pack("<I", 3) + bytes(range(256)) * 40)
    with pytest.raises(CorruptFile):
        read_header(source)
    with pytest.raises(ValueError, match="no such file"):
        convert(tmp_path / "absent.gguf", tmp_path / "out")

    import numpy as np

    writer = GGUFWriter(tmp_path / "bert.gguf", "bert")
    writer.add_tensor("token_embd.weight", np.zeros((4, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ValueError, match="GGUF architecture bert is not supported; supported: llama"):
        convert(tmp_path / "bert.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_existing_target_is_not_touched(smollm2_gguf: Path, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match="already exists"):
        convert(smollm2_gguf, tmp_path / "out")


def test_sampling_from_the_file_wins_over_the_table() -> None:
    assert sampling_defaults({"general.basename": "SmolLM2"}) == {"temperature": 0.2, "top_p": 0.9}
    stored = {"general.basename": "smollm2", "general.sampling.temp": 0.6}
    assert sampling_defaults(stored) == {"temperature": 0.6}
    assert sampling_defaults({"general.basename": "other"}) == {}
