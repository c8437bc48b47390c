"""What a client sees when a step gives several tokens."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.backend import Delta, TokenLogprob
from gpuruntime.engine.answer import Answer
from gpuruntime.engine.core import StepOutput
from helpers.engine import byte_tokenizer

BYTES = byte_tokenizer()


def steps(ids: list[int], cuts: list[int]) -> list[StepOutput]:
    """The tokens in groups of the given sizes; the last one ends the text."""
    groups, position = [], 0
    for size in [*cuts, len(ids)]:
        if position < len(ids):
            groups.append(ids[position : position + size])
            position += size
    return [
        StepOutput(
            1, group, "length" if group is groups[-1] else None, None, [TokenLogprob(token, -1.0) for token in group]
        )
        for group in groups
    ]


def drive(answer: Answer, outputs: list[StepOutput]) -> list[Delta]:
    """As whoever drives the engine does: after a stop string the request is aborted, one step late."""
    deltas = []
    for output in outputs:
        if answer.stopped:
            late = output if output.finish_reason is None else output._replace(finish_reason=None)
            assert answer.take(late) is None
            deltas.append(answer.take(StepOutput(1, (), "abort")))
            break
        deltas.append(answer.take(output))
    return [delta for delta in deltas if delta is not None]


@given(
    text=st.text(alphabet="ab€\n", min_size=1, max_size=30),
    stops=st.lists(st.text(alphabet="ab€", min_size=1, max_size=3), max_size=3),
    cuts=st.lists(st.integers(1, 6), max_size=30),
)
@settings(max_examples=300, deadline=None)
def test_several_tokens_a_step_are_what_one_a_step_is(text: str, stops: list[str], cuts: list[int]) -> None:
    ids = BYTES.encode(text).ids
    first = next((end for end in range(len(text) + 1) if text[:end].endswith(tuple(stops))), None) if stops else None
    deltas = drive(Answer(3, BYTES, stops), steps(ids, cuts))

    shown = "".join(delta.text for delta in deltas)
    tokens = [token for delta in deltas for token in delta.token_ids]
    if first is None:
        assert (shown, tokens) == (text, ids)
    else:
        longest = max(len(stop) for stop in stops if text[:first].endswith(stop))
        assert shown == text[: first - longest]
        # The token that completed the stop string is the last that counts.
        assert tokens == BYTES.encode(text[:first]).ids
    reasons = [delta.finish_reason for delta in deltas if delta.finish_reason]
    assert reasons in ([], ["length"] if first is None else ["stop"])
    assert [one.token for delta in deltas for one in delta.logprobs] == tokens
    totals = [delta.completion_tokens for delta in deltas]
    assert totals == [sum(delta.new_tokens for delta in deltas[: i + 1]) for i in range(len(deltas))]
    assert all(delta.new_tokens == len(delta.token_ids) and delta.prompt_tokens == 3 for delta in deltas)


def test_a_pending_beginning_is_given_back_when_an_abort_ends_the_text() -> None:
    answer = Answer(1, BYTES, ["END"])
    first = answer.take(StepOutput(1, BYTES.encode("one EN").ids))
    last = answer.take(StepOutput(1, (), "abort"))
    assert first is not None
    assert last is not None
    assert (first.text, last.text, last.finish_reason) == ("one ", "EN", "abort")
    assert (last.new_tokens, last.completion_tokens) == (0, 6)
