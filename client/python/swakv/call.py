# SPDX-License-Identifier: Apache-2.0
"""Calls in flight: what waits for the broker, and answers Ctrl-C meanwhile."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _abi, errors

if TYPE_CHECKING:
    from .session import Session

SLICE_MS = 100  # how long Ctrl-C may have to wait
SHARED_SLICE_MS = 5  # and other threads for the session


class Flight:
    """What a call under way needs: memory that its answer is written to, and what to do about that answer."""

    def __init__(self, keep: Any, undo: Callable[[], None] | None) -> None:
        self.keep, self.undo = keep, undo


class Ticket:
    """A call whose answer has not been collected. wait() or poll() until it has.

    One that is dropped before that is collected by a later call of the session; what it got goes back.
    """

    collected = False

    def __init__(self, calls: Calls, value: int, flight: Flight) -> None:
        self._calls, self._value, self._flight = calls, value, flight

    def __del__(self) -> None:
        if not self.collected:
            self._calls.forgotten.append(self._value)

    def poll(self) -> bool:
        """True when the answer has been collected; raises what the call was refused with."""
        return self._collect(0)

    def wait(self, extra: float = 0.0) -> None:
        """Waits for the answer, as long as the session's timeout and @extra seconds, which the call itself may wait."""
        patience = self._calls.patience + extra
        until = time.monotonic() + patience
        while not self._collect(SLICE_MS if threading.active_count() == 1 else SHARED_SLICE_MS):
            time.sleep(0.00005)  # whoever waits for the lock gets it: it is not fair by itself
            if time.monotonic() >= until:
                raise errors.TimedOut(
                    f"the broker has not answered for {patience:g} s; the call is still under way: wait for it again, "
                    "and ask swakv-status whether the broker is stuck"
                )

    def wait_or_withdraw(self, extra: float) -> None:
        """wait() of a begin or take: Ctrl-C withdraws it, so that nobody is given pages that nobody wants."""
        try:
            self.wait(extra)
        except errors.Error:
            raise
        except BaseException:
            self.withdraw()
            raise

    def withdraw(self) -> None:
        """Ends the wait of a begin or take; what it was given already goes back."""
        with contextlib.suppress(errors.Error):
            if not self.collected:
                self._calls.start(self._calls.session._lib.swakv_request_withdraw, self._value).wait()
                self.wait()
        if self._flight.undo is not None:
            self._flight.undo()

    def _collect(self, milliseconds: int) -> bool:
        if self.collected:
            return True
        session = self._calls.session
        with session.locked() as handle:
            lib = session._lib
            if milliseconds:
                result = lib.swakv_wait_for(handle, self._value, milliseconds)
                if result == errors.TimedOut.code:
                    return False
            else:
                result = lib.swakv_poll(handle, self._value)
                if result == _abi.EAGAIN:
                    return False
            self.collected = True
            self._calls.flights.pop(self._value, None)
            session.check(result)
        return True


class Calls:
    """The calls of one session that are under way."""

    def __init__(self, session: Session, patience: float) -> None:
        self.session, self.patience = session, patience
        self.flights: dict[int, Flight] = {}  # until they are collected
        self.forgotten: deque[int] = deque()  # tickets that nobody holds any more

    def start(
        self,
        function: Callable[..., int],
        *arguments: Any,
        first: int | None = None,
        keep: Any = None,
        undo: Callable[[], None] | None = None,
    ) -> Ticket:
        """Calls @function(@first or the session, @arguments, ticket). @keep: what must stay alive until the answer.

        @undo() gives back what the call got, if anything: nobody will ask for it.
        """
        ticket = ctypes.c_uint64()
        with self.session.locked() as handle:
            self.session.check(function(handle if first is None else first, *arguments, ctypes.byref(ticket)))
            self.flights[ticket.value] = Flight((keep, arguments), undo)
        return Ticket(self, ticket.value, self.flights[ticket.value])

    def collect_forgotten(self, handle: int) -> None:
        """Under the session's lock."""
        for value in [self.forgotten.popleft() for _ in range(len(self.forgotten))]:
            if self.session._lib.swakv_poll(handle, value) == _abi.EAGAIN:
                self.forgotten.append(value)
                continue
            flight = self.flights.pop(value, None)
            if flight is not None and flight.undo is not None:
                flight.undo()
