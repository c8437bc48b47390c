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


def compiled(name, architecture=90):
    configuration = next(each for each in report.configurations() if each.name == name)
    return report.compile_for(configuration, architecture)


@pytest.mark.parametrize("pool", ["bf16", "int8", "fp8"])
def test_decode_spills_nothing_and_multiplies_on_tensor_cores(pool):
    found = compiled(f"attention_decode Llama 8B, {pool} KV")
    assert found.spilled_bytes == 0
    assert found.mma > 0  # the query heads of a group are fewer rows than wgmma takes


def test_prefill_and_weight_only_products_use_hoppers_instruction():
    for name in (
        "attention_mixed Llama 8B, bf16 KV, 1024 tokens a request",
        "quantized_linear int8 4096 x 4096, 16 tokens",
        "quantized_linear fp8 4096 x 4096, 16 tokens",
    ):
        found = compiled(name)
        assert found.configuration.dot
        assert (found.dots > 0, found.mma, found.spilled_bytes) == (True, 0, 0)


@pytest.mark.parametrize("pool", ["bf16", "int8"])
def test_prefill_keeps_to_what_older_architectures_have(pool):
    found = compiled(f"attention_mixed Llama 8B, {pool} KV, 1024 tokens a request", architecture=80)
    assert (found.dots > 0, found.spilled_bytes) == (True, 0)
    assert found.shared_bytes <= 99 << 10


@pytest.mark.kernels
@pytest.mark.parametrize("architecture", report.ARCHITECTURES)
def test_no_configuration_lacks_the_products_that_it_is_made_of(architecture):
    """Nor does any of attention's spill."""
    for configuration in report.configurations():
        if configuration.oldest <= architecture:
            found = report.compile_for(configuration, architecture)
            assert (found.dots + found.mma > 0) == configuration.dot, configuration.name
            if configuration.name.startswith("attention"):
                assert found.spilled_bytes == 0, configuration.name


@pytest.mark.parametrize("name", ["add_rms_norm 4096", "kv_write fp8 128", "sampling_limits"])
def test_what_has_no_product_spills_nothing(name):
    found = compiled(name)
    assert (found.spilled_bytes, found.dots, found.mma) == (0, 0, 0)


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
