"""Registration, from real small files to ready ones or to a reason with nothing left behind."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from berth.catalog import files, registration, sources
from berth.catalog.header import info_of
from berth.catalog.models import Model
from berth.catalog.services import delete_model, register_model, register_model_now
from berth.catalog.tasks import register, resume
from berth.core import leases
from berth.core.errors import Conflict, Invalid
from gpuruntime.modelinfo import read_model
from helpers.factories import make_deployment
from helpers.tiny_models import parameters_of, tiny_directory

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one allowed root; BERTH_HOME of these tests lies beside it."""
    root, home = tmp_path / "root", tmp_path / "home"
    root.mkdir()
    config = dataclasses.replace(sources.CONFIG, model_roots=str(root), home=home)
    monkeypatch.setattr(sources, "CONFIG", config)
    monkeypatch.setattr(files, "CONFIG", config)
    return root


def register_now(path: Path, name: str = "tiny", kind: str = "directory") -> Model:
    return register_model_now(name=name, source_kind=kind, source=str(path), actor="test")


def left_behind() -> list[str]:
    return sorted(path.name for path in files.models_directory().iterdir())


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_directory_becomes_a_ready_model(root: Path) -> None:
    source = tiny_directory(root / "tiny")
    (source / "notes.md").write_text("not part of the model")
    model = register_now(source)

    assert (model.state, model.reason, model.progress) == ("ready", "", 1.0)
    expected = {name: sha(source / name) for name in ("config.json", "generation_config.json", "model.safetensors")}
    assert model.files == {**expected, "tokenizer.json": sha(source / "tokenizer.json")}
    lines = "".join(f"{name}\0{model.files[name]}\n" for name in sorted(model.files))
    assert model.digest == hashlib.sha256(lines.encode()).hexdigest()
    kept = files.path_of(model.digest)
    assert {path.name: sha(path) for path in kept.iterdir()} == model.files
    assert left_behind() == [model.digest]

    assert model.parameters == parameters_of(source)
    # Two bytes each; the tied head of 128 tokens by 32 is a packed copy of its own.
    assert model.weights_bytes == 2 * (model.parameters + 128 * 32)
    # keys and values, two layers, two heads of eight numbers of two bytes
    assert model.kv_bytes_per_token == 2 * 2 * 2 * 8 * 2
    assert (model.architecture, model.context_length) == ("LlamaForCausalLM", 256)
    assert model.source_format == "safetensors F16"
    assert model.default_sampling == {"temperature": 0.6, "top_p": 0.95}  # top_k -3 is no setting
    assert info_of(model.header) == read_model(source)


def test_the_kept_files_do_not_follow_the_source(root: Path) -> None:
    source = tiny_directory(root / "tiny")
    model = register_now(source)
    with (source / "model.safetensors").open("r+b") as file:
        file.seek(-4, 2)
        file.write(b"\0\0\0\0")
    assert sha(files.path_of(model.digest) / "model.safetensors") == model.files["model.safetensors"]


def test_models_of_the_same_files_share_one_digest(root: Path) -> None:
    one = register_now(tiny_directory(root / "one"), "one")
    two = register_now(tiny_directory(root / "two"), "two")
    other = register_now(tiny_directory(root / "three", seed=1), "three")
    assert one.digest == two.digest != other.digest
    assert left_behind() == sorted({one.digest, other.digest})


@pytest.mark.django_db(transaction=True)
def test_deleting_keeps_shared_files_until_the_last_and_refuses_what_is_deployed(root: Path) -> None:
    one = register_now(tiny_directory(root / "one"), "one")
    two = register_now(tiny_directory(root / "two"), "two")
    deployment = make_deployment(model=one, max_model_len=64, default_max_tokens=16)
    with pytest.raises(Conflict, match="deployed"):
        delete_model(model=one, actor="test")
    delete_model(model=two, actor="test")
    assert left_behind() == [one.digest]
    deployment.delete()
    delete_model(model=one, actor="test")
    assert left_behind() == []


def cut(source: Path) -> None:
    whole = (source / "model.safetensors").read_bytes()
    (source / "model.safetensors").write_bytes(whole[: len(whole) // 2])


def scramble(source: Path) -> None:
    whole = bytearray((source / "model.safetensors").read_bytes())
    whole[8:40] = b"x" * 32
    (source / "model.safetensors").write_bytes(whole)


def foreign(source: Path) -> None:
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "architectures": ["MambaForCausalLM"]}))


def quantized(source: Path) -> None:
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "awq"}}))


