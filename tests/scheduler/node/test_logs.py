from __future__ import annotations

from pathlib import Path

from scheduler.node.logs import KEEP_LINES, LINE_CHARACTERS, READ_BYTES, LogFollower


def test_numbers_go_on_and_half_lines_wait(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = LogFollower("rep_1", path)
    assert follower.poll() is None
    path.write_text("one\ntwo\nthr")
    first = follower.poll()
    assert first is not None
    assert (first.first, first.lines, first.reset) == (0, ["one", "two"], False)
    with path.open("a") as log:
        log.write("ee\n")
    second = follower.poll()
    assert second is not None
    assert (second.first, second.lines) == (2, ["three"])
    assert follower.poll() is None
    snapshot = follower.snapshot()
    assert (snapshot.first, snapshot.lines, snapshot.reset) == (0, ["one", "two", "three"], True)


def test_only_the_end_of_a_flood_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = LogFollower("rep_1", path)
    path.write_text("".join(f"{n:06}\n" for n in range(100_000)))
    lines = follower.poll()
    assert lines is not None
    assert lines.lines == [f"{n:06}" for n in range(100_000 - KEEP_LINES, 100_000)]
    with path.open("a") as log:
        log.write("after\n")
    after = follower.poll()
    assert after is not None
    assert after.first == lines.first + KEEP_LINES
    assert follower.snapshot().lines == [*lines.lines[1:], "after"]


def test_rotation_starts_at_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = LogFollower("rep_1", path)
    path.write_text("old\n")
    follower.poll()
    path.rename(tmp_path / "log.1")
    path.write_text("new, and longer than the old one\n")
    lines = follower.poll()
    assert lines is not None
    assert (lines.first, lines.lines) == (1, ["new, and longer than the old one"])


def test_long_lines_and_foreign_bytes_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = LogFollower("rep_1", path)
    path.write_bytes(b"\xff\xfe bytes\r\n" + b"x" * (LINE_CHARACTERS + 7) + b"\n" + b"y" * (READ_BYTES // 2))
    lines = follower.poll()
    assert lines is not None
    assert lines.lines == ["�� bytes", "x" * LINE_CHARACTERS]
