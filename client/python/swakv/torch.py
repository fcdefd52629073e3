# SPDX-License-Identifier: Apache-2.0
"""A session's pool and tables as torch tensors, without a copy.

A tensor keeps the session attached: Session.close() refuses as long as one is alive.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch

from .layout import Layout
from .session import Session
from .views import View

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "fp8": torch.float8_e4m3fn,
    "i32": torch.int32,
    "u8": torch.uint8,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def tensor(view: View) -> torch.Tensor:
    """The view's memory as a tensor of its shape, strides and type."""
    dtype = DTYPES[view.dtype]
    if 0 in view.shape:
        return torch.empty(view.shape, dtype=dtype, device="cpu" if view.device is None else f"cuda:{view.device}")
    if view.device is None:
        return torch.frombuffer(view.buffer(), dtype=dtype).as_strided(view.shape, view.element_strides)
    # The interface has no name for the types that NumPy lacks: take integers of their size.
    raw = view.as_type("u16") if view.element_bytes == 2 else view
    as_cuda = torch.as_tensor(raw, device=f"cuda:{view.device}")
    return as_cuda if as_cuda.dtype == dtype else as_cuda.view(dtype)


@dataclass(frozen=True)
class GroupTensors:
    """One layer group. k, v: [num_pages, layers, page_tokens, kv_heads, head_dim]; k[:, l], v[:, l]: those of one layer.

    Of a group that was declared in bytes: [num_pages, layers, page_tokens, bytes] of u8. Split or joined makes no
    difference to k and v, whose first axis is the page.
    pages: [num_pages, page_stride] of u8, whole joined pages; None of split ones. extras: [num_pages, layers, extra_bytes].
    table: int32 [max_batch, 2, width], V ids are page + num_pages; [max_batch, 1, width] of joined pages.
    host_table: the broker's copy, in this process's memory, not to be written.
    """

    layout: Layout
    k: torch.Tensor
    v: torch.Tensor
    extras: torch.Tensor
    pages: torch.Tensor | None
    table: torch.Tensor
    host_table: torch.Tensor


def group(layout: Layout) -> GroupTensors:
    """The tensors of one layer group."""
    with warnings.catch_warnings():  # torch warns that nothing may write to what a read-only buffer holds
        warnings.filterwarnings("ignore", message=".*not writable.*")
        host_table = tensor(layout.host_table)
    k, v = (layout.k_rows, layout.v_rows) if layout.dtype is None else (layout.k_pages, layout.v_pages)
    pages = tensor(layout.pages) if layout.joined else None
    return GroupTensors(layout, tensor(k), tensor(v), tensor(layout.extras), pages, tensor(layout.table), host_table)


def bind(session: Session, index: int = 0, *, graph_steps: int = 0) -> None:
    """Binds stream @index: to torch's current CUDA stream, or to the host.

    graph_steps: not 0: to a new CUDA stream, stream(session), from whose graphs so many steps in flight may be replayed.
    """
    if not session.info.cuda:
        session.stream(index).bind_host()
    elif graph_steps:
        session.stream(index).bind_cuda(torch.cuda.Stream(), graph_steps=graph_steps)  # torch's streams live for ever
    else:
        session.stream(index).bind_cuda(torch.cuda.current_stream())


def stream(session: Session, index: int = 0) -> torch.cuda.Stream:
    """Stream @index of a session on a GPU, as torch knows it: `with torch.cuda.stream(stream(session)):`."""
    return torch.cuda.ExternalStream(session.stream(index).cuda_stream)
