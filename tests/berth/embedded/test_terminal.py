"""What the terminal says: the lock's refusal, the checks before a start, status lines, followed logs."""

from __future__ import annotations

import io
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from berth.config import Config
from berth.deployments.models import Replica
from berth.embedded import lock
from berth.embedded.children import Child, ChildSpec, State
from berth.embedded.house import House
from berth.embedded.nodes import BadFleet
from berth.embedded.paths import Home
from berth.embedded.preflight import CannotStart, check_disk, check_given_services, check_port
from berth.embedded.screen import Facts, PlainScreen, render
from berth.embedded.startup import notes
from berth.embedded.status import ModelLine, ReplicaLine, View, read_rows
from berth.embedded.tail import Tail, UnknownLog, find_logs, follow
from helpers.factories import make_deployment


def test_the_lock_names_its_holder_and_dies_with_it(tmp_path: Path) -> None:
    path = tmp_path / "up.lock"
    script = (
        "import sys, time; from pathlib import Path; from berth.embedded import lock\n"
        f"held = lock.hold(Path('{path}'), Path('{tmp_path}')); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(lock.AlreadyRunning) as refused:
        lock.hold(path, tmp_path)
    assert refused.value.pid == holder.pid
    assert str(tmp_path) in str(refused.value)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with lock.hold(path, tmp_path):
        assert path.read_text() == str(os.getpid())


def test_a_taken_port_and_an_unknown_host_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotStart, match=f"port {port} on 127.0.0.1 .*--port"):
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", port)
    with pytest.raises(CannotStart, match=r"no-such-host\.invalid"):
        check_port("no-such-host.invalid", port)


def test_a_disk_without_room_is_refused_with_both_numbers(tmp_path: Path) -> None:
    check_disk(tmp_path, needed=1)
    with pytest.raises(CannotStart, match=rf"{tmp_path} has \d+ MiB free and Berth needs {1 << 30} MiB"):
        check_disk(tmp_path, needed=1 << 50)


def test_given_services_that_do_not_answer_are_named(tmp_path: Path, redis_url: str) -> None:
    check_given_services(os.environ["BERTH_DATABASE_URL"], redis_url)
    check_given_services("", "")
    with pytest.raises(CannotStart, match="BERTH_DATABASE_URL") as refused:
        check_given_services(f"postgresql://me:secret@/berth?host={tmp_path}", "")
    assert "secret" not in str(refused.value)
    with pytest.raises(CannotStart, match="BERTH_REDIS_URL"):
        check_given_services("", f"unix://{tmp_path}/none.sock")


@pytest.mark.parametrize(
    ("host", "address"), [("0.0.0.0", "127.0.0.1:8000"), ("::", "[::1]:8000"), ("10.0.0.5", "10.0.0.5:8000")]
)
def test_processes_of_this_machine_reach_web_whatever_it_binds(tmp_path: Path, host: str, address: str) -> None:
    house = House(Config(home=tmp_path), host, 8000)
    assert house.local_address == address
    assert f"ws://{address}" in house.specs()["agent"].command


