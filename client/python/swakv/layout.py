# SPDX-License-Identifier: Apache-2.0
"""Where a layer group's pages and tables lie (spec section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _abi
from .views import ELEMENTS, View

if TYPE_CHECKING:
    from .session import Session


class Layout:
    """How kernels address one layer group. Numbers as in struct swakv_layout.

    Views: k_pages, v_pages [num_pages, layers, page_tokens, kv_heads, head_dim]; table [max_batch, 2, width] of int32.
    Page i of V has id i + num_pages in a V row of the table; -1 is empty.
    """

    def __init__(self, session: Session, group: int, c: _abi.Layout) -> None:
        self._session, self.group = session, group
        self.num_pages, self.width, self.private_pages = c.num_pages, c.width, c.private_pages
        self.page_tokens, self.layers, self.kv_heads = c.page_tokens, c.layers, c.kv_heads
        self.head_dim, self.v_head_dim, self.element_bytes = c.head_dim, c.v_head_dim, c.element_bytes
        self.page_stride, self.layer_stride = c.page_stride, c.layer_stride
        self.k_base, self.v_base, self.table_address, self.host_table_address = (
            c.k_base, c.v_base, c.table, c.host_table or 0,
        )  # fmt: skip
        self.window = c.window or None
        self.wide_offsets = bool(c.wide_offsets)
        self.dtype = next(name for name, code in _abi.DTYPES.items() if code == c.dtype)

    def __repr__(self) -> str:
        window = "full" if self.window is None else f"window {self.window}"
        return (
            f"<swakv layout of group {self.group}: {window}, {self.num_pages} pages of {self.page_tokens} tokens, "
            f"{self.layers} layers, {self.kv_heads} heads, {self.dtype}>"
        )

    def _pages(self, address: int, head_dim: int) -> View:
        element = ELEMENTS[self.dtype].bytes
        shape = (self.num_pages, self.layers, self.page_tokens, self.kv_heads, head_dim)
        head = head_dim * element
        strides = (self.page_stride, self.layer_stride, self.kv_heads * head, head, element)
        return self._session.view(address, shape, strides, self.dtype)

    @property
    def k_pages(self) -> View:
        """K of all pages of the class; those of other sessions too."""
        return self._pages(self.k_base, self.head_dim)

    @property
    def v_pages(self) -> View:
        """V of all pages of the class, page 0 first."""
        return self._pages(self.v_base + self.num_pages * self.page_stride, self.v_head_dim or self.head_dim)

    @property
    def table(self) -> View:
        """The table that kernels read: int32 [max_batch, 2, width], K row, then V row."""
        return self._session.view(self.table_address, (self._session.model.max_batch, 2, self.width), None, "i32")

    @property
    def host_table(self) -> View:
        """The broker's own copy, mapped read-only; what the table will be when all that is enqueued has run."""
        return self._session.view(
            self.host_table_address, (self._session.model.max_batch, 2, self.width), None, "i32", host=True, readonly=True
        )
