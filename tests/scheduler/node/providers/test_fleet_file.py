"""A fleet that a file makes up, and what is put wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.geometry.boards import board
from scheduler.node.providers.base import CutCode, CutError, ProviderError
from scheduler.node.providers.fleet_file import node_names, read_node
from scheduler.node.providers.simulated import INJECTIONS, SimulatedProvider

REPOSITORY = Path(__file__).parents[4]
HEAD = '[[node]]\nname = "n"\n'


def test_the_eight_h100s_of_the_example() -> None:
    path = REPOSITORY / "examples" / "fleet-8xh100.toml"
    (name,) = node_names(path)
    devices, host = read_node(path, name)
    h100 = board("h100-sxm-80gb")
    assert [device.index for device in devices] == list(range(8))
    assert {(d.board, d.name, d.memory_bytes, d.units, d.kind) for d in devices} == {
        (h100.key, h100.name, h100.memory_bytes, h100.units, "simulated")
    }
    assert len({device.uuid for device in devices}) == 8
    assert host.cpu_count > 0


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "examples" / "fleets").glob("*.toml")), ids=lambda path: path.stem
)
def test_every_example_describes_its_nodes(path: Path) -> None:
    for name in node_names(path):
        assert read_node(path, name)[0]


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        ('board = "h100"', "no GPU type 'h100'; known are a30-24gb"),
        ('board = "h200-141gb"\nunits = 8', "takes units from the table; remove it here"),
        ('board = "a30-24gb"\nkinds = ["half"]', "it must name some of whole, mig, mps, time-slice"),
        ('board = "a30-24gb"\nkinds = ["mig"]', "its MIG mode is off and changes with a reset only; add `mig = true`"),
        ('board = "a100-40gb"\nkinds = ["whole"]\nmig = true', "name mig in 'kinds', or remove `mig = true`"),
        ('board = "a30-24gb"\nmig = 1', "'mig' is 1; it must be true or false"),
        ('name = "x"\nmemory_gb = 8\nmig = true', "'mig' is for a GPU with a board"),
        ('name = "x"', "'memory_gb' is None; it must be a number above 0"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, gpu: str, said: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(f"{HEAD}[[node.gpu]]\n{gpu}\n")
    with pytest.raises(ProviderError, match=said):
        read_node(path, "n")


def test_a_board_is_what_the_file_lets_it_be(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(f'{HEAD}[[node.gpu]]\nboard = "a30-24gb"\nkinds = ["mps", "whole"]\n')
    (device,) = read_node(path, "n")[0]
    assert (device.kinds, sorted(device.unable)) == (["whole", "mps"], ["mig", "time-slice"])


def provider_of(folder: Path, gpu: str) -> SimulatedProvider:
    (folder / "fleet.toml").write_text(f"{HEAD}[[node.gpu]]\n{gpu}\n")
    return SimulatedProvider(node="n", path=folder / "fleet.toml", state=folder)


def test_an_operator_has_switched_mig_mode_on(tmp_path: Path) -> None:
    provider = provider_of(tmp_path, 'board = "a30-24gb"\nmig = true')
    (device,) = provider.devices([])
    assert device.kinds == ["mig"]
    assert "say `mig = false` of it in the fleet file" in device.unable["whole"]
    assert provider.cutter is not None
    made = provider.cutter.create(device.uuid, 14, 2)
    # Nobody resets a GPU that has an instance; without one the file decides when the agent starts.
    again = provider_of(tmp_path, 'board = "a30-24gb"\nmig = false')
    assert again.devices([])[0].kinds == ["mig"]
    provider.cutter.destroy(device.uuid, made.gi_id)
    again = provider_of(tmp_path, 'board = "a30-24gb"\nmig = false')
    assert again.devices([])[0].kinds == ["whole", "mps", "time-slice"]
    assert again.cutter is not None
    assert not again.cutter.mig_mode(device.uuid).current
    assert SimulatedProvider(node="n", path=tmp_path / "fleet.toml").devices([])[0].kinds == again.devices([])[0].kinds


def test_where_it_needs_no_reset_the_mode_is_only_how_it_begins(tmp_path: Path) -> None:
    gpu = 'board = "h100-sxm-80gb"\nmig = true'
    provider = provider_of(tmp_path, gpu)
    (device,) = provider.devices([])
    assert device.kinds == ["whole", "mig", "mps", "time-slice"]
    assert provider.cutter is not None
    assert provider.cutter.mig_mode(device.uuid).current
    provider.cutter.set_mig_mode(device.uuid, False)
    again = provider_of(tmp_path, gpu).cutter
    assert again is not None
    assert not again.mig_mode(device.uuid).current


def test_tables_for_others_are_left_to_them(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(f'{HEAD}[[node.gpu]]\nboard = "a30-24gb"\n[[deployment]]\nname = "d"\n')
    assert len(read_node(path, "n")[0]) == 1


def test_what_is_injected_takes_effect_at_once_and_damage_is_none(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(f'{HEAD}[[node.gpu]]\nboard = "h100-sxm-80gb"\ncount = 2\n')
    provider = SimulatedProvider(node="n", path=path, state=tmp_path)
    assert provider.cutter is not None
    injections = tmp_path / INJECTIONS
    injections.write_text('{"signals": {"1": {"ecc_uncorrected": 2, "lost": true}}}')
    first, second = provider.devices([])
    assert first.signals is not None
    assert second.signals is not None
    assert (first.signals.lost, second.signals.lost, second.signals.ecc_uncorrected) == (False, True, 2)
    with pytest.raises(CutError) as caught:
        provider.cutter.mig_mode(second.uuid)
    assert caught.value.code is CutCode.LOST
    assert not provider.cutter.mig_mode(first.uuid).current
    injections.write_text("{")
    assert not provider.cutter.mig_mode(second.uuid).current


def test_devices_without_a_board_cannot_be_cut(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    by_hand = '[[node.gpu]]\nname = "x"\nmemory_gb = 8\n'
    path.write_text(f'{HEAD}{by_hand}[[node.gpu]]\nboard = "a30-24gb"\n')
    provider = SimulatedProvider(node="n", path=path, state=tmp_path)
    assert provider.cutter is not None
    with pytest.raises(CutError) as caught:
        provider.cutter.instances(provider.devices([])[0].uuid)
    assert caught.value.code is CutCode.NOT_SUPPORTED
    path.write_text(f"{HEAD}{by_hand}")
    assert SimulatedProvider(node="n", path=path, state=tmp_path).cutter is None
