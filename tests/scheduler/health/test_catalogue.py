"""The table of XIDs: whole, sourced, and never milder than NVIDIA without saying why."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from scheduler.health import catalogue
from scheduler.health.catalogue import Severity, todo, xid, xids

TABLE: dict[str, Any] = json.loads(Path(catalogue.__file__).with_name("xids.json").read_text())


def test_the_table_is_whole() -> None:
    codes = [code for row in TABLE["xids"] for code in row["codes"]]
    assert len(codes) == len(set(codes)), "one row a code"
    assert sorted(xids()) == sorted(codes)
    assert set(TABLE["kinds"]) == set(get_args(catalogue.Kind))
    for row in TABLE["xids"]:
        assert set(re.findall(r"\b[A-Z]\b", row["evidence"])) <= set(TABLE["sources"]), row
        assert row["evidence"]
        assert row["do"] in TABLE["actions"]
    assert {row["do"] for row in TABLE["xids"]} == set(TABLE["actions"]), "no action that nothing uses"


@pytest.mark.parametrize(
    ("code", "kind", "severity", "nvidia"),
    [
        (13, "application", Severity.NONE, "RESTART_APP"),
        (31, "application", Severity.NONE, "RESTART_APP"),
        (43, "application", Severity.NONE, "IGNORE"),
        (45, "application", Severity.NONE, "WORKFLOW_XID_45"),
        (68, "application", Severity.NONE, "RESTART_APP"),
        (109, "application", Severity.NONE, "RESET_GPU"),
        (48, "gpu", Severity.DRAIN, "WORKFLOW_XID_48"),
        (63, "gpu", Severity.NONE, "IGNORE"),
        (64, "gpu", Severity.DRAIN, "RESET_GPU"),
        (74, "link", Severity.WATCH, "WORKFLOW_NVLINK_ERR"),
        (79, "gpu", Severity.FENCE, "RESTART_BM"),
        (92, "gpu", Severity.WATCH, "IGNORE"),
        (94, "contained", Severity.WATCH, "RESTART_APP"),
        (95, "gpu", Severity.FENCE, "RESET_GPU"),
        (119, "driver", Severity.DRAIN, "RESET_GPU"),
        (120, "driver", Severity.DRAIN, "RESET_GPU"),
        (154, "driver", Severity.NONE, "XID_154"),
    ],
)
def test_the_codes_that_matter_most(code: int, kind: str, severity: Severity, nvidia: str) -> None:
    found = xid(code)
    assert found is not None
    assert (found.kind, found.severity, found.nvidia) == (kind, severity, nvidia)


def test_who_is_milder_than_nvidia_says_why() -> None:
    for found in xids().values():
        if found.nvidia in ("RESET_GPU", "RESTART_BM", "RESTART_VM") and found.severity < Severity.DRAIN:
            assert found.note, found
        if found.kind == "application":
            assert found.severity is Severity.NONE, "a process's fault never changes a GPU's health"


def test_a_code_of_no_table_is_none() -> None:
    assert xid(9999) is None
    assert xid(0) is None
    assert "Reset" in todo("reset")
