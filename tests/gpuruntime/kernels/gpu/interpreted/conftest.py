"""The tests of this folder run in Triton's interpreter, on the CPU.

Triton reads TRITON_INTERPRET where a kernel is decorated, so a process is interpreted or it is not. pytest collects
here as anywhere, and at the first of these tests starts one interpreted pytest with all of them; each test's reports
are read back as they come. A failure shows the child's own traceback, and -k, -m and node ids work as always.
By hand: ``TRITON_INTERPRET=1 pytest --confcutdir=tests/gpuruntime/kernels/gpu/interpreted FILE --pdb``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REPORTS = "BERTH_TEST_REPORTS"  # a file descriptor of the child: one JSON report a line
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def pytest_configure(config: pytest.Config) -> None:
    """In the child this is the outermost conftest."""
    if _INTERPRETED:
        from hypothesis import settings

        settings.register_profile("interpreted", deadline=None, print_blob=True)
        settings.load_profile("interpreted")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    if _INTERPRETED or HERE not in item.path.parents:
        return None
    child = item.session.stash.setdefault(_CHILD, None) or _Child(item.session)
    item.session.stash[_CHILD] = child
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in child.reports(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    child = session.stash.get(_CHILD, None)
    if child is not None:
        child.stop()


_reports_file = os.fdopen(int(os.environ[REPORTS]), "w") if _INTERPRETED and REPORTS in os.environ else None


class _ReportWriter:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        assert _reports_file is not None
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        _reports_file.write(json.dumps(data) + "\n")
        _reports_file.flush()


def pytest_sessionstart(session: pytest.Session) -> None:
    if _reports_file is not None:
        session.config.pluginmanager.register(_ReportWriter(session.config))


class _Child:
    """The interpreted pytest, which runs the session's tests of this folder in the session's order."""

    def __init__(self, session: pytest.Session) -> None:
        nodes = [item.nodeid for item in session.items if HERE in item.path.parents]
        self._folder = tempfile.TemporaryDirectory(prefix="berth-interpreted-")
        names, self._output = Path(self._folder.name, "tests"), Path(self._folder.name, "output")
        names.write_text("\n".join(nodes))
        options = [f"--confcutdir={HERE}", f"--timeout={session.config.getini('timeout')}", "-p", "no:django"]
        read_end, write_end = os.pipe()
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider", f"@{names}"],
                cwd=session.config.rootpath,
                env=os.environ | {"TRITON_INTERPRET": "1", REPORTS: str(write_end)},
                pass_fds=[write_end],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        os.close(write_end)
        self._reports = os.fdopen(read_end)
        self._early: dict[str, list[pytest.TestReport]] = {}

    def reports(self, item: pytest.Item) -> list[pytest.TestReport]:
        """Waits for the test's last report; a failure with what the child printed where it ended before."""
        while not any(report.when == "teardown" for report in self._early.get(item.nodeid, [])):
            line = self._reports.readline()
            if not line:
                why = f"the interpreted pytest ended before this test did:\n{self._output.read_text()}"
                return [pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")]
            report = item.config.hook.pytest_report_from_serializable(config=item.config, data=json.loads(line))
            self._early.setdefault(report.nodeid, []).append(report)
        return self._early.pop(item.nodeid)

    def stop(self) -> None:
        self._reports.close()
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()


_CHILD = pytest.StashKey["_Child | None"]()