def test_a_simulated_fleet_gets_an_agent_a_node(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text('[[node]]\nname = "a"\n[[node]]\nname = "b"\n')
    house = House(Config(home=tmp_path, provider="simulated", simulated_file=str(fleet)), "127.0.0.1", 8000)
    specs = {name: spec.command for name, spec in house.specs().items() if name.startswith("agent")}
    assert list(specs) == ["agent-a", "agent-b"]
    assert {"a", str(tmp_path / "nodes" / "a"), str(fleet)} <= set(specs["agent-a"])


@pytest.mark.parametrize(
    ("provider", "content", "said"),
    [
        ("simulated", None, "BERTH_SIMULATED_FILE"),
        ("simulated", "nonsense", "no fleet"),
        ("simulated", "[[node]]\ncpu_count = 1", "name"),
        ("simulated", '[[node]]\nname = "../up"', "folder"),
        ("abacus", None, "abacus"),
    ],
)
def test_a_fleet_that_cannot_be_used_is_named(tmp_path: Path, provider: str, content: str | None, said: str) -> None:
    fleet = tmp_path / "fleet.toml"
    if content is not None:
        fleet.write_text(content)
    config = Config(home=tmp_path, provider=provider, simulated_file=str(fleet) if content is not None else "")
    with pytest.raises(BadFleet, match=said):
        _ = House(config, "127.0.0.1", 8000).nodes


def test_given_urls_replace_the_embedded_services(tmp_path: Path) -> None:
    house = House(Config(home=tmp_path, database_url="postgresql://db/berth", redis_url="redis://r"), "127.0.0.1", 8000)
    assert set(house.specs()) == {"web", "scheduler", "beat", "agent"}


def child(name: str, state: State = State.RUNNING) -> Child:
    made = Child(ChildSpec(name=name, command=("x",), log=Path("/dev/null")), lambda: None)
    made.state = state
    return made


def test_plain_lines_come_only_with_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    screen, facts, web = PlainScreen(), Facts("http://localhost:8000", "var/logs"), child("web")
    loading = View(replicas=(ReplicaLine("rep_1", "smol", "loading", "reading weights"),))
    for _ in range(3):
        screen.show({"web": web}, loading, facts, "")
    web.state, web.last_exit = State.BACKOFF, "exit code 1"
    screen.show({"web": web}, View(models=(ModelLine("smol", "registering", "", 0.5),)), facts, "")
    for percent in range(50, 80, 5):
        screen.show({"web": web}, View(models=(ModelLine("smol", "registering", "", percent / 100),)), facts, "")
    assert capsys.readouterr().out.splitlines() == [
        "service web: running",
        "replica smol rep_1: loading (reading weights)",
        "replica smol rep_1: ended",
        "service web: died (exit code 1), starts again",
        "model smol: registering 50%",
        "model smol: registering 75%",
    ]


def test_the_live_screen_shows_services_and_replicas() -> None:
    facts = Facts("http://localhost:8000", "var/logs")
    view = View(replicas=(ReplicaLine("rep_1", "smol", "failed", "out of memory"),))
    output = io.StringIO()
    Console(file=output, width=100).print(render({"web": child("web")}, view, facts, "ready"))
    for text in ("http://localhost:8000", "web", "running", "rep_1", "out of memory", "var/logs"):
        assert text in output.getvalue()


def test_a_password_and_a_key_are_shown_only_when_they_were_made(tmp_path: Path) -> None:
    made = {"operator": {"email": "op@x", "password": "pw"}, "key": "key_1.s"}
    first = "\n".join(notes(made, "http://localhost:8000", tmp_path))
    failed = {"state": "failed", "reason": "no network"}
    again = {"operator": {"email": "op@x"}, "key": None, "model": failed}
    later = "\n".join(notes(again, "http://h", tmp_path))
    assert "pw" in first
    assert "Bearer key_1.s" in first
    assert str(tmp_path / "operator_password") in later
    assert "reset_password op@x" in later
    assert "Bearer $KEY" in later
    assert "no network" in later


@pytest.mark.parametrize("count", [0, 1, 3, 500])
def test_the_last_lines_are_those_of_the_whole_file(tmp_path: Path, count: int) -> None:
    lines = [f"line {n} " + "x" * (n * 37 % 3000) for n in range(200)]
    path = tmp_path / "a.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    assert Tail(path).last_lines(count) == (lines[-count:] if count else [])


def test_following_survives_rotation_truncation_and_half_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\ntw")
    tail = Tail(path)
    assert tail.last_lines(10) == ["one"]
    with path.open("a") as writer:
        writer.write("o\n")
    assert tail.new_lines() == ["two"]
    path.rename(tmp_path / "a.log.1")
    path.write_text("three\n")
    assert tail.new_lines() == []
    assert tail.new_lines() == ["three"]
    path.write_text("4\n")
    assert tail.new_lines() == ["4"]


def test_several_files_are_labelled_and_followed_together(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("a", "b")}
    for name, path in files.items():
        path.write_text(f"old {name}\n")

    def write() -> None:
        time.sleep(0.1)
        with files["b"].open("a") as writer:
            writer.write("new b\n")

    threading.Thread(target=write).start()
    got = list(itertools.islice(follow(files, 5, on=True, pause_s=0.02), 3))
    assert got == ["a | old a", "b | old b", "b | new b"]


@pytest.mark.django_db
def test_an_unknown_log_lists_what_there_is(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    (home.node / "logs").mkdir()
    home.log("web").write_text("x")
    replica = home.node / "logs" / "rep_1.log"
    replica.write_text("y")
    assert find_logs(home, "web") == {"web": home.log("web")}
    assert find_logs(home, "rep_1") == {"rep_1": replica}
    with pytest.raises(UnknownLog, match=r"'wbe'.*web.*rep_1"):
        find_logs(home, "wbe")
    with pytest.raises(UnknownLog):
        find_logs(home, "../secrets/django_key")


@pytest.mark.django_db(transaction=True)
def test_ready_counts_only_what_was_observed_in_this_run() -> None:
    began = datetime.now(UTC)
    deployment = make_deployment()
    replica = Replica.objects.create(
        tenant=deployment.tenant, deployment=deployment, state="ready", port=1, observed_at=began - timedelta(seconds=1)
    )
    lines, _, waiting = read_rows(deployment.id, began)
    assert [(line.id, line.state) for line in lines] == [(replica.id, "checking")]
    assert waiting == (deployment.name,)

    replica.observed_at = began + timedelta(seconds=1)
    replica.save()
    lines, _, waiting = read_rows(deployment.id, began)
    assert [(line.id, line.state) for line in lines] == [(replica.id, "ready")]
    assert waiting == ()

    replica.port = 0  # the agent found its process dead and has not said more yet
    replica.save()
    assert read_rows(deployment.id, began)[2] == (deployment.name,)

    replica.ended_at = began
    replica.save()
    assert read_rows(deployment.id, began)[0] == ()
    assert read_rows(deployment.id, began)[2] == (deployment.name,)
    assert read_rows("", began)[2] == ()


def test_nothing_is_ready_before_the_demo_is_known_and_web_answers() -> None:
    assert View(demo="", answers=True, reachable=True).ready
    assert not View(demo=None, answers=True, reachable=True).ready
    assert not View(demo="", answers=False, reachable=True).ready
    assert not View(demo="", answers=True, reachable=False).ready
    assert not View(demo="dep_1", answers=True, reachable=True, waiting=("smol",)).ready
