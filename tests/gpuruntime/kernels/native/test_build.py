"""Building the step: names, concurrent builds, compilers that fail, and builds for other processors."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import threading
from pathlib import Path

import pytest
import torch

from gpuruntime.kernels.native import build, library
from gpuruntime.kernels.native.build import NoCompiler, built_library
from helpers.families import error
from helpers.native import Row, make_batch, native, save_native_model

TOKENS = [(7 * i * i + 3 * i + 5) % 200 + 3 for i in range(70)]


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sources, with a library in place of the step that builds in a moment."""
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "step.cpp").write_text('#include "answer.h"\nextern "C" int answer() { return kAnswer; }\n')
    (folder / "answer.h").write_text("constexpr int kAnswer = 42;\n")
    monkeypatch.setattr(build, "SOURCES", folder)
    return folder


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_changed_source_another_compiler_or_other_flags_make_another_library(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [built_library().name]
    assert built_library().name == names[0]
    header = sources / "answer.h"
    header.write_text(header.read_text() + "// changed\n")
    names.append(built_library().name)
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-DOTHER"))
    names.append(built_library().name)
    other = script(tmp_path / "other-g++", 'case "$1" in --version) echo other;; *) exec g++ "$@";; esac')
    monkeypatch.setenv("CXX", str(other))
    names.append(built_library().name)
    assert len(set(names)) == 4
    assert sorted(path.name for path in (sources / "built").iterdir()) == sorted(names)


def test_what_is_built_is_not_built_again(sources: Path) -> None:
    first = built_library()
    built_at = first.stat().st_mtime_ns
    assert built_library() == first
    assert first.stat().st_mtime_ns == built_at


def test_concurrent_builds_leave_one_whole_file(sources: Path) -> None:
    found: list[Path] = []
    starters = [threading.Thread(target=lambda: found.append(built_library())) for _ in range(4)]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join()
    assert len(found) == 4
    assert [path.name for path in (sources / "built").iterdir()] == [found[0].name]
    symbols = subprocess.run(["nm", "-D", found[0]], capture_output=True, text=True, check=True).stdout
    assert " T answer" in symbols


def test_a_failing_compiler_is_quoted_with_its_first_error(sources: Path) -> None:
    (sources / "answer.h").write_text("constexpr int kAnswer = missing;\nint other = absent;\n")
    with pytest.raises(NoCompiler, match=r"could not build it: .*answer\.h:1:.*error.*missing"):
        built_library()
    assert list((sources / "built").iterdir()) == []


def test_a_compiler_that_says_nothing_still_gives_a_reason(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(script(tmp_path / "silent", "exit 1")))
    with pytest.raises(NoCompiler, match="silent could not build it"):
        built_library()


def test_without_a_compiler_the_one_library_of_this_processor_is_taken(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = built_library()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert built_library() == built
    built.with_name(built.name.replace(".so", "0.so")).write_bytes(b"")
    with pytest.raises(NoCompiler, match="there is no C"):
        built_library()
    shutil.rmtree(sources / "built")
    with pytest.raises(NoCompiler, match="there is no C"):
        built_library()


def test_read_only_sources_are_built_in_the_users_cache(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != sources and access(path, mode))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert built_library().parent == tmp_path / "cache" / "berth" / "native"


def test_main_reports_and_never_fails(
    sources: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build.main() == 0
    assert capsys.readouterr().out == f"native step: {built_library().name}\n"
    shutil.rmtree(sources / "built")
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.main() == 0
    assert "not built, PyTorch will serve: there is no C++ compiler" in capsys.readouterr().out


@pytest.mark.parametrize(("march", "fused"), [("haswell", True), ("x86-64-v2", False)])
def test_other_processors_compute_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, march: str, fused: bool
) -> None:
    """The same bits where the processor fuses multiplication and addition; else norms and softmax round once more."""
    flags = [flag for flag in build.FLAGS if not flag.startswith(("-march", "-O"))]
    level = "-O3" if fused else "-O1"  # vectors of 64 bytes in pieces of 16 take long to optimize
    output = tmp_path / f"{march}.so"
    command = ["g++", *flags, level, f"-march={march}", "-o", str(output), str(build.SOURCES / "step.cpp")]
    subprocess.run(command, check=True)
    other = library.load(output)
    model_dir = tmp_path / "model"
    save_native_model(model_dir, "qwen3", head_dim=96)
    rows = [Row(TOKENS, 0, 70, [3, 0, 4, 1, 2]), Row(TOKENS[::-1], 0, 1, [9]), Row(TOKENS[::-1], 0, 20, [7, 5])]
    for settings in ({"dtype": "bf16"}, {"dtype": "int8", "kv_dtype": "int8"}):
        ours = native(model_dir, **settings)
        with monkeypatch.context() as patch:
            patch.setattr(library, "library", lambda: other)
            theirs = native(model_dir, **settings)
        assert theirs.name == "native (vectors)"
        expected, found = ours.logits(make_batch(rows)), theirs.logits(make_batch(rows))
        if fused:
            assert torch.equal(found, expected)
        assert error(found, expected) < 2**-7
