# SPDX-License-Identifier: Apache-2.0
"""Continuous batching of transformers 5.24 on swakv pages: what generate_batch() caches lies in the pool, and nowhere else.

::

    with swakv.transformers.paged.use(longest=4096):
        outputs = model.generate_batch(prompts, generation_config=..., continuous_batching_config=...)

A sector of transformers is one joined page, so a block, a layer and a token lie where its own code computes them. Sectors are
taken as requests need them, up to what `num_blocks` allows, and given back as requests end: models in several processes share
a pool. What one request of `longest` tokens needs is kept, so that one can always run.

Sliding layers keep pages by absolute position, and give up those that the window has left.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import torch
import transformers

from .. import errors
from .. import torch as swakv_torch
from ..model import Group, Model
from ..pages import MAX_PAGES, Pages
from ..session import Session
from ..session import attach as attach_session

try:
    from transformers.generation.continuous_batching import cache as stock
    from transformers.generation.continuous_batching import continuous_api as api
    from transformers.generation.continuous_batching.cache_allocators import (
        FullAttentionCacheAllocator,
        SlidingAttentionCacheAllocator,
    )
    from transformers.generation.continuous_batching.cache_allocators.cache_pool import CachePool, RegularTrees

    _seams = (stock.ATTN_TYPE_TO_ALLOCATOR, stock.CachePool, api.PagedAttentionCache)
except (ImportError, AttributeError) as e:
    raise errors.Unsupported(
        f"continuous batching of transformers {transformers.__version__} is not as known ({e}); wanted: 5.24"
    ) from e

PAGE_TOKENS = 16  # in which a sector is declared; what is in it is transformers' affair
SPARE = 4  # sectors above the floor that stay here, though nothing is in them
_lock = threading.Lock()


@dataclass
class _Use:
    """What use() was called with, and the caches that were made since."""

    broker: str | None
    socket: str | None
    name: str | None
    longest: int
    floor: int | None
    wait: float
    caches: list[PagedCache] = field(default_factory=list)


_current: list[_Use] = []


class SectorPool(CachePool):
    """Sectors that are pages of the broker: taken when they are needed, up to @quota; @floor of them are kept.

    free_sectors are those that are here and belong to no allocator.
    """

    def __init__(self, pages: Pages, quota: int, num_allocators: int, cuda: bool) -> None:
        self._pages, self._cuda = pages, cuda
        self._held: set[int] = set()
        self.floor = 0
        super().__init__(quota, num_allocators)

    def reset(self) -> None:
        self.free_sectors = sorted(self._held)
        self._free_blocks = [RegularTrees(n) for n in self.blocks_per_sector]
        self._give()

    def ensure(self, n: int, wait: float = 0.0) -> bool:
        """True when @n sectors are free here: what is lacking is taken."""
        lack = n - len(self.free_sectors)
        if lack > 0 and len(self._held) + lack <= self.num_sectors:
            with contextlib.suppress(errors.NoPages, errors.Pending):
                for part in range(0, lack, MAX_PAGES):
                    self._take(min(MAX_PAGES, lack - part), wait)
        return n <= len(self.free_sectors)

    def _take(self, n: int, wait: float) -> None:
        ids = self._pages.take(n, wait=wait)
        if self._cuda:  # the zeroes are written on the session's stream
            self._pages.session.stream().synchronize()
        self._held.update(ids)
        self.free_sectors.extend(ids)

    @property
    def obtainable(self) -> int:
        """Sectors that are free here, or could be taken about now."""
        return len(self.free_sectors) + min(self.num_sectors - len(self._held), self._pages.takeable)

    def try_to_free_sectors(self) -> None:
        super().try_to_free_sectors()
        self._give()

    def _give(self) -> None:
        """What is above the floor and empty goes: all that others lack, and what is more than a few."""
        above = min(len(self.free_sectors), len(self._held) - self.floor)
        n = max(min(above, self._pages.wanted.pages), above - SPARE)
        if n > 0:
            if self._cuda:  # kernels of any stream of this process may still read them
                torch.cuda.synchronize()
            given, self.free_sectors = self.free_sectors[:n], self.free_sectors[n:]
            self._held.difference_update(given)
            for i in range(0, n, MAX_PAGES):
                self._pages.give(given[i : i + MAX_PAGES])
        self._pages.offer(max(0, above - max(n, 0)))


class _OnPages:
    """Both allocators: the cache tensor is the whole pool, and the trash sectors are pages of its own."""

    trash: tuple[int, int]  # sectors: zeroes to be read by padding, and what padding writes to

    def register_cache_tensor(self, bytes_per_sector: int, non_trash_bytes: int, cache_tensor: Any, pool: Any) -> None:
        super().register_cache_tensor(bytes_per_sector, cache_tensor.numel() - 2 * bytes_per_sector, cache_tensor, pool)  # type: ignore[misc]
        me: Any = self
        me.num_pages = non_trash_bytes // me.bytes_per_page  # what the buffers of a step are sized for
        me.num_blocks = me.num_pages // me.pages_per_block
        rows = me.block_physical_stride * me.blocks_per_sector
        me.read_trash_index = self.trash[0] * rows
        me.sentinel_index = me.read_trash_index + 1
        me.write_trash_index = self.trash[1] * rows


class FullAllocator(_OnPages, FullAttentionCacheAllocator):
    """Full attention: as in transformers."""

    def most_blocks(self, tokens: int, chunk: int) -> int:
        return ceil(tokens / self.tokens_per_page)


class SlidingAllocator(_OnPages, SlidingAttentionCacheAllocator):
    """Sliding layers by absolute page: block i of a request's table is its page first[request] + i.

    Pages that the window has left go when the next tokens come. A prompt's tokens that never come into a later window are
    written to the trash. transformers 5.24 has no fast decode path for models with sliding layers, whatever an allocator
    supports; tables for it are there.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.first: dict[str, int] = {}

    def most_blocks(self, tokens: int, chunk: int) -> int:
        """Blocks that a request of @tokens tokens has at most, in steps of up to @chunk."""
        return min(ceil(tokens / self.tokens_per_page), ceil((self.sliding_window + chunk) / self.tokens_per_page) + 1)

    def _columns(self, request_id: str, past_length: int, query_length: int) -> tuple[int, int]:
        """Pages from and to that the request has when these tokens are there: what they read, and where they are."""
        reach = past_length if past_length > 0 and request_id in self.first else past_length + query_length
        return max(0, reach - self.sliding_window + 1) // self.tokens_per_page, ceil(
            (past_length + query_length) / self.tokens_per_page
        )

    def needs_new_blocks(self, request_id: str, past_length: int, query_length: int) -> int:
        begin, end = self._columns(request_id, past_length, query_length)
        have = self.first.get(request_id, begin) + len(self.block_table.get(request_id, []))
        return max(0, end - max(begin, have))

    def allocate_cache_to_request(self, request_id: str, past_length: int, query_length: int) -> None:
        begin, end = self._columns(request_id, past_length, query_length)
        table = self.block_table.setdefault(request_id, [])
        behind = begin - self.first.setdefault(request_id, begin)
        if behind > 0:  # only read by work that lies before what will be written to them
            self.pool.free_blocks(self.index, table[:behind])
            del table[:behind]
            self.first[request_id] = begin
        table.extend(self.pool.get_free_blocks(self.index, max(0, end - self.first[request_id] - len(table))))

    def free_blocks(self, request_id: str, no_cache: bool = False) -> None:
        self.first.pop(request_id, None)
        super().free_blocks(request_id, no_cache)

    def fork_blocks(self, source_request_id: str, dest_request_id: str, past_length: int) -> Any:
        self.first[dest_request_id] = self.first[source_request_id]
        return super().fork_blocks(source_request_id, dest_request_id, past_length)

    def _physical(self, request_id: str, begin: int, end: int) -> list[int]:
        table, first, size = self.block_table[request_id], self.first[request_id], self.tokens_per_page
        out: list[int] = []
        while begin < end:
            page, place = divmod(begin, size)
            n = min(size - place, end - begin)
            at = table[page - first] * self.block_physical_stride + place
            out.extend(range(at, at + n))
            begin += n
        return out

    def get_read_indices(self, request_id: str, past_length: int, query_length: int) -> list[int]:
        begin = max(0, past_length - self.sliding_window + 1)
        return self._physical(request_id, begin, past_length) + [self.sentinel_index] * query_length

    def get_write_indices(self, request_id: str, past_length: int, query_length: int) -> list[int]:
        begin = max(past_length, self.first[request_id] * self.tokens_per_page)
        trash = [self.write_trash_index] * (begin - past_length)
        return trash + self._physical(request_id, begin, past_length + query_length)

    def fill_block_table(self, request_id: str, past_length: int, query_length: int, block_table: torch.Tensor) -> None:
        """Row by absolute page; pages that the window has left are the trash that holds zeroes."""
        blocks, first = self.block_table[request_id], self.first[request_id]
        stride = self.block_physical_stride // self.tokens_per_page
        row = [self.trash[0] * self.blocks_per_sector] * first + blocks
        block_table[: len(row)].copy_(torch.tensor(row, dtype=block_table.dtype) * stride, non_blocking=True)

    def get_cache_for_block_table(self, layer_idx: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._kv_page_views[layer_idx]


ALLOCATORS = {stock.FULL_ATTENTION: FullAllocator, stock.SLIDING_ATTENTION: SlidingAllocator}


class _Torch:
    """torch, as the module of transformers' cache sees it while one is made: its zeros() are the pool."""

    def __init__(self, cache: PagedCache) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def zeros(self, size: int, dtype: torch.dtype, device: Any) -> torch.Tensor:
        cache = self._cache
        if dtype != torch.uint8 or size != (cache.num_sectors + 2) * cache.bytes_per_sector:
            raise errors.Unsupported(
                f"transformers {transformers.__version__} asks for {size} elements of {dtype} as its cache; wanted, as of 5.24: "
                f"{cache.num_sectors} + 2 sectors of {cache.bytes_per_sector} bytes"
            )
        return cache.attach(torch.device(device))


class PagedCache(stock.PagedAttentionCache):
    """transformers' paged cache, whose tensor is the pool and whose sectors are pages."""

    def __init__(self, config: Any, continuous_batching_config: Any, *args: Any, **kwargs: Any) -> None:
        self.use = _current[-1]
        self.session: Session | None = None
        if getattr(continuous_batching_config, "cpu_offload_space", None):
            raise errors.Unsupported("cpu_offload_space: sectors go back to the broker, they are not copied to the CPU")
        with _lock:
            kept = stock.torch, stock.CachePool, dict(stock.ATTN_TYPE_TO_ALLOCATOR)
            stock.torch, stock.CachePool = _Torch(self), self._make_pool
            stock.ATTN_TYPE_TO_ALLOCATOR.update(ALLOCATORS)
            try:
                super().__init__(config, continuous_batching_config, *args, **kwargs)
                self.pool.floor = self._floor()
                if not self.pool.ensure(self.pool.floor, self.use.wait):
                    raise errors.NoPages(f"{self.pool.floor} pages of {self.bytes_per_sector} bytes for one longest request")
            except BaseException:
                self.close()
                raise
            finally:
                stock.torch, stock.CachePool = kept[0], kept[1]
                stock.ATTN_TYPE_TO_ALLOCATOR.update(kept[2])
        self.use.caches.append(self)

    # ---- where it lies --------------------------------------------------------------------

    def attach(self, device: torch.device) -> torch.Tensor:
        """The pool, all pages of sectors' size: uint8 [num_pages * bytes_per_sector]."""
        group = Group(
            layers=1, k_bytes=self.bytes_per_sector // PAGE_TOKENS, page_tokens=PAGE_TOKENS, align=128, form="joined",
            tag="transformers sector",
        )  # fmt: skip
        name = self.use.name or self.config.model_type
        self.session = attach_session(Model(name, [group], max_seq=PAGE_TOKENS), self.use.broker, socket=self.use.socket)
        layout = self.session.layouts[0]
        if self.session.info.cuda != (device.type == "cuda"):
            raise errors.Unsupported(f"the model is on {device}, and the pool on {self.session.info.device}")
        if self.session.info.cuda:
            self.session.stream().bind_cuda()
        if layout.page_stride != self.bytes_per_sector:
            raise errors.Unsupported(f"a page has {layout.page_stride} bytes, and a sector {self.bytes_per_sector}")
        self.trash = self.session.pages().take(2, wait=self.use.wait)
        if self.session.info.cuda:
            self.session.stream().synchronize()
        pages = swakv_torch.tensor(layout.pages)
        pages[self.trash[0]] = 0  # read by padding; a page that nobody has used may hold anything
        for allocator in self.cache_allocators.values():
            allocator.trash = (self.trash[0], self.trash[1])
        return pages.view(-1)

    def _make_pool(self, num_sectors: int, num_allocators: int) -> SectorPool:
        assert self.session is not None
        return SectorPool(self.session.pages(), num_sectors, num_allocators, self.session.info.cuda)

    def sectors_of(self, tokens: int) -> int:
        """Sectors that one request of @tokens tokens needs at most."""
        chunk = min(self.max_batch_tokens, tokens)
        return sum(ceil(a.most_blocks(tokens, chunk) / a.blocks_per_sector) for a in self.cache_allocators.values())

    def _floor(self) -> int:
        needed = self.sectors_of(self.use.longest)
        floor = needed if self.use.floor is None else self.use.floor
        if floor < needed or needed > self.num_sectors:
            raise ValueError(
                f"a request of {self.use.longest} tokens needs {needed} sectors of {self.bytes_per_sector} bytes, and the floor "
                f"is {floor}, num_blocks allows {self.num_sectors}: raise them, or lower longest"
            )
        return floor

    def close(self) -> None:
        """Gives all pages back, and drops what shows the pool."""
        for allocator in self.cache_allocators.values():
            for name in ("cache_tensor", "_copy_view", "_kv_token_views", "_kv_page_views"):
                allocator.__dict__.pop(name, None)
        self.cache_tensor = None
        session, self.session = self.session, None
        if session is None:
            return
        try:
            session.close()
        except errors.ViewsAlive:  # something that is part of a cycle holds a view
            gc.collect()
            with contextlib.suppress(errors.ViewsAlive):  # its pages return with the process
                session.close()

    # ---- sectors are taken when they are needed ---------------------------------------------

    def can_store_request_tokens(self, state: Any, request_len: int, dry_run: bool = False) -> bool:
        needed = sum(
            a.needs_new_sectors(state.request_id, state.current_len(), request_len) for a in self.cache_allocators.values()
        )
        return self.pool.ensure(needed) and super().can_store_request_tokens(state, request_len, dry_run)

    def prepare_fork_request(self, src_state: Any, dst_req_ids: list[str], copy_src_and_dst: Any) -> list[str]:
        needed = sum(
            ceil(a.count_non_shareable_blocks(src_state.request_id, src_state.current_len()) / a.blocks_per_sector)
            for a in self.cache_allocators.values()
        )
        for n in range(len(dst_req_ids), 0, -1):
            if self.pool.ensure(n * needed):
                break
        return super().prepare_fork_request(src_state, dst_req_ids, copy_src_and_dst)

    def compute_free_capacity(self, relative: bool = True) -> int | float:
        here = super().compute_free_capacity(relative=False)
        free = here + (self.pool.obtainable - len(self.pool.free_sectors)) * self.bytes_per_sector
        return free / (self.num_sectors * self.bytes_per_sector) if relative else free


@contextlib.contextmanager
def use(
    broker: str | None = None,
    *,
    socket: str | None = None,
    name: str | None = None,
    longest: int,
    floor: int | None = None,
    wait: float = 0.0,
) -> Iterator[None]:
    """Within the block, generate_batch() and continuous-batching managers that are made keep K and V in a broker's pool.

    broker, socket: as of swakv.attach(). name: of the model, for its limits; None: the configuration's model_type.
    longest: tokens of the longest request, prompt and answer. floor: sectors that are kept, though nothing is in them; None:
    what one such request needs, and never less: one that has begun could not be ended otherwise.
    wait: seconds to wait for the floor. `num_blocks` of the continuous-batching configuration is what is taken at most.
    Managers must end within the block.
    """
    mine = _Use(broker, socket, name, longest, floor, wait)
    before = api.PagedAttentionCache
    _current.append(mine)
    api.PagedAttentionCache = PagedCache
    try:
        yield
    finally:
        api.PagedAttentionCache = before
        _current.remove(mine)
        for cache in mine.caches:
            cache.close()
