from __future__ import annotations

from scheduler.watch import NODE_HEARD_S, TICK_GAP_S, Watch, look


def test_absence_is_counted_from_the_tick_that_first_saw_it() -> None:
    watch = look(None, now=100, any_node_heard=True, missing=["a"])
    assert watch == Watch(ticked_at=100, observing_since=100, missing_since={"a": 100})
    watch = look(watch, now=102, any_node_heard=True, missing=["a", "b"])
    assert watch == Watch(ticked_at=102, observing_since=100, missing_since={"a": 100, "b": 102})
    watch = look(watch, now=104, any_node_heard=True, missing=["b"])
    assert watch == Watch(ticked_at=104, observing_since=100, missing_since={"b": 102})


def test_a_pause_between_ticks_begins_anew() -> None:
    watch = Watch(ticked_at=100, observing_since=50, missing_since={"a": 99})
    assert look(watch, now=100 + TICK_GAP_S, any_node_heard=True, missing=["a"]).observing_since == 50
    later = 100 + TICK_GAP_S + 0.1
    expected = Watch(ticked_at=later, observing_since=later, missing_since={"a": later})
    assert look(watch, now=later, any_node_heard=True, missing=["a"]) == expected
    assert look(watch, now=90, any_node_heard=True, missing=["a"]).observing_since == 90  # a clock set back


def test_while_no_node_is_heard_nothing_is_missing_and_afterwards_it_begins_anew() -> None:
    watch = Watch(ticked_at=100, observing_since=50, missing_since={"a": 99})
    blind = look(watch, now=102, any_node_heard=False, missing=["a", "b"])
    assert blind == Watch(ticked_at=102)
    again = look(blind, now=104, any_node_heard=True, missing=["a"])
    assert again == Watch(ticked_at=104, observing_since=104, missing_since={"a": 104})


def test_nodes_report_more_often_than_they_are_given_up() -> None:
    assert NODE_HEARD_S >= 2
