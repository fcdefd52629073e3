# SPDX-License-Identifier: Apache-2.0
"""A pool whose free pages are full of NaN and in no order, under swakv.transformers.Cache."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import swakv
import swakv.torch
import swakv.transformers

NAN = 0xFF  # two or four of these bytes are one of any type


class Watched(swakv.transformers.Cache):
    """Fills all of the pool that no page of the session's tables lies in with NaN: after each prepare and each complete.

    What was filled must still be so when the step is complete: nobody has written where no page of its own is.
    slip: what a broken broker, library or cache would do: called with the cache after each prepare.
    """

    def __init__(self, session: swakv.Session, config: Any, slip: Callable[[Any], None] | None = None) -> None:
        super().__init__(session, config)
        self.pool: Any = swakv.torch.tensor(session.pool)
        self._slip = slip
        self._poisoned: list[tuple[int, int]] = []
        self.poison()

    def _prepare(self, batch: int, tokens: int) -> None:
        super()._prepare(batch, tokens)
        self.poison()
        if self._slip is not None:
            self._slip(self)

    def _complete(self) -> None:
        for begin, end in self._poisoned:
            assert bool((self.pool[begin:end] == NAN).all()), f"a write to bytes {begin} to {end} of the pool, which are free"
        super()._complete()
        self.poison()

    def close(self) -> None:
        super().close()
        self.pool = None

    def poison(self) -> None:
        at, self._poisoned = min(t.layout.first_page for t in self._tensors) - self.session.info.pool_address, []
        for begin, end in [*sorted(self._bound()), (self.pool.numel(), self.pool.numel())]:
            if at < begin:
                self._poisoned.append((at, begin))
                self.pool[at:begin] = NAN
            at = max(at, end)

    def _bound(self) -> Iterator[tuple[int, int]]:
        """Bytes of the pool, from and to, of each page that a row of a table names."""
        for t in self._tensors:
            layout, pool = t.layout, self.session.info.pool_address
            named = t.host_table[t.host_table >= 0].tolist()
            for page in named:  # V ids of split pages count on from the K half
                base = layout.k_base if layout.joined or page < layout.num_pages else layout.v_base
                begin = base - pool + page * layout.page_stride
                yield begin, begin + layout.page_stride


def shuffle(session: swakv.Session, seed: int = 1) -> dict[int, list[int]]:
    """Leaves free pages of each group in no order, and with gaps: what it returns stays taken."""
    held = {}
    order = random.Random(seed)
    for layout in session.layouts:
        pages = session.pages(layout.group)
        mine = pages.take(1, 300)
        order.shuffle(mine)
        for page in mine[30:]:
            pages.give([page])
        held[layout.group] = mine[:30]
    return held
