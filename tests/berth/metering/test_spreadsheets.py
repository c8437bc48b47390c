"""What people named becomes no formula where an export is opened in a spreadsheet."""

from __future__ import annotations

import csv
import io

import pytest

from berth.metering.export import csv_cell, csv_lines


@pytest.mark.parametrize(
    "name", ["=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x","y")']
)
def test_a_name_that_begins_as_a_formula_is_text(name: str) -> None:
    text = csv_lines([[csv_cell(name), csv_cell("plain"), csv_cell(-2)]]).decode()
    (row,) = csv.reader(io.StringIO(text, newline=""))
    assert row == ["'" + name, "plain", "-2"]


def test_a_name_stays_in_its_cell() -> None:
    name = 'a,b"c\nd'
    assert list(csv.reader(io.StringIO(csv_lines([[csv_cell(name), 1]]).decode(), newline=""))) == [[name, "1"]]
