# SPDX-License-Identifier: Apache-2.0
"""A broker's pages without a broker."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import swakv


class Take:
    """Answered at the first look, unless the broker is slow."""

    def __init__(self, pages: Pages, least: int, most: int) -> None:
        free, self._pages = pages.free, pages
        self._refused = swakv.Never if least > pages.never else swakv.NoPages if least > len(free) else None
        self._answered = False
        self._got = [] if self._refused else [free.pop() for _ in range(min(most, len(free)))]

    def poll(self) -> bool:
        return not self._pages.slow and self._answer()

    def _answer(self) -> bool:
        if self._refused and not self._answered:
            self._answered = True
            raise self._refused("others have them")
        self._answered = True
        return True

    def wait(self) -> list[int]:
        self._answer()
        return self.ids

    @property
    def ids(self) -> list[int]:
        return self._got if self._answered else []


class Pages:
    """A broker's pages, in no order."""

    def __init__(self, n: int) -> None:
        self.free = [*range(n - 1, 0, -2), *range(0, n, 2)]
        self._wanted, self.offered = 0, 0
        self._ranges: list[range] = []
        self.slow = False  # takes are not answered yet
        self.never = n  # more than that are never to be had at a time
        self.takes: list[tuple[int, int]] = []  # least and most of each
        self.session = SimpleNamespace(info=SimpleNamespace(cuda=False))

    def take(self, least: int, most: int, stream: int = 0) -> list[int]:
        return self.start_take(least, most, stream).wait()

    def start_take(self, least: int, most: int, stream: int = 0) -> Take:
        self.takes.append((least, most))
        return Take(self, least, most)

    def give(self, ids: Sequence[int], fences: Sequence[swakv.Fence] = ()) -> None:
        assert not set(ids) & set(self.free)
        self.free += ids
        self._wanted -= min(self._wanted, len(ids))

    @property
    def wanted(self) -> swakv.Want:
        return swakv.Want(self._wanted, 0.0)

    def wanted_ranges(self) -> list[range]:
        return self._ranges if self._wanted else []

    def ask(self, n: int, *ranges: range) -> None:
        """Others lack @n pages, and those in @ranges help most: what is given counts against it."""
        self._wanted, self._ranges = n, list(ranges)

    def start_give(self, ids: Sequence[int], fences: Sequence[swakv.Fence] = ()) -> SimpleNamespace:
        self.give(ids, fences)
        return SimpleNamespace(poll=lambda: True)

    def offer(self, n: int) -> None:
        self.offered = n

    @property
    def takeable(self) -> int:
        return len(self.free)
