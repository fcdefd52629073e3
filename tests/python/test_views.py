# SPDX-License-Identifier: Apache-2.0
"""The pool and its tables as arrays of others, and how long these live."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable

import pytest

import swakv

np = pytest.importorskip("numpy")


def test_what_is_written_through_a_view_is_in_the_pool(session: swakv.Session) -> None:
    layout = session.layouts[0]
    k = np.asarray(layout.k_pages)
    v = np.asarray(layout.v_pages)
    assert k.shape == (layout.num_pages, 2, 16, 2, 8) == v.shape
    assert k.dtype == np.float32
    k[5, 1, 3, 1, 2], v[5, 1, 3, 1, 2] = 1.5, 2.5
    element = ((3 * 2 + 1) * 8 + 2) * 4
    at = 5 * layout.page_stride + layout.layer_stride + element
    assert ctypes.c_float.from_address(layout.k_base + at).value == 1.5
    assert ctypes.c_float.from_address(layout.v_base + at + layout.num_pages * layout.page_stride).value == 2.5
    del k, v


def test_dlpack_shows_the_same_memory(session: swakv.Session) -> None:
    view = session.layouts[0].k_pages
    k = np.asarray(view)
    k[1] = 7
    other = np.from_dlpack(view)
    assert other.shape == k.shape
    assert (other[1] == 7).all()
    assert view.__dlpack_device__() == (1, 0)
    del k, other


def test_a_dlpack_capsule_that_nobody_takes_is_freed(session: swakv.Session) -> None:
    view = session.pool
    capsule = view.__dlpack__()
    with pytest.raises(swakv.ViewsAlive):
        session.close()
    del capsule
    gc.collect()
    session.close()


def test_an_array_that_only_a_cycle_holds_keeps_no_session_open(session: swakv.Session) -> None:
    gc.disable()
    try:
        circle: list[object] = [np.asarray(session.pool)]
        circle.append(circle)
        del circle
        session.close()
    finally:
        gc.enable()
    assert session.closed


@pytest.mark.parametrize("make", [np.asarray, np.from_dlpack, lambda v: v.buffer(), lambda v: v.buffer()[8:16]])
def test_closing_with_a_live_array_is_refused(
    attach: Callable[..., swakv.Session], model: swakv.Model, make: Callable[[swakv.View], object]
) -> None:
    session = attach(model)
    array = make(session.layouts[0].k_pages)
    with pytest.raises(swakv.ViewsAlive, match="1 array"):
        session.close()
    session.ping()
    del array
    gc.collect()
    session.close()


def test_a_view_alone_does_not_keep_the_session(attach: Callable[..., swakv.Session], model: swakv.Model) -> None:
    session = attach(model)
    view = session.pool
    session.close()
    with pytest.raises(swakv.Gone, match="unmapped"):
        view.buffer()


def test_the_brokers_table_cannot_be_written(session: swakv.Session) -> None:
    view = session.layouts[0].host_table
    assert view.buffer().readonly
    assert not np.asarray(view).flags.writeable
    with pytest.raises(BufferError):
        view.__dlpack__()


def test_a_view_of_a_gpu_is_none_of_the_host() -> None:
    view = swakv.View(lambda: None, 0x1000, (4, 2), (8, 4), "f32", 0)  # type: ignore[arg-type, return-value]
    interface = view.__cuda_array_interface__
    assert interface["data"] == (0x1000, False)
    assert interface["strides"] == (8, 4)
    assert not hasattr(swakv.View(lambda: None, 0x1000, (4,), (4,), "f32", None), "__cuda_array_interface__")  # type: ignore[arg-type, return-value]
    assert view.__dlpack_device__() == (2, 0)
    with pytest.raises(BufferError, match="GPU"):
        view.buffer()
