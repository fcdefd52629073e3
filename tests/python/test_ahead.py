# SPDX-License-Identifier: Apache-2.0
"""Steps that are prepared while the one before runs: marked by themselves, and launched from a graph, in one call each."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import fake_gpu
import pytest

import swakv
from swakv.turn import Ahead

Attach = Callable[..., swakv.Session]
needs_a_driver = pytest.mark.skipif(not fake_gpu.DRIVER.exists(), reason="this build has no CUDA backend")


@pytest.fixture
def gpu(model: swakv.Model) -> Iterator[swakv.Session]:
    with fake_gpu.broker() as b, fake_gpu.attach(b, model) as session:
        yield session


def begun(session: swakv.Session, length: int = 20, **how: Any) -> swakv.Request:
    request = session.begin(slots=[0], **how)
    request.prefill(length).complete()
    request.step()
    return request


def counted(session: swakv.Session, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the library's functions that are called from now on."""
    calls: list[str] = []
    right = session._lib

    class Counting:
        def __getattr__(self, name: str) -> Any:
            function = getattr(right, name)

            def call(*arguments: Any) -> Any:
                calls.append(name)
                return function(*arguments)

            return call

    monkeypatch.setattr(session, "_lib", Counting())
    return calls


def test_a_step_is_two_calls(session: swakv.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    request, calls = begun(session), counted(session, monkeypatch)
    ahead = Ahead(request)
    calls.clear()
    for _ in range(50):
        ahead.turn()
        assert ahead.collect() is not None
    waits = calls.count("swakv_wait_for")  # a broker that was not awake
    assert len(calls) - waits == 100, calls
    assert request.sequence(0).endpoint == 70


@needs_a_driver
def test_a_replayed_step_is_one_call(gpu: swakv.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = fake_gpu.capture(gpu)
    request, calls = begun(gpu), counted(gpu, monkeypatch)
    ahead = Ahead(request)
    calls.clear()
    for _ in range(200):
        assert ahead.replay(graph)
    late = calls.count("swakv_poll")  # and then it is called again
    assert calls.count("swakv_step_cycle") - late == 200, calls
    assert set(calls) <= {"swakv_step_cycle", "swakv_poll", "swakv_wait_for"}
    step = ahead.collect()
    assert step is not None
    step.complete()
    assert request.sequence(0).endpoint == 221


@needs_a_driver
def test_a_replay_of_a_step_that_was_refused_launches_nothing(gpu: swakv.Session) -> None:
    graph = fake_gpu.capture(gpu)
    request = begun(gpu, max_tokens=22)
    ahead = Ahead(request)
    assert ahead.replay(graph)
    assert ahead.replay(graph)
    before = gpu.stream().mark()
    assert not ahead.replay(graph)
    assert gpu.stream().mark().value == before.value + 1
    assert not ahead.under_way
    with pytest.raises(swakv.WrongPhase):
        request.step()


def test_one_that_is_dropped_takes_effect_all_the_same(session: swakv.Session) -> None:
    request = begun(session)
    ahead = Ahead(request)
    ahead.turn()
    del ahead
    gc.collect()
    session.ping()
    session.ping()
    assert not session._calls.flights
    assert request.sequence(0).endpoint == 21


def test_of_a_session_that_was_closed(attach: Attach, model: swakv.Model) -> None:
    session = attach(model)
    ahead = Ahead(begun(session))
    ahead.turn()
    session.close()
    with pytest.raises(swakv.Gone, match="closed"):
        ahead.collect()
