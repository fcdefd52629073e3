# SPDX-License-Identifier: Apache-2.0
"""One message a step: which steps have ended, who is through, who begins, what comes next (spec section 12)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _abi, errors
from .call import SHARED_SLICE_MS, Flight, Ticket
from .request import Request, Step, wanted_step
from .stream import Fence

if TYPE_CHECKING:
    from .session import Session


@dataclass(frozen=True)
class Begin:
    """A request that begins with a turn. It does not wait for pages. Arguments: those of Session.begin()."""

    slots: Sequence[int]
    max_tokens: int = 0
    stream: int = 0


class Turn:
    """Made by Session.start_turn(). wait() for its answer before the work of the next steps is enqueued.

    Once it has been collected: `steps` are those that were to be prepared, in their order, Step.error where one was refused;
    `begun` has a Request, or the error, for each begin; `unfinished` the error of each request that could not be finished. A
    step that was to be completed has its own `error`.
    """

    def __init__(self, session: Session) -> None:
        self.steps: list[Step] = []
        self.begun: list[Request | errors.Error] = []
        self.unfinished: dict[Request, errors.Error] = {}
        self._session = session
        self._keep: list[Any] = []
        self._places: dict[Request, dict[str, Any]] = {}
        self._begins: list[Begin] = []
        self._completes: list[Step] = []
        self._ticket: Ticket | None = None

    # ---- what it says ------------------------------------------------------------------

    def _entry(self, request: Request) -> dict[str, Any]:
        return self._places.setdefault(request, {"what": 0, "request": request._handle})

    def _ints(self, values: Any) -> Any:
        self._keep.append(values)
        return values

    def _ask(
        self,
        complete: Sequence[Step | tuple[Step, Sequence[int]]],
        prepare: Sequence[tuple[Request, int | Sequence[int]]],
        finish: Sequence[Request],
        begin: Sequence[Begin],
        fence: Fence | None,
    ) -> None:
        marks: dict[int, Fence] = {}
        for item in complete:
            step, accepted = item if isinstance(item, tuple) else (item, None)
            if not isinstance(step, Step):
                raise TypeError(f"{step!r} is to be completed; wanted: a Step, or (step, accepted)")
            entry, stream = self._entry(step.request), step.request._stream
            if fence is None and stream not in marks:
                marks[stream] = step.request.stream.mark()
            entry["what"] |= _abi.TURN_COMPLETE
            entry["fence"] = (fence or marks[stream]).to_c()
            if accepted is not None:
                entry["accepted"] = self._ints(_abi.int32s(accepted))
            self._completes.append(step)
        for request in finish:
            if not isinstance(request, Request):
                raise TypeError(f"{request!r} is to finish; wanted: a Request")
            self._entry(request)["what"] |= _abi.TURN_FINISH
        for request, tokens in map(wanted_step, prepare):
            entry = self._entry(request)
            entry["what"] |= _abi.TURN_PREPARE
            if not (isinstance(tokens, int) and tokens == 1):
                entry["tokens"] = self._ints(request._counts(tokens))
            self.steps.append(Step(request, self._session._lib.swakv_extend_complete, extend=True))
        self._begins = list(begin)

    def _list(self) -> Any:
        entries = list(self._places.values())
        for b in self._begins:
            slots = self._ints(_abi.int32s(b.slots))
            options = _abi.BeginOptions(stream=b.stream, slots=slots, n_slots=len(slots), max_tokens=b.max_tokens)
            entries.append({"what": _abi.TURN_BEGIN, "begin": ctypes.pointer(self._ints(options))})
        turns = (_abi.Turn * len(entries))()
        for c, entry in zip(turns, entries, strict=True):
            c.size = ctypes.sizeof(_abi.Turn)
            for name, value in entry.items():
                setattr(c, name, value)
        return turns

    def _send(self) -> None:
        turns = self._turns = self._list()
        orphans, first = self._session._orphans, len(self._places)
        self._ticket = self._session._calls.start(
            self._session._lib.swakv_step_turn,
            turns,
            len(turns),
            keep=self._keep,
            undo=lambda: orphans.extend(c.request for c in turns[first:] if c.result == 0 and c.request),
        )
        for step in self._completes:
            step.completed = True

    # ---- what came of it ------------------------------------------------------------------

    def wait(self) -> Turn:
        """Waits for the broker. Raises when all that was asked for was refused. Returns itself."""
        assert self._ticket is not None
        refused = None
        try:
            self._ticket.wait()
        except errors.TimedOut:
            raise
        except errors.Error as e:
            refused = e
        self._take(refused)
        return self

    def poll(self) -> bool:
        """True when the answer is there; then it has been collected, and the rest is as with wait()."""
        assert self._ticket is not None
        refused = None
        try:
            if not self._ticket.poll():
                return False
        except errors.Error as e:
            refused = e
        self._take(refused)
        return True

    def _take(self, refused: errors.Error | None) -> None:
        codes = [code for c in self._turns for code in self._codes(c)]
        if self._begins and not self.begun:
            self._take_begun(refused)
        if refused is None:
            return
        results = dict(zip(self._places, self._turns, strict=False))
        for step in self._completes:
            step.error = self._error(results[step.request].completed, refused)
            step.completed = step.error is None
        for step in self.steps:
            step.error = self._error(results[step.request].result, refused)
        for request, c in results.items():
            if c.what & _abi.TURN_FINISH and c.result:
                self.unfinished[request] = self._error(c.result, refused) or refused
        if all(codes):
            raise refused

    def _take_begun(self, refused: errors.Error | None) -> None:
        for b, c in zip(self._begins, self._turns[len(self._places) :], strict=True):
            if c.result == 0:
                self.begun.append(Request(self._session, c.request, b.stream))
            else:
                self.begun.append(self._error(c.result, refused) or errors.of(c.result, ""))

    @staticmethod
    def _codes(c: _abi.Turn) -> list[int]:
        """A result for each part of the entry."""
        parts = [c.completed] if c.what & _abi.TURN_COMPLETE else []
        return parts if c.what == _abi.TURN_COMPLETE else [*parts, c.result]

    def _error(self, code: int, refused: errors.Error | None) -> errors.Error | None:
        """The library has a sentence about the first entry that was refused only."""
        if code == 0:
            return None
        if refused is not None and refused.code == code:
            return refused
        return errors.of(code, self._session._lib.swakv_error_text(code).decode())


class Ahead:
    """Steps of one token of one request, each prepared while the work of the one before runs.

    turn() behind a step's work, collect() when the next is due; or replay() for both, where the work is a CUDA graph. None of
    them waits for a broker that answers within a step, and each is one call of the library, whose arguments are made once.
    """

    def __init__(self, request: Request) -> None:
        session = request.session
        self._session, self._request, self._lock = session, request, session._lock
        self._call, self._poll = session._lib.swakv_step_cycle, session._lib.swakv_poll
        turns = (_abi.Turn * 1)()
        self._turn = turns[0]
        self._turn.size = ctypes.sizeof(_abi.Turn)
        self._turn.what = _abi.TURN_COMPLETE | _abi.TURN_PREPARE
        self._turn.request = request._handle
        self._cycle = _abi.Cycle(stream=request._stream, turns=turns, n=1, wait_ms=SHARED_SLICE_MS)
        self._at = ctypes.byref(self._cycle)
        self._flight = Flight((turns, self._cycle), None)

    def __del__(self) -> None:
        cycle = getattr(self, "_cycle", None)
        if cycle is not None and cycle.ticket:
            calls = self._session._calls
            calls.flights[cycle.ticket] = self._flight
            calls.forgotten.append(cycle.ticket)

    @classmethod
    def of(cls, before: Ahead | None, request: Request) -> Ahead:
        """@before if that is of @request, else a new one."""
        return before if before is not None and before._request is request else cls(request)

    @property
    def under_way(self) -> bool:
        """True between turn() and collect()."""
        return bool(self._cycle.ticket)

    @property
    def _only_refused(self) -> bool:
        """Of a turn that was collected: the last step is complete, and the next one was refused."""
        return self._turn.completed == 0 and self._turn.result != 0

    def turn(self, fence: Fence | None = None) -> None:
        """The work of the pending step has been enqueued: completes it, prepares the next. fence: None: marks the stream."""
        assert not self._cycle.ticket
        session = self._session
        with self._lock:
            handle = session._enter()
            if fence is None:
                self._cycle.graph = None
                session.check(self._call(handle, self._at))
            else:
                self._turn.fence, out = fence.to_c(), ctypes.c_uint64()
                session.check(session._lib.swakv_step_turn(handle, self._cycle.turns, 1, ctypes.byref(out)))
                self._cycle.ticket = out.value

    def replay(self, graph_exec: int) -> bool:
        """collect(), a launch of @graph_exec (a CUgraphExec) as the step's work, and turn().

        False: the step was refused, as Request.step() will be, and nothing was launched. Raises when the last one could not be
        completed, or the launch fails: the step is then still prepared.
        """
        session, cycle = self._session, self._cycle
        cycle.graph = graph_exec
        with self._lock:
            result = self._call(session._enter(), self._at)
            if session._callback_error is not None:
                session._raise_callback_error()
            if result == 0:
                return True
            if not cycle.ticket:
                if self._only_refused:
                    return False
                session.check(result)
            if result != errors.TimedOut.code:
                session.check(result)
        return self._answered() and self.replay(graph_exec)

    def collect(self) -> Step | None:
        """The next step; None: it was refused, as Request.step() will be. Raises when the last one could not be completed."""
        assert self._cycle.ticket
        if not self._answered():
            return None
        return Step(self._request, self._session._lib.swakv_extend_complete, extend=True)

    def _answered(self) -> bool:
        """Waits for the answer to the last turn. False: its prepare was refused."""
        session, cycle = self._session, self._cycle
        with self._lock:
            result = self._poll(session._enter(), cycle.ticket)
            if session._callback_error is not None:
                session._raise_callback_error()
            if result != _abi.EAGAIN:
                cycle.ticket = 0
                if not self._only_refused:
                    session.check(result)
                return result == 0
        ticket = Ticket(session._calls, cycle.ticket, self._flight)
        try:
            ticket.wait()
        except errors.Error:
            if not ticket.collected or not self._only_refused:
                raise
            return False
        finally:
            if ticket.collected:
                cycle.ticket = 0
            ticket.collected = True  # or it stays here, and is nobody else's to collect
        return True
