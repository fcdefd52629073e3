# SPDX-License-Identifier: Apache-2.0
"""In which order pages are given to others: neighbours after each other. Knows nothing of vLLM, nor of the broker.

Pages of one size lie in extents, and an engine whose pages have another size can use an extent only when all of it is
free. An extent is a run of page ids in each half of the pool, at the same distance from the half's begin (spec
section 5). So whoever gives the least recently used pages, wherever they lie, gives much and helps nobody: here one
place of the pool runs empty.
"""

from __future__ import annotations

from collections.abc import Iterator


class Sweep:
    """All ids below @n once, outward from @start in both halves of the pool."""

    def __init__(self, n: int, start: int) -> None:
        self._ids = self._outward(n, (n + 1) // 2, start)
        self._next: int | None = next(self._ids, None)

    @staticmethod
    def _outward(n: int, half: int, start: int) -> Iterator[int]:
        centre = start % half
        for distance in range(half):
            for place in {centre - distance, centre + distance}:
                if 0 <= place < half:
                    yield place
                    if place + half < n:
                        yield place + half

    @property
    def over(self) -> bool:
        return self._next is None

    def __iter__(self) -> Sweep:
        return self

    def __next__(self) -> int:
        if self._next is None:
            raise StopIteration
        found, self._next = self._next, next(self._ids, None)
        return found
