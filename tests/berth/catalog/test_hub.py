"""Registration from a hub that speaks Hugging Face's API: whole, resumed, stopped, refused early, unreachable."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from berth.catalog import download, files, hub, registration, sources
from berth.catalog.hub import parse_hub
from berth.catalog.models import Model
from berth.catalog.services import cancel_model, delete_model, register_model, retry_model
from berth.core.errors import Conflict, Invalid
from helpers.factories import make_tenant
from helpers.patience import PATIENCE_S
from helpers.stub_hub import COMMIT, StubHub, of_directory
from helpers.tiny_models import tiny_directory

pytestmark = pytest.mark.django_db


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubHub]:
    """A hub with a tiny Llama; BERTH_HOME beside it, and pauses between tries too short to wait for."""
    with StubHub(of_directory(tiny_directory(tmp_path / "tiny"))) as stub:
        use(monkeypatch, home=tmp_path / "home", hub_url=stub.url)
        monkeypatch.setattr(download, "LONGEST_PAUSE_S", 0.01)
        yield stub


def use(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    config = dataclasses.replace(hub.CONFIG, **values)
    for module in (hub, files, sources, registration):
        monkeypatch.setattr(module, "CONFIG", config)


def register(source: str = "acme/tiny", **values: Any) -> Model:
    model = register_model(name="tiny", source_kind="hub", source=source, actor="ann@example.com", **values)
    return run(model)


def run(model: Model) -> Model:
    registration.run(model.id)
    model.refresh_from_db()
    return model


def left_behind() -> list[str]:
    folders = [files.models_directory(), files.downloads_directory() / "hub"]
    return sorted(path.name for folder in folders if folder.exists() for path in folder.iterdir())


def test_a_repository_becomes_a_ready_model(stub: StubHub) -> None:
    stub.files |= {"README.md": b"hello", "pytorch_model.bin": b"\x80", "onnx/model.onnx": b"x", "notes.txt": b"n"}
    stub.about = {"cardData": {"license": "apache-2.0"}}
    model = register()
    assert (model.state, model.reason, model.phase, model.progress) == ("ready", "", "done", 1.0)
    kept = files.path_of(model.digest)
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in kept.iterdir()} == model.files
    assert set(model.files) == {
        "config.json", "generation_config.json", "model.safetensors", "notes.txt", "tokenizer.json",
    }  # fmt: skip
    assert (model.licence, model.source_format, model.requested_by) == (
        "apache-2.0", "safetensors F16", "ann@example.com",
    )  # fmt: skip
    assert model.bytes_done == model.bytes_total == model.size_bytes == sum(map(len, map(stub.files.get, model.files)))  # type: ignore[arg-type]
    assert next(name for name, _ in stub.asked) == "config.json"
    assert left_behind() == [model.digest]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_connection_that_breaks_is_taken_up_where_it_broke(stub: StubHub, ranges: bool) -> None:
    stub.break_at, stub.breaks, stub.ranges = 20_000, 2 if ranges else 1, ranges
    assert register().state == "ready"
    asked = [wanted for name, wanted in stub.asked if name == "model.safetensors"]
    assert asked == (["", "bytes=20000-", "bytes=40000-"] if ranges else ["", "bytes=20000-"])


def test_what_broke_off_for_good_is_kept_for_a_retry(stub: StubHub) -> None:
    stub.break_at, stub.breaks = 0, 99
    stub.files["model.safetensors"] += b""
    model = register()
    assert model.state == "failed"
    assert "cannot be reached" in model.reason
    stub.break_at, stub.breaks = 9_000, 1
    download.TRIES, tries = 1, download.TRIES
    try:
        model = run(retry_model(model=model, actor="test"))
    finally:
        download.TRIES = tries
    assert "broke off at 0 of 0 MiB of model.safetensors; a retry goes on from there" in model.reason
    stub.asked.clear()
    assert run(retry_model(model=model, actor="test")).state == "ready"
    assert stub.asked == [("model.safetensors", "bytes=9000-")]
    with pytest.raises(Conflict, match="nothing to retry"):
        retry_model(model=model, actor="test")


def test_another_content_than_listed_is_refused_and_removed(stub: StubHub) -> None:
    for name in ("model.safetensors", "tokenizer.json"):
        stub.tamper = {name}
        model = register()
        assert model.state == "failed"
        assert f"{name} arrived with another content" in model.reason
        assert not list(download.folder_of(model.id).rglob(f"{name}*"))
        delete_model(model=model, actor="test")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"config.json": b'{"architectures": ["MambaForCausalLM"]}'}, "architecture MambaForCausalLM is not supported"),
        ({"config.json": b'{"architectures": ["LlamaForCausalLM"], "quantization_config": {}}'}, "quantization"),
        ({"config.json": b"["}, "config.json is not valid JSON"),
        ({"tokenizer.json": None}, "acme/tiny has no tokenizer.json"),
        ({"model.safetensors": None}, "holds neither safetensors nor GGUF"),
        ({"model.safetensors": None, "pytorch_model.bin": b"\x80"}, "pickled weights only"),
        ({"model.safetensors": None, "a.gguf": b"1", "b.gguf": b"2"}, "name one as OWNER/NAME:FILE: a.gguf, b.gguf"),
    ],
)
def test_what_cannot_run_is_refused_before_its_weights_are_fetched(
    stub: StubHub, changes: dict[str, bytes | None], reason: str
) -> None:
    for name, data in changes.items():
        stub.files.pop(name, None)
        if data is not None:
            stub.files[name] = data
    model = register()
    assert model.state == "failed"
    assert reason in model.reason
    assert not [name for name, _ in stub.asked if name.endswith((".safetensors", ".gguf"))]


def test_statuses_are_told_in_words(stub: StubHub) -> None:
    for status, words in ((401, "private or gated"), (404, "has no model acme/tiny"), (418, "answered 418")):
        stub.status = status
        model = register()
        assert (model.state, words in model.reason) == ("failed", True), model.reason
        delete_model(model=model, actor="test")
    stub.status = 200
    assert "has no model acme/tiny at v2" in register("acme/tiny@v2").reason


def test_a_revision_and_one_gguf_of_many_can_be_named(stub: StubHub) -> None:
    listing = hub.list_files(parse_hub("acme/tiny@v1"))
    assert (listing.commit, listing.is_gguf) == (COMMIT, False)
    stub.files |= {"a.gguf": b"1", "b.gguf": b"22"}
    (file,) = hub.list_files(parse_hub("acme/tiny:b.gguf")).files
    assert (file.name, file.size, file.sha256) == ("b.gguf", 2, hashlib.sha256(b"22").hexdigest())


def test_a_hub_out_of_reach_is_one_clear_error(stub: StubHub, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, hub_url="http://127.0.0.1:9")
    model = register()
    assert model.reason == (
        "The model hub http://127.0.0.1:9 cannot be reached (Connection refused). Try again later, set BERTH_HUB_URL "
        "to a mirror, or register the model from a directory or a package"
    )
    use(monkeypatch, hub_url="")
    with pytest.raises(Invalid, match="BERTH_HUB_URL is empty"):
        register_model(name="other", source_kind="hub", source="acme/tiny", actor="test")


@pytest.mark.parametrize("source", ["tiny", "a/b/c", "../b", "a/..", "a/b@..", "http://a/b", "a/b:c.bin", "a/b\0", ""])
def test_what_is_no_id_is_refused_at_once(source: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_hub(source)
    assert refused.value.field == "source"


def test_the_token_of_a_gated_model_is_sent(stub: StubHub) -> None:
    folder = hub.CONFIG.home / "secrets"
    folder.mkdir(parents=True)
    (folder / "hub_token").write_text("hf_secret\n")
    assert register().state == "ready"
    assert set(stub.tokens) == {"Bearer hf_secret"}


@pytest.mark.django_db(transaction=True)
def test_cancel_stops_what_runs_and_leaves_nothing(stub: StubHub) -> None:
    stub.trickle_s = 0.2
    model = register_model(name="tiny", source_kind="hub", source="acme/tiny", actor="test")
    worker = threading.Thread(target=lambda: (registration.run(model.id), connection.close()))
    worker.start()
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        model.refresh_from_db()
        if model.phase == "fetching" and model.bytes_done:
            break
        time.sleep(0.05)
    assert (model.state, model.phase) == ("registering", "fetching")
    assert 0 < model.bytes_done < model.bytes_total == sum(map(len, stub.files.values()))
    assert model.bytes_per_s > 0
    cancel_model(model=model, actor="ann@example.com")
    worker.join(PATIENCE_S)
    assert not worker.is_alive()
    model.refresh_from_db()
    assert (model.state, model.reason, left_behind()) == ("cancelled", "Cancelled by ann@example.com", [])
    cancel_model(model=model, actor="test")
    stub.trickle_s = 0.0
    assert run(retry_model(model=model, actor="test")).state == "ready"
    with pytest.raises(Conflict, match="nothing to cancel"):
        cancel_model(model=model, actor="test")


def test_tenants_register_of_the_hub_only_and_within_bounds(stub: StubHub, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = make_tenant()
    with pytest.raises(Invalid, match="of the hub") as refused:
        register_model(name="x", source_kind="package", source="package:p==1/x", actor="test", tenant=tenant)
    assert refused.value.field == "source_kind"
    model = register(tenant=tenant)
    assert (model.state, model.tenant_id) == ("ready", tenant.id)
    assert register(tenant=make_tenant()).digest == model.digest  # another tenant's name is its own affair
    use(monkeypatch, tenant_model_bytes=model.size_bytes + 1)
    second = register_model(name="second", source_kind="hub", source="acme/tiny", actor="test", tenant=tenant)
    assert "your models may take 0 MiB together" in run(second).reason
    register_model(name="public", source_kind="hub", source="acme/tiny", actor="test")
    with pytest.raises(Conflict, match="exists"):
        register_model(name="public", source_kind="hub", source="acme/tiny", actor="test", tenant=tenant)


def test_as_many_at_once_as_there_are_slots(stub: StubHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "SLOTS", ())
    model = register()
    assert (model.state, model.phase) == ("registering", "queued")
    monkeypatch.setattr(registration, "SLOTS", ("registering:0",))
    assert run(model).state == "ready"
