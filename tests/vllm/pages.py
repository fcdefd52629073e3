# SPDX-License-Identifier: Apache-2.0
"""A broker's pages without a broker."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import swakv


class Pages:
    """A broker's pages, in no order."""

    def __init__(self, n: int) -> None:
        self.free = [*range(n - 1, 0, -2), *range(0, n, 2)]
        self._wanted, self.offered = 0, 0
        self.session = SimpleNamespace(info=SimpleNamespace(cuda=False))

    def take(self, least: int, most: int, stream: int = 0) -> list[int]:
        if len(self.free) < least:
            raise swakv.NoPages("others have them")
        return [self.free.pop() for _ in range(min(most, len(self.free)))]

    def give(self, ids: Sequence[int], fences: Sequence[swakv.Fence] = ()) -> None:
        assert not set(ids) & set(self.free)
        self.free += ids
        self._wanted -= min(self._wanted, len(ids))

    @property
    def wanted(self) -> swakv.Want:
        return swakv.Want(self._wanted, 0.0)

    def ask(self, n: int) -> None:
        """Others lack @n pages: what is given counts against it."""
        self._wanted = n

    def offer(self, n: int) -> None:
        self.offered = n

    @property
    def takeable(self) -> int:
        return len(self.free)
