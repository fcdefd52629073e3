# SPDX-License-Identifier: Apache-2.0
"""One message a step, from Python: what it does, in which order, and what comes of parts that are refused."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

import swakv
from swakv.turn import Ahead

Attach = Callable[..., swakv.Session]


def prefilled(session: swakv.Session, slot: int, length: int) -> swakv.Request:
    request = session.begin(slots=[slot])
    request.prefill(length).complete()
    return request


def ends(requests: list[swakv.Request]) -> list[int]:
    return [r.sequence(0).endpoint for r in requests]


def test_one_call_a_step(session: swakv.Session) -> None:
    requests = [prefilled(session, i, 20 + i) for i in range(4)]
    steps = session.turn(prepare=[(r, 1) for r in requests]).steps
    for _ in range(40):
        # the kernels of the step go here
        steps = session.turn(complete=steps, prepare=[(r, 1) for r in requests]).steps
        assert [s.error for s in steps] == [None] * 4
    session.turn(complete=steps)
    assert ends(requests) == [61, 62, 63, 64]


def test_tokens_and_what_is_accepted_of_them(session: swakv.Session) -> None:
    a, b = prefilled(session, 0, 20), prefilled(session, 1, 30)
    steps = session.turn(prepare=[(a, 4), (b, [2])]).steps
    turn = session.turn(complete=[(steps[0], [1]), steps[1]], prepare=[(b, 3)])
    assert ends([a, b]) == [21, 32]
    assert turn.steps[0].request is b
    turn.steps[0].complete(accepted=[2])
    assert ends([b]) == [34]


def test_what_finishes_makes_room_for_what_begins(session: swakv.Session) -> None:
    a, b = prefilled(session, 0, 20), prefilled(session, 1, 30)
    steps = session.turn(prepare=[(a, 1), (b, 1)]).steps
    turn = session.turn(complete=steps, finish=[a], prepare=[(b, 1)], begin=[swakv.Begin([0]), swakv.Begin([1])])
    assert not a.valid
    begun, refused = turn.begun
    assert isinstance(begun, swakv.Request)
    assert begun.slots == [0]
    assert isinstance(refused, swakv.Busy)
    assert turn.unfinished == {}
    begun.prefill(10).complete()
    turn.steps[0].complete()
    assert ends([b, begun]) == [32, 10]


def test_of_a_step_that_cannot_be_completed_nothing_else_is_tried(session: swakv.Session) -> None:
    a, b, c = (prefilled(session, i, 20) for i in range(3))
    old = session.stream().mark()
    steps = session.turn(prepare=[(a, 1), (b, 1), (c, 1)]).steps
    steps[0].complete()  # a, once
    turn = session.turn(complete=steps, prepare=[(a, 1), (b, 1)], finish=[c])
    assert isinstance(steps[0].error, swakv.WrongPhase)
    assert isinstance(turn.steps[0].error, swakv.WrongPhase)
    assert (steps[1].error, turn.steps[1].error) == (None, None)
    assert not c.valid
    assert ends([a]) == [21]
    with pytest.raises(swakv.Invalid, match="mark"):  # nothing is sent
        session.turn(complete=turn.steps[1:], fence=old)
    assert not turn.steps[1].completed
    turn.steps[1].complete()
    assert ends([b]) == [22]


def test_all_refused_is_an_error(session: swakv.Session) -> None:
    a = prefilled(session, 0, 20)
    step = a.step()
    with pytest.raises(swakv.WrongPhase):
        session.turn(prepare=[(a, 1)])
    with pytest.raises(swakv.WrongPhase):
        session.turn(finish=[a])
    step.complete()
    with pytest.raises(swakv.Invalid, match="cannot be done at once"):
        session.turn(finish=[a], prepare=[(a, 1)])
    assert a.valid


def test_a_failed_fence_poisons_before_anything_begins(attach: Attach, model: swakv.Model) -> None:
    with attach(model) as session:
        a, b = prefilled(session, 0, 20), prefilled(session, 1, 20)
        step = a.step()
        with pytest.raises(swakv.Poisoned):
            session.turn(complete=[step], prepare=[(b, 1)], begin=[swakv.Begin([2])], fence=swakv.FAILED)
        assert isinstance(step.error, swakv.Poisoned)
        assert not a.valid


def test_collected_when_the_next_step_is_due(session: swakv.Session) -> None:
    a = prefilled(session, 0, 20)
    turn = session.start_turn(prepare=[(a, 1)])
    for _ in range(30):
        steps = turn.wait().steps
        turn = session.start_turn(complete=steps, prepare=[(a, 1)])
        assert steps[0].completed
    while not turn.poll():
        pass
    assert turn.steps[0].error is None
    turn.steps[0].complete()
    assert ends([a]) == [51]


def test_what_a_dropped_turn_has_begun_goes_back(session: swakv.Session) -> None:
    free = session.free_pages()
    turn = session.start_turn(begin=[swakv.Begin([0]), swakv.Begin([0])])
    del turn
    gc.collect()
    session.ping()  # behind it: the broker has answered
    session.ping()  # collects it, and frees what it got
    session.ping()
    with session.begin(slots=[0]):
        pass
    session.ping()
    assert session.free_pages() == free


def test_steps_are_prepared_ahead(session: swakv.Session) -> None:
    request = prefilled(session, 0, 20)
    request.step()
    ahead = Ahead(request)
    for _ in range(100):
        # the work of the pending step goes here
        ahead.turn()
        assert ahead.under_way
        assert ahead.collect() is not None
    assert ends([request]) == [120]
    assert request.state.transition != "none"
    ahead.turn()
    with pytest.raises(swakv.WrongPhase):  # behind it: the last step is complete, another is prepared
        request.step()
    step = ahead.collect()
    assert step is not None
    step.complete()
    assert ends([request]) == [122]


def test_a_step_that_cannot_be_prepared_ahead_is_told(attach: Attach, model: swakv.Model) -> None:
    with attach(model) as session:
        request = session.begin(slots=[0], max_tokens=21)
        request.prefill(20).complete()
        request.step()
        ahead = Ahead(request)
        ahead.turn()
        assert ahead.collect() is None
        assert ends([request]) == [21]
        assert request.state.phase == "finishing"
        with pytest.raises(swakv.WrongPhase):
            ahead.turn()
            ahead.collect()


def test_an_abandoned_turn_takes_effect_all_the_same(session: swakv.Session) -> None:
    request = prefilled(session, 0, 20)
    request.step()
    ahead = Ahead(request)
    ahead.turn()
    del ahead
    gc.collect()
    session.ping()
    assert ends([request]) == [21]
    assert request.state.transition != "none"
