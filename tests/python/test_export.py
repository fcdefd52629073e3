# SPDX-License-Identifier: Apache-2.0
"""Tables in the formats of others, in Python, beside what the broker says of each sequence."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import swakv
import swakv.export

np = pytest.importorskip("numpy")

Attach = Callable[..., swakv.Session]
P, W, BATCH = 16, 40, 4
OF = {"split": ["edge_llm", "flashinfer", "flash_attention"], "joined": ["vllm", "tensorrt_llm", "flashinfer", "flash_attention"]}


def open_session(attach: Attach, form: str, window: int | None = W) -> swakv.Session:
    group = swakv.Group(layers=3, kv_heads=1, head_dim=8, window=window, page_tokens=P, dtype="f32", form=form)
    return attach(swakv.Model("export", [group], max_batch=BATCH, max_seq=640))


def expected(page: int, consumer: str, layout: swakv.Layout, ratio: int, i: int) -> tuple[int, int]:
    """Entries of K and V of kernel page @i of @page, as each consumer's kernels count."""
    if consumer == "edge_llm":
        return page * ratio + i, (page + layout.num_pages) * ratio + i
    if consumer == "tensorrt_llm":
        return (page * layout.layers * 2) * ratio + i, (page * layout.layers * 2 + 1) * ratio + i
    return page * ratio + i, 0


def compare(layout: swakv.Layout, consumer: Any, ratio: int, truth: list[tuple[int, int, dict[int, int]]]) -> None:
    """truth: (slot, tokens, page of each logical page) of the sequences."""
    hole = {"vllm": 0, "flash_attention": 9999}.get(consumer, -1)
    tables = swakv.export.Exporter(layout, consumer, ratio=ratio, hole=hole)
    slots, lengths = [t[0] for t in truth], [t[1] for t in truth]
    dense = tables.dense(slots, lengths)
    table = np.asarray(dense.table).reshape(dense.shape)
    lists = swakv.export.Exporter(layout, "flashinfer", ratio=ratio).csr(slots, lengths)
    count = [min(n, W) for n in lengths]
    at = list(swakv.export.Exporter(layout, "flashinfer", ratio=ratio).slots(slots, lengths, count, sum(count) + 2))
    assert at[-2:] == [-1, -1]
    for i, (_, length, pages) in enumerate(truth):
        first = dense.offsets[i] // P
        for column in range(table.shape[-1]):
            page = pages.get(first + column // ratio)
            entries = (hole, hole) if page is None else expected(page, consumer, layout, ratio, column % ratio)
            got = table[i, :, column] if table.ndim == 3 else [table[i, column]]
            assert list(got) == list(entries[: len(got)]), (consumer, i, column)
        mine = lists.indices[lists.indptr[i] : lists.indptr[i + 1]]
        tokens = P // ratio
        assert (len(mine) - 1) * tokens + lists.last_page_len[i] == length - lists.offsets[i]
        for token in range(length - count[i], length):
            entry = pages[token // P] * ratio + token % P // tokens
            assert mine[(token - lists.offsets[i]) // tokens] == entry
            assert at.pop(0) == entry * tokens + token % tokens


@pytest.mark.parametrize("form", OF)
def test_tables_are_what_the_broker_says_of_random_lives(attach: Attach, form: str) -> None:
    draw = random.Random(form)
    with open_session(attach, form) as session:
        layout = session.layouts[0]
        requests: dict[int, swakv.Request] = {}
        for _ in range(60):
            slot = draw.randrange(BATCH)
            request = requests.get(slot)
            if request is None:
                requests[slot] = session.begin(slots=[slot])
                requests[slot].prefill(draw.randint(1, 200)).complete()
            elif request.sequence(0).endpoint > 480:
                requests.pop(slot).finish()
            else:
                request.step(draw.choice([1, 1, 2, draw.randint(1, 100)])).complete()
            truth = []
            for s, r in draw.sample(list(requests.items()), len(requests)):
                state = r.sequence(0)
                truth.append((s, state.endpoint, state.bindings))
            for consumer in OF[form]:
                compare(layout, consumer, draw.choice([1, 2, 4]), truth)
        for request in requests.values():
            request.finish()


def test_rows_of_an_engines_own(attach: Attach) -> None:
    with open_session(attach, "joined", window=None) as session:
        mine = session.pages().take(3)
        blocks = np.full((2, 8), -1, np.int32)
        blocks[1, :3] = mine
        tables = swakv.export.Exporter(session.layouts[0], "vllm", hole=0)
        dense = tables.dense([1], [40], rows=blocks)
        assert list(dense.table) == [*mine, 0, 0, 0, 0, 0]
        assert list(tables.slots([1], [40], [1], rows=blocks)) == [mine[2] * P + 7]
        assert tables.window_left == -1
        with pytest.raises(ValueError, match="int32"):
            tables.dense([1], [40], rows=blocks.astype(np.int64))
        session.pages().give(mine)


def test_what_cannot_be_exported_is_refused_in_a_sentence(attach: Attach) -> None:
    with open_session(attach, "split") as session:
        layout = session.layouts[0]
        with pytest.raises(swakv.Invalid, match="joined pages only"):
            swakv.export.Exporter(layout, "vllm", hole=0)
        with pytest.raises(swakv.Invalid, match="give a page of yours"):
            swakv.export.Exporter(layout, "flash_attention")
        with pytest.raises(ValueError, match="known: edge_llm"):
            swakv.export.Exporter(layout, "sglang")  # type: ignore[arg-type]
        tables = swakv.export.Exporter(layout, "edge_llm")
        assert tables.window_left == W - 1
        with pytest.raises(swakv.Invalid, match="token 4 has no page"):
            tables.dense([0], [5])
        with pytest.raises(ValueError, match="2 slots and 1 lengths"):
            tables.dense([0, 1], [5])
