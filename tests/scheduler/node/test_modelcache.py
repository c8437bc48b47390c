"""The cache against a real HTTP server that breaks, lies and resumes."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiohttp import web

from scheduler.node import modelcache
from scheduler.node.modelcache import ModelCache, ModelError

FILES = {"config.json": b'{"a": 1}', "model.safetensors": os.urandom(9 << 20)}
SIZE = sum(len(data) for data in FILES.values())
HASHES = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}


class Source:
    """``cut``: how many bytes of the next answers to send before the connection breaks."""

    def __init__(self) -> None:
        self.files = dict(FILES)
        self.cut: list[int] = []
        self.requests: list[tuple[str, str]] = []
        self.authorized = True
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.match_info["name"], request.headers.get("Range", "")))
        self.authorized &= request.headers.get("authorization") == "Bearer T" and "x-berth-node" in request.headers
        data = self.files.get(request.match_info["name"])
        if data is None:
            return web.json_response({}, status=404)
        start = request.http_range.start or 0
        response = web.StreamResponse(status=206 if start else 200)
        response.content_length = len(data) - start
        await response.prepare(request)
        if self.cut:
            await response.write(data[start : start + self.cut.pop(0)])
            await asyncio.sleep(0.1)
            assert request.transport is not None
            request.transport.abort()
            return response
        await response.write(data[start:])
        return response


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    source = Source()
    app = web.Application()
    app.router.add_get("/internal/models/{digest}/{name}", source.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    source.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield source
    await runner.cleanup()


def make_cache(root: Path, source: Source, limit_bytes: int = 1 << 40) -> ModelCache:
    headers = {"authorization": "Bearer T", "x-berth-node": "n"}
    return ModelCache(root, base_url=source.url, headers=headers, limit_bytes=limit_bytes)


def on_disk(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


async def test_fetches_once_for_two_and_reports_progress(tmp_path: Path, source: Source) -> None:
    cache, seen = make_cache(tmp_path, source), []
    first, second = await asyncio.gather(
        cache.fetch("d", HASHES, SIZE, seen.append), cache.fetch("d", HASHES, SIZE, seen.append)
    )
    assert first == second == tmp_path / "d"
    assert on_disk(tmp_path) == {f"d/{name}": data for name, data in FILES.items()}
    assert len(source.requests) == len(FILES)
    assert source.authorized
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0.0, 1.0)
    assert cache.find("d", HASHES) == first


async def test_a_broken_transfer_goes_on_from_where_it_broke(tmp_path: Path, source: Source) -> None:
    source.files.pop("config.json")
    hashes = {"model.safetensors": HASHES["model.safetensors"]}
    source.cut = [5 << 20]
    cache = make_cache(tmp_path, source)
    with pytest.raises(ModelError, match="did not send the model"):
        await cache.fetch("d", hashes, SIZE, lambda _: None)
    assert cache.find("d", hashes) is None
    part = (tmp_path / ".partial-d" / "model.safetensors.part").stat().st_size
    assert 0 < part <= 5 << 20
    await cache.fetch("d", hashes, SIZE, lambda _: None)
    assert source.requests[-1] == ("model.safetensors", f"bytes={part}-")
    assert on_disk(tmp_path) == {"d/model.safetensors": FILES["model.safetensors"]}


async def test_a_damaged_file_is_named_and_fetched_anew(tmp_path: Path, source: Source) -> None:
    good = source.files["model.safetensors"]
    source.files["model.safetensors"] = b"X" + good[1:]
    cache = make_cache(tmp_path, source)
    with pytest.raises(ModelError, match=r"model\.safetensors arrived damaged: its SHA-256"):
        await cache.fetch("d", HASHES, SIZE, lambda _: None)
    assert not (tmp_path / "d").exists()
    source.files["model.safetensors"] = good
    await cache.fetch("d", HASHES, SIZE, lambda _: None)
    assert on_disk(tmp_path)["d/model.safetensors"] == good
    assert [name for name, _ in source.requests].count("config.json") == 1  # what was verified is kept


async def test_a_damaged_start_is_found_after_a_resume(tmp_path: Path, source: Source) -> None:
    (tmp_path / ".partial-d").mkdir()
    (tmp_path / ".partial-d" / "model.safetensors.part").write_bytes(b"not the start")
    cache = make_cache(tmp_path, source)
    with pytest.raises(ModelError, match="damaged"):
        await cache.fetch("d", HASHES, SIZE, lambda _: None)
    await cache.fetch("d", HASHES, SIZE, lambda _: None)
    assert on_disk(tmp_path)["d/model.safetensors"] == FILES["model.safetensors"]


async def test_missing_file_and_absent_server_are_told_apart(tmp_path: Path, source: Source) -> None:
    with pytest.raises(ModelError, match=r"answered 404 for extra\.bin"):
        await make_cache(tmp_path, source).fetch("d", {"extra.bin": "0" * 64}, 1, lambda _: None)
    source.url = "http://127.0.0.1:1"
    with pytest.raises(ModelError, match="did not send the model"):
        await make_cache(tmp_path, source).fetch("e", HASHES, SIZE, lambda _: None)


@pytest.mark.parametrize(("digest", "name"), [("../x", "a"), ("d", "../../etc/passwd"), ("d", ".hidden"), ("d", "a/b")])
async def test_names_that_leave_the_folder_are_refused(tmp_path: Path, source: Source, digest: str, name: str) -> None:
    with pytest.raises(ModelError, match="not allowed"):
        await make_cache(tmp_path, source).fetch(digest, {name: "0" * 64}, 1, lambda _: None)
    assert source.requests == []


async def test_the_longest_unused_goes_first_and_what_is_in_use_stays(tmp_path: Path, source: Source) -> None:
    hashes = {"config.json": HASHES["config.json"]}
    for age, digest in enumerate(["newest", "oldest-but-used", "old"]):
        (tmp_path / digest).mkdir()
        (tmp_path / digest / "w").write_bytes(b"x" * 1000)
        os.utime(tmp_path / digest, (1e9 - age, 1e9 - age))
    os.utime(tmp_path / "oldest-but-used", (1, 1))
    cache = make_cache(tmp_path, source, limit_bytes=3000)
    cache.in_use = lambda: {"oldest-but-used"}
    await cache.fetch("fresh", hashes, 1000, lambda _: None)
    assert set(os.listdir(tmp_path)) == {"fresh", "newest", "oldest-but-used"}
    cache.in_use = lambda: {"oldest-but-used", "newest", "fresh"}
    with pytest.raises(ModelError, match="models in use take"):
        await cache.fetch("another", hashes, 1500, lambda _: None)
    with pytest.raises(ModelError, match=r"at most 0\.00 GB"):
        await cache.fetch("huge", hashes, 3001, lambda _: None)


async def test_full_disk_is_said_before_and_during_the_transfer(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = SimpleNamespace(free=modelcache.DISK_RESERVE_BYTES + SIZE - 1)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage)
        with pytest.raises(ModelError, match=r"disk of the node is full: the model needs 0\.01 GB, 0\.08 GB are free"):
            await make_cache(tmp_path, source).fetch("d", HASHES, SIZE, lambda _: None)
    assert source.requests == []

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(modelcache, "_write", full)
        with pytest.raises(ModelError, match="disk of the node is full"):
            await make_cache(tmp_path, source).fetch("d", HASHES, SIZE, lambda _: None)
    await make_cache(tmp_path, source).fetch("d", HASHES, SIZE, lambda _: None)
