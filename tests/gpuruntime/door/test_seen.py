"""What counts as new in a prompt, against a brute-force memory of whole prefixes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.door.seen import SeenBlocks, block_hashes

prompts = st.lists(
    st.tuples(st.lists(st.integers(0, 2), max_size=5), st.integers(0, 20), st.sampled_from([b"a", b"b"]))
)


@given(prompts)
def test_new_tokens_equal_those_after_the_longest_remembered_prefix_of_blocks(
    drawn: list[tuple[list[int], int, bytes]],
) -> None:
    seen = SeenBlocks()
    remembered: set[tuple[bytes, tuple[int, ...]]] = set()
    for blocks, tail, salt in drawn:
        tokens = [token for value in blocks for token in [value] * 16] + [9] * tail
        prefixes = [tuple(tokens[:end]) for end in range(16, len(tokens) + 1, 16)]
        known = 0
        while known < len(prefixes) and (salt, prefixes[known]) in remembered:
            known += 1
        hashes = block_hashes(tokens, salt)
        assert len(hashes) == len(prefixes)
        assert seen.new_tokens(hashes, len(tokens)) == len(tokens) - 16 * known
        seen.remember(hashes)
        remembered.update((salt, prefix) for prefix in prefixes)


def test_the_memory_is_bounded_and_forgets_the_least_recent() -> None:
    seen = SeenBlocks(capacity=2)
    first, second, third = (block_hashes([n] * 16, b"") for n in range(3))
    seen.remember(first)
    seen.remember(second)
    seen.remember(first)
    seen.remember(third)
    assert [seen.new_tokens(hashes, 16) for hashes in (first, second, third)] == [0, 16, 0]
