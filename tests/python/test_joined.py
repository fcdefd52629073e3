# SPDX-License-Identifier: Apache-2.0
"""Joined pages and groups declared in bytes, in Python: where everything lies."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

import swakv

np = pytest.importorskip("numpy")

Attach = Callable[..., swakv.Session]
HEADS = dict(layers=3, kv_heads=2, head_dim=8, v_head_dim=4, window=64, page_tokens=16, dtype="f32")
BYTES = dict(layers=3, k_bytes=24, v_bytes=8, extra_bytes=10, page_tokens=16, tag="made up")


@pytest.fixture
def opened(attach: Attach) -> Any:
    held = []

    def run(*groups: dict[str, Any]) -> swakv.Session:
        held.append(attach(swakv.Model("joined", [swakv.Group(**g) for g in groups], max_batch=4, max_seq=512)))
        return held[-1]

    yield run
    for session in held:
        session.close()


def test_joined_pages_lie_in_one_run(opened: Callable[..., swakv.Session]) -> None:
    session = opened(HEADS | dict(form="joined"))
    layout = session.layouts[0]
    assert (layout.form, layout.order, layout.joined) == ("joined", "k_v_extra", True)
    assert layout.k_pages.shape == (layout.num_pages, 3, 16, 2, 8)
    assert layout.v_pages.shape == (layout.num_pages, 3, 16, 2, 4)
    assert layout.pages.shape == (layout.num_pages, 3 * 16 * 2 * (8 + 4) * 4)
    k, v, pages = np.asarray(layout.k_pages), np.asarray(layout.v_pages), np.asarray(layout.pages)
    page = session.pages().take(1)[0]
    k[page, 1, 3, 1, 2], v[page, 2, 5, 0, 3] = 1.5, 2.5
    assert pages[page].view("<f4").nonzero()[0].tolist() == [
        (1 * 12 * 16 * 2) + (3 * 2 + 1) * 8 + 2,
        (2 * 12 * 16 * 2) + 8 * 16 * 2 + (5 * 2 + 0) * 4 + 3,
    ], "layer after layer: its K, then its V"
    assert ctypes.c_float.from_address(layout.first_page + page * layout.page_stride + 4 * (384 + 58)).value == 1.5
    del k, v, pages


def test_rows_have_k_and_v_of_a_token_side_by_side(opened: Callable[..., swakv.Session]) -> None:
    layout = opened(HEADS | dict(form="joined", order="rows")).layouts[0]
    assert layout.k_token_stride == layout.v_token_stride == layout.k_bytes + layout.v_bytes == 96
    k, v = np.asarray(layout.k_pages), np.asarray(layout.v_pages)
    pages = np.asarray(layout.typed("f32", (3, 16, 24)))
    k[2, 1, 3], v[2, 1, 3] = 5, 6
    assert (pages[2, 1, 3, :16] == 5).all() and (pages[2, 1, 3, 16:] == 6).all()
    assert (pages[2] != 0).sum() == 24
    pages[2] = 0
    del k, v, pages


@pytest.mark.parametrize("form", ["split", "joined"])
def test_a_group_in_bytes(opened: Callable[..., swakv.Session], form: str) -> None:
    session = opened(BYTES | dict(form=form, align=8))
    layout = session.layouts[0]
    assert (layout.dtype, layout.tag, layout.align) == (None, "made up", 8)
    assert layout.k_rows.shape == (layout.num_pages, 3, 16, 24)
    assert layout.v_rows.shape == (layout.num_pages, 3, 16, 8)
    assert layout.extras.shape == (layout.num_pages, 3, 10)
    parts = [np.asarray(view) for view in (layout.k_rows, layout.v_rows, layout.extras)]
    page = session.pages().take(1)[0]
    for number, part in enumerate(parts, start=1):
        part[page] = number
    for number, part in enumerate(parts, start=1):
        assert (part[page] == number).all(), "none lies over another"
    for name in ("k_pages", "v_pages"):
        with pytest.raises(swakv.Invalid, match="in bytes"):
            getattr(layout, name)
    del part, parts


def test_a_latent_has_no_v(opened: Callable[..., swakv.Session]) -> None:
    layout = opened(dict(layers=2, k_bytes=64, page_tokens=16, form="joined", tag="mla")).layouts[0]
    assert np.asarray(layout.v_rows).shape == (layout.num_pages, 2, 16, 0)
    assert np.asarray(layout.extras).shape == (layout.num_pages, 2, 0)
    assert layout.pages.shape == (layout.num_pages, 2 * 16 * 64)
    assert "64 + 0 bytes" in repr(layout)


def test_tables_of_joined_groups_have_one_row(opened: Callable[..., swakv.Session]) -> None:
    session = opened(HEADS, HEADS | dict(form="joined"))
    split, joined = session.layouts
    assert np.asarray(split.table).shape == (4, 2, split.width)
    assert np.asarray(joined.host_table).shape == (4, 1, joined.width)
    with session.begin(slots=[1, 3]) as request:
        with request.prefill([40, 20]):
            pass
        for sequence, slot in enumerate((1, 3)):
            for group, layout in enumerate((split, joined)):
                row = np.asarray(layout.table)[slot]
                bound = request.sequence(sequence, group).bindings
                assert {c: int(p) for c, p in enumerate(row[0]) if p >= 0} == bound
                if group == 0:
                    assert {c: int(p) - layout.num_pages for c, p in enumerate(row[1]) if p >= 0} == bound
    del row


def test_whole_pages_are_of_joined_groups_and_arrays_stay_within_them(opened: Callable[..., swakv.Session]) -> None:
    split, joined = opened(HEADS, HEADS | dict(form="joined")).layouts
    with pytest.raises(swakv.Invalid, match="split"):
        _ = split.pages
    for wrong in (
        dict(shape=(joined.page_stride + 1,)),
        dict(shape=(8,), offset=joined.page_stride - 7),
        dict(shape=(8,), offset=-1),
        dict(shape=(2, 2), strides=(joined.page_stride, 1)),
        dict(shape=(2,), strides=(-1,)),
        dict(shape=(0,)),
    ):
        with pytest.raises(swakv.Invalid, match="does not lie within a page"):
            joined.typed("u8", **wrong)


def test_elements_that_lie_askew_are_refused_by_arrays_of_elements(opened: Callable[..., swakv.Session]) -> None:
    layout = opened(HEADS | dict(form="joined", extra_bytes=3)).layouts[0]
    with pytest.raises(ValueError, match="align=4"):
        layout.k_pages.__dlpack__()
    aligned = opened(HEADS | dict(form="joined", extra_bytes=3, align=4)).layouts[0]
    assert aligned.page_stride % 4 == 0
    assert np.from_dlpack(aligned.k_pages).shape == aligned.k_pages.shape


def test_wrong_declarations_are_refused_in_a_sentence(opened: Callable[..., swakv.Session]) -> None:
    for wrong, sentence in (
        (dict(form="glued"), "form is 'glued'; known: split, joined"),
        (dict(order="shuffled"), "order is 'shuffled'"),
        (dict(align=3), "3"),
        (dict(order="rows"), "two halves"),
        (dict(k_bytes=8), "bytes"),
        (dict(tag="x" * 32), "32 characters"),
    ):
        with pytest.raises(ValueError, match=sentence):
            opened(HEADS | wrong)
