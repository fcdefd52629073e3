# SPDX-License-Identifier: Apache-2.0
"""The worker's process: joins the session that EngineCore attached, and makes vLLM's KV buffer from the pool."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import swakv
import swakv.torch

from . import Refused, seams

# Under this name a KVCacheConfig of vLLM carries a Share to the worker: it travels with it, and no repr() shows it.
ATTRIBUTE = "swakv_share"


@dataclass(frozen=True, repr=False)
class Share:
    """What a worker needs to join."""

    token: bytes
    broker: str
    model: swakv.Model
    streams: int
    device: int
    attached: int  # pid of the process that attached


@dataclass(frozen=True)
class Report:
    """What a worker has made of a Share. first, bytes: where its KV buffer lies in the pool."""

    pid: int
    session_id: int
    num_pages: int
    page_bytes: int
    layers: int
    outside: tuple[str, ...]  # layers whose cache does not lie in the pool


_sessions: dict[int, swakv.Session] = {}  # of this process, by their number


def keep(session: swakv.Session) -> None:
    """A worker in this very process uses @session, instead of joining it."""
    _sessions[session.info.session_id] = session


def buffer(share: Share) -> torch.Tensor:
    """All pages of the session's class as int8, page 0 first. Nothing is written."""
    session = next(iter(_sessions.values())) if share.attached == os.getpid() else swakv.attach(
        share.model, share.broker, streams=share.streams, cuda_device=share.device, join=share.token
    )  # fmt: skip
    keep(session)
    return swakv.torch.tensor(session.layouts[0].pages).reshape(-1).view(torch.int8)


def place(views: dict[str, torch.Tensor], pool: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same views, of @pool's memory. @views: over a buffer that has none ("meta")."""
    storage = pool.untyped_storage()
    placed = {}
    for name, view in views.items():
        start = pool.storage_offset() * pool.element_size()
        if start % view.element_size():
            raise Refused(f"the pool begins at byte {start} of its tensor, between two elements of {view.element_size()} bytes")
        offset = start // view.element_size() + view.storage_offset()
        placed[name] = torch.empty(0, dtype=view.dtype, device=pool.device).set_(storage, offset, view.shape, view.stride())
    return placed


def report(worker: Any) -> Report | None:
    """Called in each worker by EngineCore: whether its KV cache is the pool."""
    for session in _sessions.values():
        layout = session.layouts[0]
        first, end = layout.first_page, layout.first_page + layout.num_pages * layout.page_stride
        layers = worker.model_runner.compilation_config.static_forward_context
        caches = {name: getattr(layer, "kv_cache", None) for name, layer in layers.items()}
        tensors = {name: cache for name, cache in caches.items() if isinstance(cache, torch.Tensor)}
        outside = tuple(name for name, t in tensors.items() if not first <= t.data_ptr() < end)
        return Report(os.getpid(), session.info.session_id, layout.num_pages, layout.page_stride, len(tensors), outside)
    return None


def _allocate(stock: Callable[..., dict[str, torch.Tensor]]) -> Callable[..., dict[str, torch.Tensor]]:
    def allocate_kv_cache(
        kv_cache_config: Any, device: torch.device, layout: Any, kernel_block_sizes: list[int] | None = None
    ) -> dict[str, torch.Tensor]:
        share: Share | None = getattr(kv_cache_config, ATTRIBUTE, None)
        if share is None:  # a small one, to profile with
            return stock(kv_cache_config, device, layout, kernel_block_sizes)
        # vLLM's own code lays out the views, over a buffer without memory.
        views = stock(kv_cache_config, torch.device("meta"), layout, kernel_block_sizes)
        pool = buffer(share)
        needed = max(t.size for t in kv_cache_config.kv_cache_tensors)
        if pool.numel() < needed:
            raise Refused(f"vLLM lays out {needed} bytes of KV cache, and the pool's pages are {pool.numel()}")
        return place(views, pool)

    return allocate_kv_cache


def install() -> None:
    """Replaces vLLM's allocation: at its source, and where it has been imported by name already."""
    import sys

    seams.ALLOCATE.replace(_allocate)
    ours = seams.ALLOCATE.get()
    for user in ("vllm.v1.worker.gpu_model_runner", "vllm.v1.worker.gpu.attn_utils"):
        module = sys.modules.get(user)
        if module is not None and "allocate_kv_cache" in vars(module):
            module.allocate_kv_cache = ours  # type: ignore[attr-defined]
