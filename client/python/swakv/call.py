# SPDX-License-Identifier: Apache-2.0
"""Calls in flight: what waits for the broker, and answers Ctrl-C meanwhile."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _abi, errors

if TYPE_CHECKING:
    from .session import Session

SLICE_MS = 100  # how long Ctrl-C may have to wait


class Ticket:
    """A call whose answer has not been collected. wait() or poll() until it has."""

    def __init__(self, calls: Calls, value: int, keep: Any, done: Callable[[int], None] | None) -> None:
        self._calls, self._value, self._keep, self._done = calls, value, keep, done
        self.collected = False

    def poll(self) -> bool:
        """True when the answer has been collected; raises what the call was refused with."""
        return self._collect(0)

    def wait(self, extra: float = 0.0) -> None:
        """Waits for the answer, as long as the session's timeout and @extra seconds, which the call itself may wait."""
        patience = self._calls.patience + extra
        until = time.monotonic() + patience
        while not self._collect(SLICE_MS):
            if time.monotonic() >= until:
                raise errors.TimedOut(
                    f"the broker has not answered for {patience:g} s; the call is still under way: wait for it again, "
                    "and ask swakv-status whether the broker is stuck"
                )

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
            if self._done is not None:
                self._done(result)
            self._keep = None
            session.check(result)
        return True


class Calls:
    """Starts calls of one session, and waits for them."""

    def __init__(self, session: Session, patience: float) -> None:
        self.session, self.patience = session, patience

    def start(
        self,
        function: Callable[..., int],
        *arguments: Any,
        first: int | None = None,
        keep: Any = None,
        done: Callable[[int], None] | None = None,
    ) -> Ticket:
        """Calls @function(@first or the session, @arguments, ticket). @keep: what must stay alive until the answer.

        @done(result) runs when the answer is there, under the session's lock.
        """
        ticket = ctypes.c_uint64()
        with self.session.locked() as handle:
            self.session.check(function(handle if first is None else first, *arguments, ctypes.byref(ticket)))
        return Ticket(self, ticket.value, (keep, arguments), done)
