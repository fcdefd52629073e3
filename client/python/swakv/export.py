# SPDX-License-Identifier: Apache-2.0
"""Page tables as kernels of others read them: Edge-LLM, vLLM, TensorRT-LLM, FlashInfer, FlashAttention.

::

    tables = swakv.export.Exporter(session.layouts[0], "flashinfer")
    indptr, indices, last_page_len, offsets = tables.csr(request.slots, lengths)

Results are arrays of ctypes, which are buffers: numpy.asarray() or torch.frombuffer() show them without a copy. They lie in
host memory; copy them to where kernels read them, in the order of their stream.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from . import _abi, errors
from .layout import Layout

Consumer = Literal["edge_llm", "vllm", "tensorrt_llm", "flashinfer", "flash_attention"]


@dataclass(frozen=True)
class Dense:
    """table: int32 [n * halves * columns], as [n, columns] or, of K ids and then V ids, [n, 2, columns].

    offsets: int64 [n], the position of the first token of column 0: 0 unless rebased.
    """

    table: Any
    shape: tuple[int, ...]
    offsets: Any


@dataclass(frozen=True)
class Csr:
    """Pages of sequence i: indices[indptr[i] : indptr[i + 1]], int32. last_page_len: int32 [n], 1 to a page's tokens.

    offsets: int64 [n], the position of the first token listed: lengths that kernels compute count from there.
    """

    indptr: Any
    indices: Any
    last_page_len: Any
    offsets: Any


class Exporter:
    """Tables of one layer group for one consumer.

    ratio: kernel pages a page. hole: what stands where there is no page: for vLLM its null block, for FlashAttention a page
    that may be read, both taken and kept by the caller. rebased: rows begin with the first page that is kept.
    window_left: the window as kernels take it that do not count the current token (FlashInfer, FlashAttention); -1: none.
    """

    def __init__(
        self, layout: Layout, consumer: Consumer, *, ratio: int = 1, hole: int = -1, rebased: bool | None = None
    ) -> None:
        if consumer not in _abi.CONSUMERS:
            raise ValueError(f"consumer is {consumer!r}; known: {', '.join(_abi.CONSUMERS)}")
        self.layout, self.consumer = layout, consumer
        self._lib = _abi.library()
        self.style = _abi.ExportStyle()
        self._call(
            self._lib.swakv_export_style_of, _abi.CONSUMERS[consumer], ctypes.byref(layout._c), ratio, hole,
            ctypes.byref(self.style),
        )  # fmt: skip
        if rebased is not None:
            self.style.rebased = rebased
        self.kernel_tokens = layout.page_tokens // ratio
        self.window_left = -1 if layout.window is None else layout.window - 1

    @staticmethod
    def _call(function: Any, *arguments: Any) -> None:
        why = ctypes.create_string_buffer(512)
        result = function(*arguments, why, len(why))
        if result:
            raise errors.of(result, why.value.decode(errors="replace"))

    def _rows(self, slots: Sequence[int], lengths: Sequence[int], rows: Any) -> tuple[Any, Any]:
        """The C struct, and what it points to: rows of the group's host table, or of the caller's own [n_rows, width]."""
        if len(slots) != len(lengths):
            raise ValueError(f"{len(slots)} slots and {len(lengths)} lengths were given")
        view = self.layout.host_table if rows is None else memoryview(rows)
        halves, width = (view.shape[1], view.shape[2]) if rows is None else (1, view.shape[1])
        if rows is not None and (view.ndim != 2 or view.format not in ("i", "l") or view.itemsize != 4 or not view.c_contiguous):
            raise ValueError("rows of one's own are a dense int32 array [n_rows, width]")
        memory = view.buffer() if rows is None else (ctypes.c_int32 * (view.nbytes // 4)).from_buffer_copy(view)
        keep = (memory, _abi.int32s(slots), _abi.array(ctypes.c_int64, lengths))
        address = self.layout.host_table_address if rows is None else ctypes.addressof(memory)
        c = _abi.ExportRows(
            n=len(slots),
            ids=ctypes.cast(address, ctypes.POINTER(ctypes.c_int32)),
            stride=halves * width,
            width=width,
            rows=keep[1],
            lengths=keep[2],
            page_tokens=self.layout.page_tokens,
            n_rows=view.shape[0],
        )
        return c, keep

    def dense(self, slots: Sequence[int], lengths: Sequence[int], columns: int = 0, rows: Any = None) -> Dense:
        """A table of one row a sequence, every entry of it written. columns: 0: as many as the group's table has.

        slots: rows of the sequences in the group's host table (or in @rows, an int32 array [n_rows, width] of page ids of
        one's own, -1 is empty). lengths: tokens of each, those of a step that is prepared included.
        """
        c, keep = self._rows(slots, lengths, rows)
        columns = columns or c.width * self.style.ratio
        halves = self.style.halves
        table = (ctypes.c_int32 * (len(slots) * halves * columns))()
        offsets = (ctypes.c_int64 * len(slots))()
        self._call(self._lib.swakv_export_dense, ctypes.byref(c), ctypes.byref(self.style), table, columns, offsets)
        del keep
        return Dense(table, (len(slots), columns) if halves == 1 else (len(slots), halves, columns), offsets)

    def csr(self, slots: Sequence[int], lengths: Sequence[int], rows: Any = None) -> Csr:
        """Lists of the pages that are kept, one sequence behind the other; arguments as of dense()."""
        c, keep = self._rows(slots, lengths, rows)
        n, room = len(slots), len(slots) * c.width * self.style.ratio
        indptr, last = (ctypes.c_int32 * (n + 1))(), (ctypes.c_int32 * n)()
        offsets, indices, count = (ctypes.c_int64 * n)(), (ctypes.c_int32 * room)(), ctypes.c_size_t()
        self._call(
            self._lib.swakv_export_csr, ctypes.byref(c), ctypes.byref(self.style), indptr, indices, room, ctypes.byref(count),
            last, offsets,
        )  # fmt: skip
        del keep
        return Csr(indptr, (ctypes.c_int32 * count.value).from_buffer(indices), last, offsets)

    def slots(self, slots: Sequence[int], lengths: Sequence[int], count: Sequence[int], places: int = 0, rows: Any = None) -> Any:
        """Where the last count[i] tokens of each sequence lie: int64 [places], kernel page * its tokens + place in it.

        places: 0: as many as there are tokens; those behind the last get -1.
        """
        if len(count) != len(slots):
            raise ValueError(f"{len(slots)} slots and {len(count)} counts were given")
        c, keep = self._rows(slots, lengths, rows)
        places = places or sum(count)
        out = (ctypes.c_int64 * places)()
        self._call(
            self._lib.swakv_export_slots, ctypes.byref(c), ctypes.byref(self.style), _abi.int32s(count), out, places
        )  # fmt: skip
        del keep
        return out
