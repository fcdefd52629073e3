# SPDX-License-Identifier: Apache-2.0
"""Pages that the caller manages itself: an engine with a block pool of its own (spec section 8)."""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import _abi
from .call import Ticket
from .stream import Fence

if TYPE_CHECKING:
    from .session import Session

MAX_PAGES = _abi.MAX_PAGES  # that one call takes or gives


@dataclass(frozen=True)
class Want:
    """What others lack. pages: how many the session is asked to give, 0: none; since: by time.monotonic(), 0.0: not asked."""

    pages: int
    since: float

    def __bool__(self) -> bool:
        return self.pages > 0


@dataclass(frozen=True)
class Limits:
    """What the sessions of one model share, in pages of one group: always there for them; and the most they may hold."""

    floor: int
    ceiling: int


class Take:
    """A take under way: wait(), or poll() until it is True, then `ids`. Dropped before that, it gives its pages back."""

    def __init__(self, pages: Pages, least: int, most: int, stream: int, overwrites: bool, wait: float) -> None:
        self._wait = wait
        ids, n = (ctypes.c_int32 * max(most, 1))(), ctypes.c_uint32()
        self._ids, self._n = ids, n
        session = pages.session
        flags = _abi.TAKE_OVERWRITES if overwrites else 0

        def undo() -> None:
            if n.value:
                with contextlib.suppress(Exception):
                    pages.start_give(ids[: n.value])
                n.value = 0

        self._ticket = session._calls.start(
            session._lib.swakv_pages_take, pages.group, stream, flags, least, most, _abi.milliseconds("wait", wait),
            ids, ctypes.byref(n), keep=(ids, n), undo=undo,
        )  # fmt: skip

    def poll(self) -> bool:
        """True when the pages are there; raises what the take was refused with. Never sleeps."""
        return self._ticket.poll()

    def wait(self) -> list[int]:
        """Waits for the pages, as long as the take may. Ctrl-C withdraws it."""
        self._ticket.wait_or_withdraw(self._wait)
        return self.ids

    def withdraw(self) -> None:
        """Ends the take. Pages that it got already go back, so they must not be in use."""
        self._ticket.withdraw()

    @property
    def ids(self) -> list[int]:
        """Page ids: those of K rows, where pages are split. Empty until poll() or wait() has said so."""
        return list(self._ids[: self._n.value]) if self._ticket.collected else []


class Pages:
    """Pages of one layer group. Made by Session.pages().

    Which page is which block, and when it is free, is the caller's to know: these pages are in no table.
    """

    def __init__(self, session: Session, group: int) -> None:
        self.session, self.group = session, group

    def take(
        self, least: int, most: int | None = None, *, stream: int = 0, overwrites: bool = False, wait: float = 0.0
    ) -> list[int]:
        """Takes at least @least and at most @most pages (None: @least; up to MAX_PAGES), or none. Returns their ids.

        A page that was used before is filled with zeroes on @stream, before what is enqueued there from then on.
        overwrites: no byte is read before it is written, not even to be masked: a page that this session had last in this
        group is then left as it is. wait: seconds to wait for @least pages; other threads run, and Ctrl-C withdraws the take.
        Raises NoPages, Never, Pending, Busy, ... as swakv_pages_take(3).
        """
        return self.start_take(least, most, stream=stream, overwrites=overwrites, wait=wait).wait()

    def start_take(
        self, least: int, most: int | None = None, *, stream: int = 0, overwrites: bool = False, wait: float = 0.0
    ) -> Take:
        """As take(), without waiting for the broker: for an event loop, see Session.fileno()."""
        least = _abi.whole("least", least)
        most = least if most is None else _abi.whole("most", most)
        if not 0 <= least <= most <= MAX_PAGES:
            raise ValueError(f"{least} to {most} pages were asked for: one call takes up to {MAX_PAGES}, and no fewer than 0")
        return Take(self, least, most, stream, overwrites, wait)

    def give(self, ids: Sequence[int], fences: Sequence[Fence] | Fence = ()) -> None:
        """Gives pages back, up to MAX_PAGES, all or none. They are free to others when all @fences are reached.

        fences: one of each stream that has used them, marked behind that work. None at all: free at once.
        """
        self.start_give(ids, fences).wait()

    def start_give(self, ids: Sequence[int], fences: Sequence[Fence] | Fence = ()) -> Ticket:
        """As give(), without waiting for the broker."""
        fences = [fences] if isinstance(fences, Fence) else fences
        values, marks = _abi.int32s(ids), _abi.array(_abi.Fence, [f.to_c() for f in fences])
        return self.session._calls.start(
            self.session._lib.swakv_pages_give, self.group, values, len(values), marks, len(marks)
        )  # fmt: skip

    @property
    def takeable(self) -> int:
        """Pages that could be taken about now: a hint, some milliseconds old. As cheap as a load."""
        with self.session.locked() as handle:
            return int(self.session._lib.swakv_pages_takeable(handle, self.group))

    def offer(self, n: int) -> None:
        """Says that @n of the pages taken could be given, since nothing refers to them: those are asked for first."""
        self.session.call(self.session._lib.swakv_pages_offer, self.group, n)

    @property
    def wanted(self) -> Want:
        """How many pages the session is asked to give, since others lack them, less what it has given since they were asked for.

        Nobody is forced. As cheap as a load.
        """
        since = ctypes.c_uint64()
        with self.session.locked() as handle:
            n = self.session._lib.swakv_pages_wanted(handle, self.group, ctypes.byref(since))
        return Want(int(n), since.value / 1e9)

    def wanted_ranges(self) -> list[range]:
        """Of the pages that are wanted, which help most: ids in extents that could go to pages of another size.

        Give pages in these first, as far as nothing refers to them; some ids may be others' pages, or free. Empty: it is all
        the same which, or none are wanted. As cheap as a load.
        """
        ranges = (_abi.PageRange * _abi.MAX_RANGES)()
        with self.session.locked() as handle:
            n = self.session._lib.swakv_pages_wanted_ranges(handle, self.group, ranges, len(ranges))
        return [range(r.first, r.end) for r in ranges[:n]]

    def limits(self) -> Limits:
        """The floor and the ceiling of the session's model, in pages of this group, as they stand about now."""
        floor, ceiling = ctypes.c_int64(), ctypes.c_int64()
        until = time.monotonic() + self.session._calls.patience
        while True:
            with self.session.locked() as handle:
                lib = self.session._lib
                result = lib.swakv_pages_get_limits(handle, self.group, ctypes.byref(floor), ctypes.byref(ceiling))
                if result != _abi.EAGAIN or time.monotonic() >= until:
                    self.session.check(result)
                    return Limits(floor.value, ceiling.value)
            time.sleep(0.001)  # the broker writes them some milliseconds after the attach
