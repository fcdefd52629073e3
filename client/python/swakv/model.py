# SPDX-License-Identifier: Apache-2.0
"""What a worker declares about its model (spec section 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from . import _abi

DType = Literal["f16", "bf16", "f32", "fp8"]
Chunk = Literal["retained", "mapped"]
Form = Literal["split", "joined"]
Order = Literal["k_v_extra", "extra_k_v", "rows"]


def _choice(what: str, value: str, known: dict[str, int]) -> int:
    if value not in known:
        raise ValueError(f"{what} is {value!r}; known: {', '.join(known)}")
    return known[value]


@dataclass(frozen=True)
class Group:
    """Layers that share a window and a geometry: heads times elements, or plain bytes.

    layers, kv_heads, head_dim: counts; v_head_dim: of V, 0: as K.
    window: tokens that stay readable, the current one included; None: all of them (full attention).
    page_tokens: tokens a page, a power of two from 16 to 256; 0: 128.
    k_bytes, v_bytes: of one token and layer, instead of kv_heads, head_dim and dtype; v_bytes may be 0.
    extra_bytes: of a page and layer, beside K and V: scales, say.
    form: "split": K and V of a page lie in two halves of the pool; "joined": all of a page is one run of bytes.
    order: of the parts of a layer: "k_v_extra", "extra_k_v", or "rows" (K and V of a token side by side; joined only).
    align: bytes at multiples of which each part begins, a power of two up to 4096; 0: 1.
    tag: what the bytes are, up to 31 printable ASCII characters; shown, never interpreted.
    movable: a step may find its requests' pages elsewhere in the pool, so that others get extents; see Request.pin().
    """

    layers: int
    kv_heads: int = 0
    head_dim: int = 0
    window: int | None = None
    page_tokens: int = 0
    v_head_dim: int = 0
    dtype: DType = "bf16"
    k_bytes: int = 0
    v_bytes: int = 0
    extra_bytes: int = 0
    form: Form = "split"
    order: Order = "k_v_extra"
    align: int = 0
    tag: str = ""
    movable: bool = False

    def to_c(self) -> _abi.Group:
        dtype = _choice("dtype", self.dtype, _abi.DTYPES)
        in_bytes = (self.k_bytes or self.v_bytes) and not (self.kv_heads or self.head_dim or self.v_head_dim)
        counts = ("page_tokens", "layers", "kv_heads", "head_dim", "v_head_dim", "k_bytes", "v_bytes", "extra_bytes", "align")
        return _abi.Group(
            **{name: _abi.number(f"{name} of a group", getattr(self, name)) for name in counts},
            kind=_abi.FULL if self.window is None else _abi.SLIDING,
            window=0 if self.window is None else _abi.number("window of a group", self.window, 63),
            dtype=0 if in_bytes else dtype,
            form=_choice("form", self.form, _abi.FORMS),
            order=_choice("order", self.order, _abi.ORDERS),
            tag=self.tag.encode() or None,
            flags=_abi.GROUP_MOVABLE if self.movable else 0,
        )


@dataclass(frozen=True)
class Model:
    """A model: its layer groups, how many sequences run at once, and how they advance.

    name: key of the model's floor and ceiling, shown in status and logs.
    groups: 1 to 8; each has a table, page ids and a reservation of its own.
    max_batch: slots, 1 to 4096. max_seq: tokens that one sequence may reach.
    max_advance: tokens of the longest step that may never lack a page; 0: any.
    in_flight: steps prepared and not yet seen complete; 0: 2.
    max_rewind: how many tokens a sequence may go back.
    chunk: pages that a step of several tokens binds, see enum swakv_chunk.
    """

    name: str
    groups: Sequence[Group] = field(default_factory=tuple)
    max_batch: int = 1
    max_seq: int = 4096
    max_advance: int = 0
    in_flight: int = 0
    max_rewind: int = 0
    chunk: Chunk = "retained"

    def to_c(self) -> _abi.Model:
        """The C struct; it keeps alive what it points to."""
        if not isinstance(self.name, str):
            raise TypeError(f"name of the model is {self.name!r}; wanted: a str")
        listed = isinstance(self.groups, (list, tuple))
        wrong = [g for g in self.groups if not isinstance(g, Group)] if listed else [self.groups]
        if wrong:
            raise TypeError(f"groups of the model has {wrong[0]!r}; wanted: a list of swakv.Group(...)")
        groups = _abi.array(_abi.Group, [g.to_c() for g in self.groups])
        return _abi.Model(
            name=self.name.encode(),
            groups=groups,
            n_groups=len(self.groups),
            max_batch=_abi.number("max_batch", self.max_batch),
            max_seq=_abi.number("max_seq", self.max_seq, 63),
            max_advance=_abi.number("max_advance", self.max_advance, 63),
            in_flight=_abi.number("in_flight", self.in_flight),
            max_rewind=_abi.number("max_rewind", self.max_rewind),
            chunk=_choice("chunk", self.chunk, _abi.CHUNKS),
        )
