# SPDX-License-Identifier: Apache-2.0
"""Every logit of every pass is the stock cache's, bit by bit, whatever the model, its window, its pages and its batch.

Free pages are full of NaN and come in no order. By default each pair of values of the matrix occurs once; --whole runs
every combination.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import free_pages  # noqa: E402
import models  # noqa: E402
import processes  # noqa: E402

POOL = "8M"  # small, since all of it is filled at every step
AXES: dict[str, list[Any]] = {
    "kind": list(models.SHAPES),
    "dtype": list(models.DTYPES),
    "form": ["split", "joined"],
    "window": [(32, 16), (37, 16), (24, 64)],  # and tokens a page: a multiple, none, less than a page
    "prompt": ["short", "equal", "long", "chunked", "cropped"],
    "batch": [1, 4],
}
CROP = 12


def cover() -> list[tuple[Any, ...]]:
    """Combinations in which each pair of values occurs."""
    every = list(itertools.product(*AXES.values()))
    pairs = {(i, a, j, b) for c in every for (i, a), (j, b) in itertools.combinations(enumerate(c), 2)}
    chosen = []
    while pairs:
        best = max(every, key=lambda c: sum((i, a, j, b) in pairs for (i, a), (j, b) in itertools.combinations(enumerate(c), 2)))
        pairs -= {(i, a, j, b) for (i, a), (j, b) in itertools.combinations(enumerate(best), 2)}
        chosen.append(best)
    return chosen


def name(case: tuple[Any, ...]) -> str:
    return "-".join("x".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in case)


def pytest_generate_tests(metafunc: Any) -> None:
    if "case" in metafunc.fixturenames:
        cases = list(itertools.product(*AXES.values())) if metafunc.config.getoption("--whole") else cover()
        metafunc.parametrize("case", cases, ids=name)


def lengths_of(prompt: str, window: int) -> list[int]:
    """Tokens of each pass: those of the prompt, and then one by one, more than three windows of them."""
    first = {
        "short": [window // 3],
        "equal": [window],
        "long": [2 * window + 5],
        "chunked": [window // 2, window + 3, 5, 1, 2 * window],
        "cropped": [window + 9],
    }[prompt]
    return [*first, *[1] * (3 * window + 2)]


@functools.cache
def expected(kind: str, dtype: str, window: int, prompt: str, batch: int) -> tuple[list[Any], Any, list[Any]]:
    """Chunks of token ids, the mask of the padding, and the stock cache's logits of each pass."""
    lengths = lengths_of(prompt, window)
    tokens = models.ids(batch, sum(lengths))
    mask = None
    if batch > 1:  # sequences of unequal lengths are padded on the left
        mask = torch.ones_like(tokens)
        for i, padding in enumerate((0, 3, lengths[0] - 1, lengths[0] // 2)):
            mask[i, :padding] = 0
    chunks = list(torch.split(tokens, lengths, dim=1))
    model = models.make(kind, models.DTYPES[dtype], window)
    return chunks, mask, models.passes(model, models.stock(model), chunks, mask)


def run(pool: processes.Broker, case: tuple[Any, ...], slip: Any = None, **declared: Any) -> None:
    """Raises AssertionError when a logit differs."""
    kind, dtype, form, (window, page_tokens), prompt, batch = case
    model = models.make(kind, models.DTYPES[dtype], window)
    chunks, mask, theirs = expected(kind, dtype, window, prompt, batch)
    rewind = CROP if prompt == "cropped" else 0
    with models.attach(pool, model, max_rewind=rewind, form=form, page_tokens=page_tokens, **declared) as session:
        held = free_pages.shuffle(session)
        cache = free_pages.Watched(session, model.config, slip)
        try:
            at = len(chunks) // 2 if rewind else len(chunks)
            seen = sum(chunk.shape[1] for chunk in chunks[:at])
            mine = models.passes(model, cache, chunks[:at], mask)
            if rewind:  # tokens that are taken back, in the middle
                wrong = list(torch.split(models.ids(batch, CROP, seed=9), 1, dim=1))
                models.passes(
                    model, cache, wrong, None if mask is None else torch.nn.functional.pad(mask, (0, CROP), value=1), seen
                )
                cache.crop(-CROP)
            mine += models.passes(model, cache, chunks[at:], mask, seen)
            models.equal(mine, theirs)
        finally:
            cache.close()
            for group, pages in held.items():
                session.pages(group).give(pages)


def test_every_logit_is_equal(pool: processes.Broker, case: tuple[Any, ...]) -> None:
    run(pool, case)
