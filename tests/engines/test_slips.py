# SPDX-License-Identifier: Apache-2.0
"""What the matrix must find: each slip, of broker, library or cache, makes a logit differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import models  # noqa: E402
import processes  # noqa: E402
import test_matrix  # noqa: E402

import swakv.transformers.cache  # noqa: E402
import swakv.transformers.config  # noqa: E402
import swakv.transformers.rows  # noqa: E402

POOL = test_matrix.POOL
# A window of two pages, and of less than a page; K and V apart, and in one page.
CASES = [
    ("mistral", "f32", "split", (32, 16), "chunked", 4),
    ("gpt_oss", "bf16", "joined", (24, 64), "chunked", 1),
]
every_case = pytest.mark.parametrize("case", CASES, ids=test_matrix.name)


def found(pool: processes.Broker, case: tuple[Any, ...], slip: Callable[[Any], None] | None = None) -> None:
    """The matrix finds it: a logit differs, or somebody writes where no page of its own is."""
    with pytest.raises((AssertionError, IndexError), match="logits differ|a write to|out of bounds|are not all in pages"):
        test_matrix.run(pool, case, slip)


class Pages:
    """The pages of each group under the first sequence, as its table's row names them: for slips."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache

    def each(self) -> Any:
        """(group's tensors, column, page) of all that is bound, sliding groups only."""
        for t in self.cache._tensors:
            if t.layout.window is not None:
                for column, page in enumerate(t.host_table[self.cache._slots[0], 0].tolist()):
                    if page >= 0:
                        yield t, column, page


def give_away(t: Any, page: int) -> None:
    """Somebody else has got the page, and has written to it."""
    t.k[page], t.v[page] = float("nan"), float("nan")


def retires_at_prepare(cache: Any) -> None:
    """The pages that an extend of several tokens leaves behind, before it is complete."""
    if cache._chunk == 1 or cache._length == 0:
        return
    for t, column, page in Pages(cache).each():
        if column < (cache._length + cache._chunk - t.layout.window) // t.layout.page_tokens:
            give_away(t, page)


def released_early(cache: Any) -> None:
    """A page, two steps before it leaves the window."""
    for t, column, page in Pages(cache).each():
        leaves = (column + 1) * t.layout.page_tokens + t.layout.window  # at this endpoint, and not before
        if cache._chunk == 1 and cache._length + 1 >= leaves - 2:
            give_away(t, page)


@every_case
def test_a_table_update_that_is_dropped(pool: processes.Broker, case: tuple[Any, ...]) -> None:
    def slip(cache: Any) -> None:
        t, column, _ = list(Pages(cache).each())[-1]
        if cache._length > 0 and cache._length % t.layout.page_tokens == 0:  # the step has mapped a page
            t.table[cache._slots[0], :, column] = t.table[cache._slots[0], :, column - 1]

    found(pool, case, slip)


@every_case
def test_a_gather_that_is_off_by_one_page(pool: processes.Broker, case: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = swakv.transformers.rows.Rows
    right = rows.read

    def read(self: Any, layer: int, begin: int, end: int, v: bool) -> Any:
        page, offset = self._index(begin, end, v)
        last = (self.t.v if v else self.t.k).shape[0] - 1
        self._indices[begin, end, v] = ((page + 1).clamp(max=last), offset)
        try:
            return right(self, layer, begin, end, v)
        finally:
            self._indices[begin, end, v] = (page, offset)

    monkeypatch.setattr(rows, "read", read)
    found(pool, case)


@every_case
def test_an_extend_of_several_tokens_that_retires_at_prepare(pool: processes.Broker, case: tuple[Any, ...]) -> None:
    found(pool, case, retires_at_prepare)


@every_case
def test_a_page_that_is_released_two_steps_early(pool: processes.Broker, case: tuple[Any, ...]) -> None:
    found(pool, case, released_early)


@every_case
def test_a_window_that_is_too_small_by_two(
    pool: processes.Broker, case: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    window = case[3][0]
    right = swakv.transformers.config.Group

    def smaller(**declared: Any) -> Any:
        return right(**declared | (dict(window=window - 2) if declared["window"] else {}))

    monkeypatch.setattr(swakv.transformers.config, "Group", smaller)
    found_layers = swakv.transformers.cache._Layer.__init__

    def as_declared(self: Any, cache: Any, index: int, group: int, layer: int, w: int | None) -> None:
        found_layers(self, cache, index, group, layer, window if w else None)

    monkeypatch.setattr(swakv.transformers.cache._Layer, "__init__", as_declared)
    found(pool, case)


@every_case
def test_without_a_slip_nothing_is_found(pool: processes.Broker, case: tuple[Any, ...]) -> None:
    test_matrix.run(pool, case)
    assert models.DEVICE in ("cpu", "cuda")
