"""The kernels as the compiler makes them for GPUs that this machine lacks; not interpreted."""

from __future__ import annotations

import pytest

from gpuruntime.kernels.gpu import report


def test_names_are_unique_and_the_committed_table_has_each():
    names = [configuration.name for configuration in report.configurations()]
    assert len(set(names)) == len(names)
    committed = report.DOCUMENT.read_text("utf-8")
    assert [name for name in names if f"| {name} |" not in committed] == []


def test_every_argument_of_a_kernel_has_a_type_or_a_value():
    for configuration in report.configurations():
        given = [*configuration.signature, *configuration.constants]
        assert sorted(given) == sorted(configuration.kernel.arg_names), configuration.name
        assert set(configuration.multiples_of_16) <= set(configuration.signature), configuration.name


@pytest.mark.parametrize("name", ["add_rms_norm 4096", "kv_write fp8 128"])
def test_small_kernels_spill_nothing(name):
    configuration = next(each for each in report.configurations() if each.name == name)
    compiled = report.compile_for(configuration, 90)
    assert compiled.spilled_bytes == 0
    assert 16 <= compiled.registers <= 64


def test_the_table_replaces_what_stood_between_its_marks(tmp_path, monkeypatch):
    document = tmp_path / "kernels.md"
    document.write_text("before\n<!-- made by make kernels-report -->\nold\n<!-- end -->\nafter\n")
    first = report.configurations()[0]
    row = report.Compiled(first, 90, registers=40, shared_bytes=1536, spilled_bytes=8, dots=4, mma=0)
    monkeypatch.setattr(report, "compile_all", lambda: [row])
    report.write(document)
    lines = document.read_text().splitlines()
    assert (lines[0], lines[-1], "old" in lines) == ("before", "after", False)
    cell = "40 regs, 1.5 KiB, **8 B spilled**, 4 wgmma"
    assert f"| {first.name} | not supported | {cell} | not supported |" in lines


def test_a_document_without_marks_is_refused(tmp_path):
    document = tmp_path / "kernels.md"
    document.write_text("a page")
    with pytest.raises(ValueError, match="marks are missing"):
        report.write(document)
