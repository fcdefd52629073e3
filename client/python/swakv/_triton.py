# SPDX-License-Identifier: Apache-2.0
"""Attention over swakv pages, and what writes them, as Triton kernels. attention.py says what they compute.

All that changes from step to step is read from device memory: a launch that was captured in a CUDA graph stays right.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _write(
    k_new, v_new, k_pages, v_pages, table, slots, lengths,
    kn_batch, kn_head, kn_token, vn_batch, vn_head, vn_token,
    k_page, k_token, k_head, v_page, v_token, v_head, table_row,
    HEADS: tl.constexpr, K_DIM: tl.constexpr, V_DIM: tl.constexpr, PAGE_TOKENS: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """One program a token and sequence. What has no page is left out."""
    token, row = tl.program_id(0), tl.program_id(1)
    position = tl.load(lengths + row) + token
    page = tl.load(table + tl.load(slots + row).to(tl.int64) * table_row + position // PAGE_TOKENS).to(tl.int64)
    head = tl.arange(0, BLOCK_H)[:, None]
    place = position % PAGE_TOKENS
    d = tl.arange(0, BLOCK_K)[None, :]
    mask = (head < HEADS) & (d < K_DIM) & (page >= 0)
    k = tl.load(k_new + row.to(tl.int64) * kn_batch + head * kn_head + token.to(tl.int64) * kn_token + d, mask=mask)
    tl.store(k_pages + page * k_page + place * k_token + head * k_head + d, k.to(k_pages.dtype.element_ty), mask=mask)
    d = tl.arange(0, BLOCK_V)[None, :]
    mask = (head < HEADS) & (d < V_DIM) & (page >= 0)
    v = tl.load(v_new + row.to(tl.int64) * vn_batch + head * vn_head + token.to(tl.int64) * vn_token + d, mask=mask)
    tl.store(v_pages + page * v_page + place * v_token + head * v_head + d, v.to(v_pages.dtype.element_ty), mask=mask)


@triton.jit
def _fold(q, k, v, allowed, missing, scale, cap, top, total, out, SOFTCAP: tl.constexpr, WIDEN: tl.constexpr):
    """One tile of K and V into the running maximum, sum and result (of powers of two). missing: positions without a page."""
    if WIDEN:
        q, k, v = q.to(tl.float32), k.to(tl.float32), v.to(tl.float32)
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    if SOFTCAP:
        s = cap * (1 - 2 / (tl.exp2(s * (2 * LOG2E / cap)) + 1))  # tanh
    s = tl.where(allowed, s * LOG2E, float("-inf"))
    s = tl.where(allowed & missing, float("nan"), s)  # the table is wrong, and it must show
    new = tl.maximum(top, tl.max(s, 1))
    base = tl.where(new == float("-inf"), 0.0, new)
    p = tl.exp2(s - base[:, None])
    shrink = tl.exp2(top - base)
    total = total * shrink + tl.sum(p, 1)
    out = out * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
    return new, total, out


@triton.jit
def _attend(
    q, k_new, v_new, k_pages, v_pages, table, slots, lengths, padding, sinks, out, tops, totals,
    scale, cap, tokens, window, kv_padding,
    q_batch, q_head, q_token, kn_batch, kn_head, kn_token, vn_batch, vn_head, vn_token,
    k_page, k_token, k_head, v_page, v_token, v_head, table_row,
    GROUP: tl.constexpr, HEADS: tl.constexpr, K_DIM: tl.constexpr, V_DIM: tl.constexpr, PAGE_TOKENS: tl.constexpr,
    WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, PADDING: tl.constexpr, SINKS: tl.constexpr, SPLITS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """One program a tile of queries (of all heads that share a K), K head, sequence and part of the past."""
    kv_head, row = tl.program_id(1), (tl.program_id(2) // SPLITS).to(tl.int64)
    part = tl.program_id(2) % SPLITS
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    token, head = m // GROUP, kv_head * GROUP + m % GROUP
    real = token < tokens
    dk, dv = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_V)
    start = tl.load(lengths + row)
    queries = q + row * q_batch + head[:, None] * q_head + token[:, None].to(tl.int64) * q_token + dk[None, :]
    mine = tl.load(queries, mask=real[:, None] & (dk < K_DIM)[None, :], other=0.0)
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    result = tl.zeros([BLOCK_M, BLOCK_V], tl.float32)
    first_token = tl.program_id(0) * BLOCK_M // GROUP
    last_token = tl.minimum((tl.program_id(0) * BLOCK_M + BLOCK_M - 1) // GROUP, tokens - 1)

    # The past, in pages.
    begin = start * 0
    if WINDOW:
        begin = tl.maximum(start + first_token - window + 1, 0)
    end = start
    if SPLITS > 1:
        share = tl.cdiv(tl.cdiv(tl.maximum(end - begin, 0), SPLITS), BLOCK_N) * BLOCK_N
        begin = begin + part * share
        end = tl.minimum(end, begin + share)
    cells = table + tl.load(slots + row).to(tl.int64) * table_row
    for n0 in range(begin, end, BLOCK_N):
        n = n0 + tl.arange(0, BLOCK_N)
        page = tl.load(cells + n // PAGE_TOKENS, mask=n < end, other=-1).to(tl.int64)
        there = (n < end) & (page >= 0)
        place = n % PAGE_TOKENS
        k_at = k_pages + page[:, None] * k_page + place[:, None] * k_token + kv_head * k_head + dk[None, :]
        k = tl.load(k_at, mask=there[:, None] & (dk < K_DIM)[None, :], other=0.0).to(mine.dtype)
        v_at = v_pages + page[:, None] * v_page + place[:, None] * v_token + kv_head * v_head + dv[None, :]
        v = tl.load(v_at, mask=there[:, None] & (dv < V_DIM)[None, :], other=0.0).to(mine.dtype)
        allowed = real[:, None] & (n < end)[None, :]
        if WINDOW:
            allowed = allowed & (n[None, :] > (start + token)[:, None] - window)
        if PADDING:
            allowed = allowed & (tl.load(padding + row * kv_padding + n, mask=n < end, other=0) != 0)[None, :]
        top, total, result = _fold(mine, k, v, allowed, (page < 0)[None, :], scale, cap, top, total, result, SOFTCAP, WIDEN)

    # The step's own tokens, as the model gave them: those that no page keeps, too.
    begin = start * 0
    if WINDOW:
        begin = tl.maximum(first_token - window + 1, 0)
    end = start * 0 + last_token + 1
    if SPLITS > 1:
        end = tl.where(part == 0, end, 0)
    for n0 in range(begin, end, BLOCK_N):
        n = n0 + tl.arange(0, BLOCK_N)
        k_at = k_new + row * kn_batch + kv_head * kn_head + n[:, None].to(tl.int64) * kn_token + dk[None, :]
        k = tl.load(k_at, mask=(n < end)[:, None] & (dk < K_DIM)[None, :], other=0.0)
        v_at = v_new + row * vn_batch + kv_head * vn_head + n[:, None].to(tl.int64) * vn_token + dv[None, :]
        v = tl.load(v_at, mask=(n < end)[:, None] & (dv < V_DIM)[None, :], other=0.0)
        allowed = real[:, None] & (n < end)[None, :] & (n[None, :] <= token[:, None])
        if WINDOW:
            allowed = allowed & (n[None, :] > token[:, None] - window)
        if PADDING:
            allowed = allowed & (tl.load(padding + row * kv_padding + start + n, mask=n < end, other=0) != 0)[None, :]
        top, total, result = _fold(mine, k, v, allowed, n[None, :] < 0, scale, cap, top, total, result, SOFTCAP, WIDEN)

    if SPLITS > 1:  # one token; _join() does the rest
        to = (row * HEADS + head) * SPLITS + part
        tl.store(tops + to, top, mask=real)
        tl.store(totals + to, total, mask=real)
        tl.store(out + to[:, None] * V_DIM + dv[None, :], result, mask=real[:, None] & (dv < V_DIM)[None, :])
    else:
        if SINKS:
            sink = tl.load(sinks + head, mask=real, other=0.0).to(tl.float32) * LOG2E
            new = tl.maximum(top, sink)
            total = total * tl.exp2(top - new) + tl.exp2(sink - new)
            result = result * tl.exp2(top - new)[:, None]
        result = result / tl.where(total == 0, 1.0, total)[:, None]  # 0: nothing but padding
        to = out + ((row * tokens + token) * HEADS + head)[:, None] * V_DIM + dv[None, :]
        tl.store(to, result.to(out.dtype.element_ty), mask=real[:, None] & (dv < V_DIM)[None, :])


@triton.jit
def _join(
    parts, tops, totals, sinks, out,
    HEADS: tl.constexpr, V_DIM: tl.constexpr, SINKS: tl.constexpr, SPLITS: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """One program a sequence and query head: the parts of its past are one result."""
    i = tl.program_id(0).to(tl.int64)
    part, dv = tl.arange(0, SPLITS), tl.arange(0, BLOCK_V)
    top = tl.load(tops + i * SPLITS + part)
    best = tl.max(top, 0)
    sink = 0.0
    if SINKS:
        sink = tl.load(sinks + i % HEADS).to(tl.float32) * LOG2E
        best = tl.maximum(best, sink)
    base = tl.where(best == float("-inf"), 0.0, best)
    weight = tl.exp2(top - base)
    total = tl.sum(tl.load(totals + i * SPLITS + part) * weight, 0)
    if SINKS:
        total += tl.exp2(sink - base)
    at = parts + (i * SPLITS + part)[:, None] * V_DIM + dv[None, :]
    result = tl.sum(tl.load(at, mask=(dv < V_DIM)[None, :], other=0.0) * weight[:, None], 0)
    result = result / tl.where(total == 0, 1.0, total)
    tl.store(out + i * V_DIM + dv, result.to(out.dtype.element_ty), mask=dv < V_DIM)


def _block(n: int) -> int:
    return max(16, triton.next_power_of_2(n))


def _strides(x: torch.Tensor) -> tuple[int, int, int]:
    """Of [batch, heads, tokens, dim], whose last axis is dense."""
    return x.stride(0), x.stride(1), x.stride(2)


def _of_pages(x: torch.Tensor) -> tuple[int, int, int]:
    """Of [pages, tokens, heads, dim]."""
    return x.stride(0), x.stride(1), x.stride(2)


def write(
    k: torch.Tensor, v: torch.Tensor, k_pages: torch.Tensor, v_pages: torch.Tensor, table: torch.Tensor, where: Any
) -> None:
    batch, heads, tokens, dim = k.shape
    _write[(tokens, batch)](
        k, v, k_pages, v_pages, table, where.slots, where.lengths,
        *_strides(k), *_strides(v), *_of_pages(k_pages), *_of_pages(v_pages), table.stride(0),
        HEADS=heads, K_DIM=dim, V_DIM=v.shape[3], PAGE_TOKENS=k_pages.shape[1],
        BLOCK_H=triton.next_power_of_2(heads), BLOCK_K=_block(dim), BLOCK_V=_block(v.shape[3]), num_warps=1,
    )  # fmt: skip


def _splits(batch: int, heads: int, longest: int, block: int, device: torch.device) -> int:
    """Parts of the past that fill a GPU when a step has one token a sequence. The same whatever is in the pages now."""
    wanted = 4
    if device.type == "cuda":
        wanted = 2 * torch.cuda.get_device_properties(device).multi_processor_count // (batch * heads)
    n = max(1, min(wanted, triton.cdiv(longest, 2 * block), 64))
    return 1 << (n.bit_length() - 1)


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, k_pages: torch.Tensor, v_pages: torch.Tensor, table: torch.Tensor,
    where: Any, window: int | None, scale: float, softcap: float, sinks: torch.Tensor | None, padding: torch.Tensor | None,
) -> torch.Tensor:  # fmt: skip
    batch, heads, tokens, dim = q.shape
    kv_heads, v_dim, page_tokens = k.shape[1], v.shape[3], k_pages.shape[1]
    group = heads // kv_heads
    wide = q.element_size() * max(_block(dim), _block(v_dim)) > 256
    block_n = 32 if wide else 64
    block_m = _block(group) if tokens == 1 else min(32 if wide else 64, _block(group * tokens))
    longest = table.shape[2] * page_tokens if window is None else window
    splits = _splits(batch, kv_heads, longest, block_n, q.device) if tokens == 1 else 1
    out = torch.empty((batch, tokens, heads, v_dim), dtype=q.dtype, device=q.device)
    to, tops, totals = out, out, out
    if splits > 1:
        to = torch.empty((batch * heads * splits, v_dim), dtype=torch.float32, device=q.device)
        tops, totals = torch.empty((2, batch * heads * splits), dtype=torch.float32, device=q.device)
    _attend[(triton.cdiv(group * tokens, block_m), kv_heads, batch * splits)](
        q, k, v, k_pages, v_pages, table, where.slots, where.lengths,
        where.slots if padding is None else padding, where.slots if sinks is None else sinks, to, tops, totals,
        scale, softcap or 1.0, tokens, window or 0, 0 if padding is None else padding.stride(0),
        *_strides(q), *_strides(k), *_strides(v), *_of_pages(k_pages), *_of_pages(v_pages), table.stride(0),
        GROUP=group, HEADS=heads, K_DIM=dim, V_DIM=v_dim, PAGE_TOKENS=page_tokens,
        WINDOW=window is not None, SOFTCAP=bool(softcap), PADDING=padding is not None, SINKS=sinks is not None, SPLITS=splits,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=_block(dim), BLOCK_V=_block(v_dim),
        WIDEN=q.device.type == "cpu",  # the interpreter multiplies the bits of bf16
        num_warps=4, num_stages=2,
    )  # fmt: skip
    if splits > 1:
        _join[(batch * heads,)](
            to, tops, totals, where.slots if sinks is None else sinks, out,
            HEADS=heads, V_DIM=v_dim, SINKS=sinks is not None, SPLITS=splits, BLOCK_V=_block(v_dim), num_warps=1,
        )  # fmt: skip
    return out
