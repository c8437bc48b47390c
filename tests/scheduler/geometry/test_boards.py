"""The table against facts that are written out here a second time, and its own consistency."""

from __future__ import annotations

import pytest

from scheduler.geometry.boards import Board, UnknownBoard, board, board_of_pci, boards

EVERY = [pytest.param(found, id=key) for key, found in boards().items()]


@pytest.mark.parametrize("found", EVERY)
def test_no_instance_is_larger_than_its_part_of_the_gpu(found: Board) -> None:
    for cut in (found.mig, found.shares, found.whole):
        for profile in cut.profiles:
            # The units that hold no compute slice may be given to a neighbour: a profile has at most one more.
            assert profile.memory_mib * cut.units <= found.memory_mib * profile.size * 1.03, profile.name
            assert profile.sms <= found.sms
            assert 1 <= profile.max_instances <= len(profile.starts)


@pytest.mark.parametrize("found", EVERY)
def test_every_field_that_is_known_from_elsewhere_says_how_well(found: Board) -> None:
    assert {"id", "memory_mib", "sms", "starts"} <= set(found.evidence)
    assert {text[0] for text in found.evidence.values()} <= set("RDMU")


@pytest.mark.parametrize("found", EVERY)
def test_parts_of_a_shared_gpu_never_promise_more_than_it_has(found: Board) -> None:
    for profile in found.shares.profiles:
        copies = found.shares.units // profile.size
        assert copies * profile.memory_mib <= found.memory_mib
        assert copies * profile.sms <= found.sms
        assert profile.sms % found.mps_chunk_sms == 0


def test_the_boards_are_those_that_are_promised() -> None:
    assert set(boards()) == {
        *("a30-24gb", "a100-40gb", "a100-80gb", "h100-sxm-80gb", "h100-pcie-80gb", "h100-nvl-94gb"),
        *("h200-141gb", "b200-180gb", "rtx-pro-6000-96gb"),
    }


def test_multiprocessors_are_not_in_proportion_on_hopper() -> None:
    sxm, pcie = board("h100-sxm-80gb").mig, board("h100-pcie-80gb").mig
    assert [sxm.profile(name).sms for name in ("1g.10gb", "1g.20gb", "3g.40gb", "4g.40gb")] == [16, 26, 60, 64]
    assert [pcie.profile(name).sms for name in ("1g.10gb", "1g.20gb", "3g.40gb", "4g.40gb")] == [14, 14, 46, 62]


def test_the_two_numberings_are_kept_apart() -> None:
    cut = board("h200-141gb").mig
    assert (cut.profile("1g.35gb").id, cut.profile("1g.35gb").enum) == (15, 9)
    assert cut.profile_by_id(9).name == "3g.71gb"


def test_a_board_is_found_by_its_pci_device() -> None:
    assert board_of_pci("0x2bb5").key == "rtx-pro-6000-96gb"
    assert board_of_pci("2335").key == "h200-141gb"
    with pytest.raises(UnknownBoard, match="26B9"):
        board_of_pci("26B9")


def test_what_is_not_there_is_named_with_what_is() -> None:
    with pytest.raises(UnknownBoard, match=r"h300.*a30-24gb"):
        board("h300")
    with pytest.raises(LookupError, match=r"5g\.50gb.*7g\.80gb"):
        board("h100-sxm-80gb").mig.profile("5g.50gb")
