# SPDX-License-Identifier: Apache-2.0
"""Pages that an engine holds: taken and given back in batches. Knows nothing of vLLM."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import swakv

BATCH = swakv.MAX_PAGES
# What a take may be refused with, so that it is to be tried again: others hold the pages, or are to keep them for now.
NOT_NOW = (swakv.NoPages, swakv.Pending, swakv.Never, swakv.Busy, swakv.Denied)


class Steps:
    """Which steps have begun and which have ended, so that what one may still touch is not given away.

    Only the thread that plans them uses it. With one step at a time, none is in flight between two.
    """

    def __init__(self) -> None:
        self.begun = self.ended = 0

    @property
    def in_flight(self) -> bool:
        return self.begun > self.ended


class Holder:
    """The pages of one layer group that this session manages. Only one thread uses it, but for `wanted`.

    limit: how many it may hold at most, whatever the broker would allow.
    """

    def __init__(self, pages: swakv.Pages, limit: int, stream: int = 0) -> None:
        self._pages, self._stream, self.limit = pages, stream, limit
        self._on_device = pages.session.info.cuda
        self._offered = 0
        self._asked: deque[Any] = deque()  # takes under way, in the order in which they are answered
        self._giving: deque[Any] = deque()  # gives under way
        self.held = 0
        self.taken = self.given = self.refused = 0  # since the start
        self.refusal: swakv.Error | None = None  # the last one

    def take(self, least: int, most: int) -> list[int]:
        """Up to @most pages and at least @least (0: whatever there is), or none at all. Those used before are zeroes."""
        most = min(most, self.limit - self.held)
        got: list[int] = []
        while most > 0 and least - len(got) <= most:
            try:
                batch = self._pages.take(min(max(least - len(got), 1), BATCH), min(most, BATCH), stream=self._stream)
            except NOT_NOW as e:
                self._note_refusal(e)
                break
            got += batch
            most -= len(batch)
            if len(got) >= least or not batch:
                break
        if len(got) < least:
            if got:
                self._give(got)
            return []
        return self._took(got)

    def ask(self, least: int, most: int) -> None:
        """Takes up to @most pages, at least @least, one batch at most, and waits for nothing: collect() has them.

        The broker remembers what it refuses as what this session lacks, and asks others for it.
        """
        most = min(most, self.limit - self.held, BATCH)
        least = min(least, most)
        if least > 0:
            self._asked.append(self._pages.start_take(least, most, stream=self._stream))

    def collect(self, wait: bool = False) -> list[int]:
        """The pages that were asked for and are there. @wait: waits until all is answered."""
        got: list[int] = []
        while self._asked:
            take = self._asked[0]
            try:
                if not wait and not take.poll():
                    break
                take.wait()
            except NOT_NOW as e:
                self._note_refusal(e)
            self._asked.popleft()
            got += take.ids
        return self._took(got)

    @property
    def asking(self) -> bool:
        return bool(self._asked)

    def _note_refusal(self, refusal: swakv.Error) -> None:
        self.refused += 1
        self.refusal = refusal

    def _took(self, got: list[int]) -> list[int]:
        if got and self._on_device:
            # Whoever works on them does so on a stream of its own, which knows nothing of this one.
            self._pages.session.stream(self._stream).synchronize()
        self.held += len(got)
        self.taken += len(got)
        return got

    def give(self, ids: Sequence[int], fences: Sequence[swakv.Fence] = ()) -> None:
        """Gives pages back, and does not wait for the broker. Without @fences nothing can touch them any more."""
        self._give(ids, fences)
        self.held -= len(ids)
        self.given += len(ids)

    def _give(self, ids: Sequence[int], fences: Sequence[swakv.Fence] = ()) -> None:
        while self._giving and self._giving[0].poll():  # raises what was refused
            self._giving.popleft()
        for i in range(0, len(ids), BATCH):
            self._giving.append(self._pages.start_give(ids[i : i + BATCH], fences))

    def offer(self, n: int) -> None:
        """Says that @n of those held could be given."""
        if n != self._offered:
            self._pages.offer(n)
            self._offered = n

    @property
    def takeable(self) -> int:
        """How many could be had now without anybody being asked for them: a hint."""
        return min(self._pages.takeable, self.limit - self.held)

    @property
    def wanted(self) -> int:
        """How many others lack and this session is asked for."""
        return self._pages.wanted.pages

    @property
    def wanted_ranges(self) -> list[range]:
        """Of those, which help most: ids of pages, of others, too. Empty: it is all the same which."""
        return self._pages.wanted_ranges()