DAMAGE: list[tuple[Callable[[Path], Any], str]] = [
    (cut, "model.safetensors is cut short: its tensors need"),
    (scramble, "model.safetensors has a corrupt header"),
    (foreign, "architecture MambaForCausalLM is not supported; supported: LlamaForCausalLM"),
    (quantized, "quantization awq is not supported"),
    (lambda source: (source / "model.safetensors").unlink(), "holds no safetensors file"),
    (lambda source: (source / "config.json").unlink(), "has no config.json"),
    (lambda source: (source / "config.json").write_text("{"), "config.json is not valid JSON"),
    (lambda source: (source / "tokenizer.json").unlink(), "has no tokenizer.json"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGE)
def test_what_cannot_run_is_refused_by_name_and_leaves_nothing(
    root: Path, damage: Callable[[Path], Any], reason: str
) -> None:
    source = tiny_directory(root / "tiny")
    damage(source)
    model = register_now(source)
    assert model.state == "failed"
    assert reason in model.reason
    assert (model.digest, model.files, left_behind()) == ("", {}, [])
    delete_model(model=model, actor="test")
    assert register_now(tiny_directory(root / "whole")).state == "ready"


def test_gguf_files_that_are_none_or_foreign(root: Path) -> None:
    from gguf import GGUFWriter

    noise = root / "noise.gguf"
    noise.write_bytes(b"GGUF" + bytes(range(200)))
    assert register_now(noise, "noise", "gguf").state == "failed"
    (root / "text.gguf").write_text("hello")
    assert "neither a GGUF file" in register_now(root / "text.gguf", "text", "gguf").reason

    import numpy as np

    writer = GGUFWriter(root / "bert.gguf", "bert")
    for add in (writer.add_head_count, writer.add_block_count, writer.add_embedding_length, writer.add_context_length):
        add(4)
    writer.add_vocab_size(4)
    writer.add_tensor("token_embd.weight", np.zeros((4, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert "architecture bert is not supported" in register_now(root / "bert.gguf", "bert", "gguf").reason
    assert left_behind() == []


def test_a_conversion_that_breaks_says_why(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_model(tiny_directory(root / "tiny"))
    monkeypatch.setattr(registration, "read_model", lambda path: dataclasses.replace(whole, format="gguf"))
    source = root / "broken.gguf"
    source.write_bytes(b"GGUF\3\0\0\0")
    model = register_now(source, "broken", "gguf")
    assert model.state == "failed"
    assert model.reason.startswith("conversion failed: ")
    assert "truncated or corrupt GGUF file" in model.reason
    assert str(root) not in model.reason
    assert left_behind() == []


def test_paths_must_lie_below_an_allowed_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tiny_directory(root.parent / "outside")
    (root / "link").symlink_to(outside)
    for path in (outside, root / "link", root / ".." / "outside", Path("/"), Path("relative")):
        with pytest.raises(Invalid, match="not below an allowed root") as refused:
            register_now(path)
        assert refused.value.field == "source"
    with pytest.raises(Invalid, match="no directory"):
        register_now(root / "absent")
    with pytest.raises(Invalid, match="no file"):
        register_now(tiny_directory(root / "tiny"), kind="gguf")
    monkeypatch.setattr(sources, "CONFIG", dataclasses.replace(sources.CONFIG, model_roots=""))
    with pytest.raises(Invalid, match="BERTH_MODEL_ROOTS"):
        register_now(root / "tiny")
    assert not Model.objects.exists()


def test_a_link_that_leaves_the_root_between_the_two_looks_is_refused(root: Path) -> None:
    source = tiny_directory(root / "tiny")
    model = register_model(name="tiny", source_kind="directory", source=str(source), actor="test")
    shutil.rmtree(source)
    source.symlink_to(tiny_directory(root.parent / "outside"))
    register(model.id)
    model.refresh_from_db()
    assert model.state == "failed"
    assert "not below an allowed root" in model.reason


def test_a_name_is_taken_once(root: Path) -> None:
    source = tiny_directory(root / "tiny")
    register_now(source)
    with pytest.raises(Conflict, match="'tiny' exists"):
        register_now(source)


def test_a_full_disk_is_refused_with_the_figures(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tiny_directory(root / "tiny")
    usage = shutil.disk_usage(root)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100 << 20))
    model = register_now(source)
    assert model.state == "failed"
    assert "has 100 MiB free; the model takes 1 MiB and 256 MiB stay free" in model.reason
    assert left_behind() == []


def test_a_disk_that_fills_up_on_the_way(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def onto_a_full_device(source: Path, names: Any, target: Path, progress: Any) -> dict[str, str]:
        target.mkdir()
        for name in names:
            (target / name).symlink_to("/dev/full")
            with (target / name).open("wb") as copy:
                copy.write((source / name).read_bytes())
        return {}

    monkeypatch.setattr(files, "copy_files", onto_a_full_device)
    model = register_now(tiny_directory(root / "tiny"))
    assert (model.state, left_behind()) == ("failed", [])
    assert "filled up" in model.reason


def test_a_task_may_come_twice_and_two_workers_do_it_once(root: Path) -> None:
    source = tiny_directory(root / "tiny")
    model = register_model(name="tiny", source_kind="directory", source=str(source), actor="test")
    assert leases.take(f"register:{model.id}", "another worker", 30)
    register(model.id)
    model.refresh_from_db()
    assert model.state == "registering"
    leases.give_back(f"register:{model.id}", "another worker")
    for _ in range(2):
        register(model.id)
        model.refresh_from_db()
        assert model.state == "ready"
    shutil.rmtree(source)
    register(model.id)
    register("mdl_gone")
    model.refresh_from_db()
    assert model.state == "ready"


def test_what_a_killed_worker_left_is_cleared(root: Path) -> None:
    source = tiny_directory(root / "tiny")
    model = register_model(name="tiny", source_kind="directory", source=str(source), actor="test")
    half = files.models_directory() / f".registering-{model.id}" / "model"
    half.mkdir(parents=True)
    (half / "model.safetensors").write_bytes(b"half")
    resume()
    model.refresh_from_db()
    assert left_behind() == [model.digest]
