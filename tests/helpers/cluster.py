"""A whole Berth on this machine, as ``make run`` starts it: its own BERTH_HOME, its own port, real processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import psutil
import requests

from helpers.model import CACHE
from helpers.patience import PATIENCE_S, eventually

REPOSITORY = Path(__file__).resolve().parents[2]
DEPLOYMENT = "smollm2-135m"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Person:
    """Someone signed in to the management API with a browser's session."""

    def __init__(self, base: str, email: str, password: str) -> None:
        self.base = base
        self.http = requests.Session()
        self.http.get(f"{base}/api/v1/session", timeout=10).raise_for_status()
        answer = self._send("POST", "session", {"email": email, "password": password})
        answer.raise_for_status()

    def _send(self, method: str, path: str, body: object = None) -> requests.Response:
        headers = {"X-CSRFToken": self.http.cookies.get("csrftoken", ""), "Referer": self.base}
        return self.http.request(method, f"{self.base}/api/v1/{path}", json=body, headers=headers, timeout=20)

    def get(self, path: str) -> Any:
        answer = self._send("GET", path)
        answer.raise_for_status()
        return answer.json()

    def status(self, method: str, path: str, body: object = None) -> int:
        return self._send(method, path, body).status_code

    def post(self, path: str, body: object = None) -> Any:
        answer = self._send("POST", path, body if body is not None else {})
        assert answer.ok, f"POST {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def patch(self, path: str, body: object) -> Any:
        answer = self._send("PATCH", path, body)
        assert answer.ok, f"PATCH {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def delete(self, path: str) -> None:
        answer = self._send("DELETE", path)
        assert answer.ok, f"DELETE {path}: {answer.status_code} {answer.text}"

    @property
    def cookie_header(self) -> str:
        return "; ".join(f"{c.name}={c.value}" for c in self.http.cookies)


class Cluster:
    """Starts with ``manage.py up``; everything it does is what an operator could do by hand."""

    def __init__(self, home: Path, **variables: str) -> None:
        self.home = home
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.up: subprocess.Popen[bytes] | None = None
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_")}
        self.environment.pop("DJANGO_SETTINGS_MODULE", None)
        self.environment |= {"BERTH_HOME": str(home), "BERTH_MODEL_ROOTS": str(CACHE), **variables}

    def start(self, timeout_s: float = 240.0) -> float:
        """Seconds from the command to "ready"."""
        started = time.monotonic()
        log = (self.home.parent / "up.log").open("ab")
        self.up = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", str(self.port)],
            cwd=REPOSITORY,
            env=self.environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

        def ready() -> bool:
            assert self.up is not None
            if self.up.poll() is not None:
                raise RuntimeError(f"up ended with {self.up.returncode}:\n{self.output()[-3000:]}")
            return b"Berth is ready" in self.output_bytes()

        eventually(ready, f"Berth is ready; up said:\n{self.output()[-3000:]}", patience_s=timeout_s)
        return time.monotonic() - started

    def output_bytes(self) -> bytes:
        return (self.home.parent / "up.log").read_bytes()

    def output(self) -> str:
        return self.output_bytes().decode(errors="replace")

    def stop(self, how: int = signal.SIGINT, timeout_s: float = PATIENCE_S) -> None:
        if self.up is not None and self.up.poll() is None:
            self.up.send_signal(how)
            self.up.wait(timeout_s)

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"manage.py {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def processes(self) -> list[psutil.Process]:
        """All living processes of this BERTH_HOME: by environment, command line, or the log they write."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                words = [*process.cmdline(), str(Path(f"/proc/{process.pid}/fd/2").readlink())]
                inside = process.environ().get("BERTH_HOME") == str(self.home)
                if inside or any(str(self.home) in word for word in words):
                    found.append(process)
        return found

    def process(self, *words: str) -> psutil.Process:
        """The one oldest process whose command line has all ``words``."""
        named = [p for p in self.processes() if all(any(w in part for part in p.cmdline()) for w in words)]
        assert named, f"no process with {words} among {[p.cmdline()[:6] for p in self.processes()]}"
        return min(named, key=lambda p: p.create_time())

    def operator(self) -> Person:
        password = (self.home / "secrets" / "operator_password").read_text().strip()
        return Person(self.base, "operator@berth.local", password)

    def client(self, key: str, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.base}/v1", api_key=key, max_retries=0, timeout=60, **options)

    def replicas(self, person: Person, deployment_id: str, state: str | None = "ready") -> list[dict[str, Any]]:
        rows = person.get(f"replicas?deployment={deployment_id}")["results"]
        return [row for row in rows if state is None or row["state"] == state]


def is_refused(client: openai.OpenAI) -> bool:
    """Whether the endpoint refuses the client's key."""
    try:
        client.models.list()
    except openai.AuthenticationError:
        return True
    return False


@contextlib.contextmanager
def running_cluster(**variables: str) -> Iterator[Cluster]:
    """A cluster that answers, with further BERTH_* ``variables``.

    On the way out nothing of it is left, and a failure shows what it said.
    """
    top = Path(tempfile.mkdtemp(prefix="berth-e2e-"))
    top.chmod(0o711)
    cluster = Cluster(top / "var", **variables)
    try:
        cluster.start()
        yield cluster
        cluster.stop()
    finally:
        if cluster.up is not None and cluster.up.poll() is None:
            cluster.up.kill()
        for process in cluster.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        subprocess.run(["rm", "-rf", str(top)], check=False)


def messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def read_json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
