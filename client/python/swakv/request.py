# SPDX-License-Identifier: Apache-2.0
"""A request: a batch of sequences from admission to end (spec section 3)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _abi, errors
from .call import Ticket
from .state import RequestState, SequenceState, read_request, read_sequence
from .stream import Fence, Stream

if TYPE_CHECKING:
    from .session import Session


def wanted_step(entry: Any) -> Any:
    """@entry of a list of what is to be prepared, if it is one."""
    if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], Request)):
        raise TypeError(f"{entry!r} is to be prepared; wanted: (request, tokens)")
    return entry


class Request:
    """Made by Session.begin(). Finish it, or use it as a context manager (which finishes, or abandons on an error)."""

    def __init__(self, session: Session, handle: int, stream: int) -> None:
        self.session, self._handle, self._stream = session, handle, stream

    @classmethod
    def begin(cls, session: Session, slots: Sequence[int], max_tokens: int, stream: int, wait: float) -> Request:
        wanted = _abi.int32s(slots, "slots")
        wait_ms = _abi.milliseconds("wait", wait)
        most, stream = _abi.number("max_tokens", max_tokens, 63), _abi.number("stream", stream)
        options = _abi.BeginOptions(stream=stream, slots=wanted, n_slots=len(wanted), max_tokens=most, wait_ms=wait_ms)
        out = ctypes.c_void_p()
        ticket = session._calls.start(
            session._lib.swakv_request_begin,
            ctypes.byref(options),
            ctypes.byref(out),
            keep=(options, wanted, out),
            undo=lambda: session._orphans.append(out.value) if out.value else None,
        )
        ticket.wait_or_withdraw(wait)
        assert out.value is not None
        return cls(session, out.value, stream)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle:
            self._handle = 0
            self.session._orphans.append(handle)

    def __enter__(self) -> Request:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self.session.closed or not self._handle:
            return
        try:
            if kind is None and self.valid:
                self.finish()
        finally:
            self.free()

    def free(self) -> None:
        """Frees the handle. A request that is still alive is abandoned, without waiting."""
        handle, self._handle = self._handle, 0
        if handle and not self.session.closed:
            self.session._orphans.append(handle)
            with self.session.locked():
                pass  # frees what is there

    def start(self, function: Callable[..., int], *arguments: Any) -> Ticket:
        if not self._handle:
            raise errors.Invalid("the request has been freed")
        return self.session._calls.start(function, *arguments, first=self._handle)

    def call(self, function: Callable[..., int], *arguments: Any) -> None:
        self.start(function, *arguments).wait()

    # ---- what it is ------------------------------------------------------------------

    @property
    def valid(self) -> bool:
        """False once it has ended: finished, abandoned, poisoned, or with its session."""
        with self.session.locked():
            return bool(self._handle) and bool(self.session._lib.swakv_request_valid(self._handle))

    def __len__(self) -> int:
        """Sequences of the request now."""
        with self.session.locked():
            return int(self.session._lib.swakv_request_batch(self._handle)) if self._handle else 0

    @property
    def slots(self) -> list[int]:
        """Row of the tables of each sequence."""
        n = len(self)
        with self.session.locked():
            return [self.session._lib.swakv_request_slot(self._handle, i) for i in range(n)]

    @property
    def stream(self) -> Stream:
        return Stream(self.session, self._stream)

    @property
    def state(self) -> RequestState:
        """Phase, pending transition, open completion points. Asks the broker."""
        return read_request(self.session, self._handle)

    def sequence(self, index: int, group: int = 0) -> SequenceState:
        """State of one sequence in one layer group: endpoint, retained pages, bindings. Asks the broker."""
        return read_sequence(self.session, self._handle, index, group)

    # ---- its life --------------------------------------------------------------------

    def prefill(self, lengths: Sequence[int] | int) -> Step:
        """Prepares the prompts: tokens of each sequence. Once, and first; longer prompts go on with step()."""
        lib = self.session._lib
        values = self._counts(lengths)
        self.call(lib.swakv_prefill_prepare, values, len(values))
        return Step(self, lib.swakv_prefill_complete)

    def step(self, tokens: Sequence[int] | int = 1) -> Step:
        """Prepares the next step: one token for every sequence, or @tokens (of all, or of each)."""
        lib = self.session._lib
        if isinstance(tokens, int) and tokens == 1:
            self.call(lib.swakv_decode_prepare)
            return Step(self, lib.swakv_decode_complete)
        values = self._counts(tokens)
        self.call(lib.swakv_extend_prepare, values, len(values))
        return Step(self, lib.swakv_extend_complete, extend=True)

    extend = step

    def rewind(self, tokens: Sequence[int] | int) -> None:
        """Takes back the last tokens of each sequence, at most max_rewind below its longest. Between steps."""
        values = self._counts(tokens)
        self.call(self.session._lib.swakv_rewind, values, len(values))

    def compact(
        self,
        old_to_new: Sequence[int],
        *,
        new_batch: int | None = None,
        move_rows: bool = False,
        device_mapping: int = 0,
    ) -> Step:
        """Renumbers and drops sequences: destination of each, or -1. Complete it as a step.

        new_batch: None: as many as stay. move_rows: sequence i moves to the row of the i-th slot of the request.
        device_mapping: address of int32[batch] that gets a copy of the mapping in stream order; 0: none.
        """
        values = _abi.int32s(old_to_new)
        batch = sum(v >= 0 for v in old_to_new) if new_batch is None else new_batch
        flags = _abi.COMPACT_MOVE_ROWS if move_rows else 0
        lib = self.session._lib
        self.call(lib.swakv_compact_begin, values, len(values), batch, flags, device_mapping)
        return Step(self, lib.swakv_compact_complete)

    def reserve(self, max_tokens: int) -> None:
        """Raises max_tokens of begin, and reserves what that needs, or nothing."""
        self.call(self.session._lib.swakv_request_reserve, max_tokens)

    def pin(self) -> None:
        """The pages of the request stay where they are, until unpin(): for what holds their ids beside the tables."""
        self.call(self.session._lib.swakv_request_pin)

    def unpin(self) -> None:
        """Ends that: pages of groups that are movable may move again with a step."""
        self.call(self.session._lib.swakv_request_unpin)

    def finish(self) -> None:
        """Ends the request; its pages return at its last completion point."""
        self.call(self.session._lib.swakv_request_finish)

    def abandon(self) -> None:
        """As finish(), also with a step pending: its stream is marked, and the pages return there."""
        self.call(self.session._lib.swakv_request_abandon)

    def _counts(self, tokens: Sequence[int] | int) -> Any:
        return _abi.int32s([tokens] * len(self) if isinstance(tokens, int) else tokens, "tokens")


class Step:
    """A prepared step: enqueue its work, then complete() it.

    As a context manager it completes at the end of the block; when the block raises, the request is abandoned, since
    nobody knows what its tokens hold.
    """

    def __init__(self, request: Request, complete: Callable[..., int], extend: bool = False) -> None:
        self.request = request
        self.error: errors.Error | None = None
        self._complete, self._extend = complete, extend
        self.completed = False

    def complete(self, fence: Fence | None = None, accepted: Sequence[int] | None = None) -> None:
        """The step's work has been enqueued.

        fence: behind that work; None: marks the request's stream. accepted: tokens of each sequence that stay, after a
        step of several tokens on a model with chunk="mapped"; None: all.
        """
        self.start_complete(fence, accepted).wait()

    def start_complete(self, fence: Fence | None = None, accepted: Sequence[int] | None = None) -> Ticket:
        """As complete(), without waiting for the broker: wait for the ticket before the request's next call."""
        if fence is None:
            fence = self.request.stream.mark()
        elif not isinstance(fence, Fence):
            raise TypeError(f"fence is {fence!r}; wanted: what Stream.mark() gave, swakv.DONE or swakv.FAILED")
        if not self._extend:
            if accepted is not None:
                raise errors.Invalid("accepted is for steps of several tokens")
            ticket = self.request.start(self._complete, fence.to_c())
        else:
            values = None if accepted is None else _abi.int32s(accepted)
            ticket = self.request.start(self._complete, fence.to_c(), values, 0 if values is None else len(values))
        self.completed = True
        return ticket

    def __enter__(self) -> Step:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self.completed:
            return
        if kind is None:
            self.complete()
        elif not self.request.session.closed and self.request.valid:
            self.request.abandon()

    # ---- many requests ---------------------------------------------------------------

    @staticmethod
    def prepare_many(session: Session, entries: Sequence[tuple[Request, int | Sequence[int]]]) -> list[Step]:
        lib = session._lib
        steps, keep = (_abi.Step * len(entries))(), []
        for c, (request, tokens) in zip(steps, map(wanted_step, entries), strict=True):
            c.size, c.request = ctypes.sizeof(_abi.Step), request._handle
            if not (isinstance(tokens, int) and tokens == 1):
                keep.append(request._counts(tokens))
                c.tokens = keep[-1]
        return Step._many(session, lib.swakv_step_prepare, steps, [r for r, _ in entries], keep)

    @staticmethod
    def complete_many(session: Session, steps: Sequence[Step], fence: Fence | None) -> None:
        marks: dict[int, Fence] = {}
        entries = (_abi.Step * len(steps))()
        for c, step in zip(entries, steps, strict=True):
            stream = step.request._stream
            if fence is None and stream not in marks:
                marks[stream] = step.request.stream.mark()
            c.size, c.request = ctypes.sizeof(_abi.Step), step.request._handle
            c.fence = (fence or marks[stream]).to_c()
        out = Step._many(session, session._lib.swakv_step_complete, entries, [s.request for s in steps], [])
        for step, done in zip(steps, out, strict=True):
            step.completed, step.error = done.error is None, done.error

    @staticmethod
    def _many(session: Session, function: Callable[..., int], steps: Any, requests: list[Request], keep: Any) -> list[Step]:
        ticket = session._calls.start(function, steps, len(steps), keep=keep)
        try:
            ticket.wait()
        except errors.Error:
            if all(c.result for c in steps):
                raise
        out = []
        for c, request in zip(steps, requests, strict=True):
            step = Step(request, session._lib.swakv_extend_complete, extend=True)
            if c.result:
                step.error = errors.of(c.result, session._lib.swakv_error_text(c.result).decode())
            out.append(step)
        return out
