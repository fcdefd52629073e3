# SPDX-License-Identifier: Apache-2.0
"""Attention that reads K and V where they lie: through the table that the session keeps up to date, without a copy.

On a GPU these are Triton kernels, which come with torch; on the host plain torch, which copies the pages that it reads.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch

from .torch import GroupTensors


@dataclass(frozen=True)
class Sequences:
    """The sequences of a step, in the device's memory: what a captured graph reads anew at each replay.

    slots: int32 [batch], rows of the table. lengths: int32 [batch], tokens of each before the step.
    """

    slots: torch.Tensor
    lengths: torch.Tensor


def _kernels(device: torch.device) -> Any:
    """The module with the kernels; None: no Triton for this device."""
    if device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1":
        from . import _triton

        return _triton
    return None


def _dense(x: torch.Tensor) -> torch.Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def write(pages: GroupTensors, layer: int, where: Sequences, k: torch.Tensor, v: torch.Tensor) -> None:
    """Puts the step's K and V, [batch, kv_heads, tokens, head_dim], into the pages of @where; what has no page is left out."""
    kernels = _kernels(k.device)
    how = (_dense(k), _dense(v), pages.k[:, layer], pages.v[:, layer], pages.table, where)
    (_write if kernels is None else kernels.write)(*how)


def attend(
    pages: GroupTensors,
    layer: int,
    where: Sequences,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    padding: torch.Tensor | None = None,
) -> torch.Tensor:
    """Causal attention of a step over what the sequences hold: [batch, tokens, heads, head_dim of V].

    q: [batch, heads, tokens, head_dim], heads a multiple of those of K. k, v: of the step's own tokens, in pages already or not;
    what lies before them is read from the pages. The window is the group's.
    softcap: not 0: a score x becomes softcap * tanh(x / softcap). sinks: [heads], logits that join each softmax's sum only.
    padding: [batch, at least all tokens] of bool, True: a token that may be read; None: all. A token that may read none gets 0.
    A missing page within the window gives NaN.
    """
    kernels = _kernels(q.device)
    how = (
        _dense(q), _dense(k), _dense(v), pages.k[:, layer], pages.v[:, layer], pages.table, where, pages.layout.window,
        scale, softcap, sinks, padding,
    )  # fmt: skip
    return (_attend if kernels is None else kernels.attend)(*how)


# ---- without Triton: one sequence after the other ---------------------------------------------------------------------


def _write(
    k: torch.Tensor, v: torch.Tensor, k_pages: torch.Tensor, v_pages: torch.Tensor, table: torch.Tensor, where: Sequences
) -> None:
    size = k_pages.shape[1]
    for i, (slot, start) in enumerate(zip(where.slots.tolist(), where.lengths.tolist(), strict=True)):
        position = torch.arange(start, start + k.shape[2])
        page = table[slot, 0][position // size].long()
        there = page >= 0
        at = page[there], position[there] % size
        k_pages[at] = k[i].transpose(0, 1)[there].to(k_pages.dtype)
        v_pages[at] = v[i].transpose(0, 1)[there].to(v_pages.dtype)


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, k_pages: torch.Tensor, v_pages: torch.Tensor, table: torch.Tensor,
    where: Sequences, window: int | None, scale: float, softcap: float, sinks: torch.Tensor | None, padding: torch.Tensor | None,
) -> torch.Tensor:  # fmt: skip
    batch, heads, tokens, _ = q.shape
    group, size = heads // k.shape[1], k_pages.shape[1]
    out = torch.empty((batch, tokens, heads, v.shape[3]), dtype=q.dtype, device=q.device)
    for i, (slot, start) in enumerate(zip(where.slots.tolist(), where.lengths.tolist(), strict=True)):
        begin = 0 if window is None else max(0, start - window + 1)
        past = torch.arange(begin, start)
        page = table[slot, 0][past // size].long()
        missing = page < 0
        at = page.clamp(min=0), past % size
        all_k = torch.cat([k_pages[at].transpose(0, 1).to(k.dtype), k[i]], dim=1).repeat_interleave(group, 0)
        all_v = torch.cat([v_pages[at].transpose(0, 1).to(v.dtype), v[i]], dim=1).repeat_interleave(group, 0)
        score = (q[i].float() @ all_k.float().transpose(1, 2)) * scale
        if softcap:
            score = softcap * torch.tanh(score / softcap)
        score[:, :, : past.numel()].masked_fill_(missing, float("nan"))
        kv, mine = torch.arange(begin, start + tokens), torch.arange(start, start + tokens)[:, None]
        allowed = (kv <= mine) & (kv > mine - (window or start + tokens))
        if padding is not None:
            allowed &= padding[i, begin : start + tokens].bool()
        score.masked_fill_(~allowed, float("-inf"))
        if sinks is not None:
            score = torch.cat([score, sinks.float()[:, None, None].expand(-1, tokens, 1)], dim=2)
        weight = torch.softmax(score, dim=2)[:, :, : kv.numel()]
        weight = weight.masked_fill(~allowed, 0.0)  # a token that may read none
        out[i] = (weight @ all_v.float()).transpose(0, 1).to(q.dtype)
    return out
