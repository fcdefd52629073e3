# SPDX-License-Identifier: Apache-2.0
"""Where a layer group's pages and tables lie (spec section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _abi, errors
from .views import ELEMENTS, View, packed

if TYPE_CHECKING:
    from .session import Session


def _name(of: dict[str, int], code: int) -> str | None:
    return next((name for name, c in of.items() if c == code), None)


class Layout:
    """How kernels address one layer group. Numbers as in struct swakv_layout; addresses are those that kernels use.

    form: "split" or "joined"; order: of the parts of a layer; dtype: None of a group that was declared in bytes.
    first_page, k_first, v_first, extra_first: where page 0, and its K, V and extra bytes of layer 0, begin; 0: it has none.

    Views, P = page_tokens:
        k_pages, v_pages  [num_pages, layers, P, kv_heads, head_dim] of dtype, of groups that declared heads
        k_rows, v_rows    [num_pages, layers, P, bytes of a token and layer] of u8
        extras            [num_pages, layers, extra_bytes] of u8
        pages             [num_pages, page_stride] of u8, of joined pages
        table, host_table [max_batch, 2, width] of i32; [max_batch, 1, width] of joined pages

    In a V row of the table page i of split pages is i + num_pages; -1 is empty.
    """

    def __init__(self, session: Session, group: int, c: _abi.Layout) -> None:
        self._session, self.group, self._c = session, group, c
        self.num_pages, self.width, self.private_pages = c.num_pages, c.width, c.private_pages
        self.page_tokens, self.layers, self.kv_heads = c.page_tokens, c.layers, c.kv_heads
        self.head_dim, self.v_head_dim, self.element_bytes = c.head_dim, c.v_head_dim or c.head_dim, c.element_bytes
        self.page_stride, self.layer_stride = c.page_stride, c.layer_stride
        self.k_token_stride, self.v_token_stride = c.k_token_stride, c.v_token_stride
        self.k_base, self.v_base, self.table_address, self.host_table_address = (
            c.k_base, c.v_base, c.table, c.host_table or 0,
        )  # fmt: skip
        self.first_page, self.k_first, self.v_first, self.extra_first = c.first_page, c.k_base, c.v_first, c.extra_first
        self.k_bytes, self.v_bytes, self.extra_bytes, self.align = c.k_bytes, c.v_bytes, c.extra_bytes, c.align
        self.window = c.window or None
        self.wide_offsets = bool(c.wide_offsets)
        self.dtype = _name(_abi.DTYPES, c.dtype)
        self.form, self.order = _name(_abi.FORMS, c.form), _name(_abi.ORDERS, c.order)
        self.tag = (c.tag or b"").decode(errors="replace")

    def __repr__(self) -> str:
        window = "full" if self.window is None else f"window {self.window}"
        what = (
            f"{self.kv_heads} heads, {self.dtype}" if self.dtype else f"{self.k_bytes} + {self.v_bytes} bytes a token and layer"
        )
        return (
            f"<swakv layout of group {self.group}: {window}, {self.num_pages} {self.form} pages of {self.page_tokens} tokens, "
            f"{self.layers} layers, {what}>"
        )

    @property
    def joined(self) -> bool:
        return self.form == "joined"

    # ---- K and V ---------------------------------------------------------------------

    def _pages(self, address: int, token_stride: int, head_dim: int) -> View:
        if self.dtype is None:
            raise errors.Invalid(f"group {self.group} was declared in bytes and has no heads: k_rows and v_rows show its bytes")
        element = ELEMENTS[self.dtype].bytes
        shape = (self.num_pages, self.layers, self.page_tokens, self.kv_heads, head_dim)
        strides = (self.page_stride, self.layer_stride, token_stride, head_dim * element, element)
        return self._session.view(address, shape, strides, self.dtype)

    def _rows(self, address: int, token_stride: int, row: int) -> View:
        shape = (self.num_pages, self.layers, self.page_tokens, row)
        return self._session.view(address, shape, (self.page_stride, self.layer_stride, token_stride, 1), "u8")

    @property
    def k_pages(self) -> View:
        """K of all pages of the class; those of other sessions too."""
        return self._pages(self.k_first, self.k_token_stride, self.head_dim)

    @property
    def v_pages(self) -> View:
        """V of all pages of the class, page 0 first."""
        return self._pages(self.v_first, self.v_token_stride, self.v_head_dim)

    @property
    def k_rows(self) -> View:
        """The same memory as bytes, however the group was declared."""
        return self._rows(self.k_first, self.k_token_stride, self.k_bytes)

    @property
    def v_rows(self) -> View:
        """As k_rows; the last axis is 0 where the group has no V."""
        return self._rows(self.v_first, self.v_token_stride, self.v_bytes)

    @property
    def extras(self) -> View:
        """The extra bytes of each page and layer; the last axis is 0 where the group has none."""
        shape = (self.num_pages, self.layers, self.extra_bytes)
        return self._session.view(self.extra_first, shape, (self.page_stride, self.layer_stride, 1), "u8")

    # ---- whole pages -----------------------------------------------------------------

    @property
    def pages(self) -> View:
        """Every byte of each joined page. Page i is row i; one of them, over the middle of the pool, is never given out."""
        return self.typed("u8", (self.page_stride,))

    def typed(self, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, offset: int = 0) -> View:
        """An array [num_pages, *shape] over joined pages, laid out as an engine wants it within a page.

        strides: in bytes, within a page; None: dense. offset: bytes from the start of each page.
        """
        if not self.joined:
            raise errors.Invalid(f"the pages of group {self.group} are split, K and V lie apart: declare form='joined'")
        inner = packed(shape, ELEMENTS[dtype].bytes) if strides is None else strides
        end = offset + sum((n - 1) * s for n, s in zip(shape, inner, strict=True)) + ELEMENTS[dtype].bytes
        if offset < 0 or min(inner, default=0) < 0 or min(shape, default=1) < 1 or end > self.page_stride:
            raise errors.Invalid(
                f"an array {dtype}{list(shape)} of strides {list(inner)} at offset {offset} does not lie within a page of "
                f"{self.page_stride} bytes"
            )
        return self._session.view(self.first_page + offset, (self.num_pages, *shape), (self.page_stride, *inner), dtype)

    # ---- tables ----------------------------------------------------------------------

    @property
    def _table_shape(self) -> tuple[int, int, int]:
        return (self._session.model.max_batch, 1 if self.joined else 2, self.width)

    @property
    def table(self) -> View:
        """The table that kernels read: of split pages a K row, then a V row; of joined pages one row."""
        return self._session.view(self.table_address, self._table_shape, None, "i32")

    @property
    def host_table(self) -> View:
        """The broker's own copy, mapped read-only; what the table will be when all that is enqueued has run."""
        return self._session.view(self.host_table_address, self._table_shape, None, "i32", host=True, readonly=True)
