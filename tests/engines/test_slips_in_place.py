# SPDX-License-Identifier: Apache-2.0
"""As test_slips, for attention that reads the pages, by Triton's kernels, interpreted on the CPU: each makes a logit differ."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import models  # noqa: E402
import processes  # noqa: E402
import test_in_place  # noqa: E402
import test_slips  # noqa: E402

import swakv.attention  # noqa: E402
import swakv.transformers.attention  # noqa: E402
import swakv.transformers.cache  # noqa: E402
import swakv.transformers.config  # noqa: E402

POOL = test_in_place.POOL
CASES = [("mistral", "split", 32, 16), ("gpt_oss", "joined", 24, 16)]
every_case = pytest.mark.parametrize("case", CASES, ids=["mistral-split", "gpt_oss-joined"])
# A page leaves the window within the second chunk, which maps two, and another while single tokens come.
CHUNKS, STEPS, BATCH = (44, 24), 13, 2


@functools.cache
def passes(kind: str, window: int) -> tuple[Any, tuple[Any, ...], list[Any]]:
    """The model, what it is fed, and the stock cache's logits of each pass."""
    model = models.make(kind, torch.float32, window)
    tokens = models.ids(BATCH, sum(CHUNKS) + STEPS)
    chunks = torch.split(tokens, [*CHUNKS, *[1] * STEPS], dim=1)
    return model, chunks, models.passes(model, models.stock(model), list(chunks))


def run(pool: processes.Broker, case: tuple[Any, ...], slip: Callable[[Any], None] | None = None) -> None:
    """Each pass is compared before the next one, so that a slip ends it."""
    kind, form, window, page_tokens = case
    model, chunks, theirs = passes(kind, window)
    with test_in_place.cache_of(pool, model, form=form, page_tokens=page_tokens) as cache:
        cache._slip = slip
        seen = 0
        for i, (chunk, expected) in enumerate(zip(chunks, theirs, strict=True)):
            (mine,) = models.passes(model, cache, [chunk], seen=seen)
            seen += chunk.shape[1]
            off = (mine - expected).abs().max()
            assert off <= test_in_place.ROUNDING["f32"] * expected.abs().max(), f"logits differ in pass {i}: by {off}"


def found(pool: processes.Broker, case: tuple[Any, ...], slip: Callable[[Any], None] | None = None) -> None:
    with pytest.raises(AssertionError, match="logits differ in pass|a write to"):
        run(pool, case, slip)


def patched(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """What @name, write or attend, sees of a sliding group's table."""
    right = getattr(swakv.attention, name)

    def wrong(pages: Any, *arguments: Any, **more: Any) -> Any:
        if pages.layout.window is not None:
            pages = dataclasses.replace(pages, table=change(pages.table.clone()))
        return right(pages, *arguments, **more)

    for module in (swakv.attention, swakv.transformers.cache):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, wrong)


def next_page(table: torch.Tensor) -> torch.Tensor:
    most = table.max()
    return torch.where(table >= 0, (table + 1).clamp(max=most), table)


def next_column(table: torch.Tensor) -> torch.Tensor:
    return table.roll(1, dims=2)


@every_case
def test_a_table_update_that_is_dropped(pool: processes.Broker, case: tuple[Any, ...]) -> None:
    def slip(cache: Any) -> None:
        t, column, _ = list(test_slips.Pages(cache).each())[-1]
        if cache._length > 0 and column * t.layout.page_tokens >= cache._length:  # the step has mapped it
            t.table[cache._slots[0], :, column] = t.table[cache._slots[0], :, column - 1]

    found(pool, case, slip)


@every_case
@pytest.mark.parametrize("what", [next_page, next_column], ids=["id", "column"])
def test_a_read_that_is_off_by_one_page(
    pool: processes.Broker, case: tuple[Any, ...], what: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    patched(monkeypatch, "attend", what)
    found(pool, case)


@every_case
def test_a_write_that_is_off_by_one_page(
    pool: processes.Broker, case: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    patched(monkeypatch, "write", next_page)
    found(pool, case)


@every_case
def test_an_extend_of_several_tokens_that_retires_at_prepare(pool: processes.Broker, case: tuple[Any, ...]) -> None:
    found(pool, case, test_slips.retires_at_prepare)


@every_case
def test_a_page_that_is_released_two_steps_early(pool: processes.Broker, case: tuple[Any, ...]) -> None:
    found(pool, case, test_slips.released_early)


@every_case
def test_a_window_that_is_too_small_by_two(
    pool: processes.Broker, case: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = swakv.transformers.config.Group

    def smaller(**declared: Any) -> Any:
        return right(**declared | (dict(window=declared["window"] - 2) if declared["window"] else {}))

    monkeypatch.setattr(swakv.transformers.config, "Group", smaller)
    found(pool, case)


@every_case
def test_lengths_that_the_device_is_not_told(
    pool: processes.Broker, case: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = swakv.transformers.cache.Cache._tell_device

    def late(cache: Any) -> None:
        if cache._length < sum(CHUNKS) + 2:
            right(cache)

    monkeypatch.setattr(swakv.transformers.cache.Cache, "_tell_device", late)
    found(pool, case)


@every_case
def test_without_a_slip_nothing_is_found(pool: processes.Broker, case: tuple[Any, ...]) -> None:
    run(pool, case)
