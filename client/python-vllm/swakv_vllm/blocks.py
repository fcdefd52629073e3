# SPDX-License-Identifier: Apache-2.0
"""vLLM's block pool over pages that are taken from the broker and given back. The scheduler's thread alone uses it.

Block i is page i. The pool has a block object for every page that could ever be taken; its free queue holds those that
are held and that nothing refers to, in vLLM's order: the ones without a hash in front, then cached ones, the least
recently used first. So vLLM's own code runs on it as it is: it sees a pool that grows before it is asked, and shrinks
between steps.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from vllm.logger import init_logger
from vllm.v1.core import block_pool
from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue, KVCacheBlock

import swakv

from . import Refused
from .holder import Holder, Steps
from .sweep import Sweep

# In vLLM's tree of names, so that VLLM_CONFIGURE_LOGGING and --log-level cover it.
logger = init_logger("vllm.plugins.swakv")

AHEAD = 16  # blocks that are taken beyond need, so that not every step asks the broker
RESERVE = 2 * AHEAD  # free blocks without a hash that are kept; what stays free beyond goes back,
STAYS = 0.25  # seconds: what a request frees, the next one takes
LOOKS = 1024  # that many free blocks are counted at most, where each is looked at
REST = 1.0  # seconds without a want, after which giving begins at another place of the pool
ASK_EVERY = 0.02  # seconds from one look at what requests will take to the next,
ASK_SHARE = 200  # or this many times the CPU time that the look took


class SwakvBlockPool(block_pool.BlockPool):
    """A BlockPool whose blocks are managed pages of a swakv session."""

    # Set by attach() before vLLM makes its pool, and taken by that.
    _waiting: tuple[Holder, Steps, int] | None = None

    @classmethod
    def attach(cls, holder: Holder, steps: Steps, margin: int) -> None:
        """The next pool that vLLM makes in this process is @holder's.

        margin: free blocks that vLLM wants to see beyond those that a request needs.
        """
        cls._waiting = (holder, steps, margin)

    def __init__(self, num_gpu_blocks: int, *args: Any, **kwargs: Any) -> None:
        if self._waiting is None:
            raise Refused(
                "vLLM makes a second BlockPool in this process (for KV offload to the CPU, say), and swakv has pages for one "
                "only: turn that off, or unset SWAKV_BROKER"
            )
        self.holder, self.steps, self._margin = self._waiting
        type(self)._waiting = None
        super().__init__(num_gpu_blocks, *args, **kwargs)
        # All ids are others' until they are taken.
        for block in self.blocks:
            block.prev_free_block = block.next_free_block = None
        self.free_block_queue = FreeKVCacheBlockQueue([])
        self.null_block.is_null = False
        # Which step a free block was freed in, of those freed while one was in flight.
        self._freed_in: dict[int, int] = {}
        self._complained: type | None = None
        self._next_sweep = self._next_ask = 0.0
        self._sweep: Sweep | None = None
        self._lacking = 0  # blocks that a request lacked when it was planned last
        self._hopeful = False  # what was asked for is worth waiting for: there seemed to be some
        self._most = num_gpu_blocks  # that are said to be lacking: more would never be had
        self._stays, self._stays_until = num_gpu_blocks, 0.0
        self._grow(1, 1)
        if not self.free_block_queue.num_free_blocks:
            raise Refused(f"the broker has no page for vLLM's null block: {self.holder.refusal}")
        self.null_block = self.free_block_queue.popleft()
        self.null_block.is_null = True

    # ---- what vLLM asks ----------------------------------------------------------------

    def expect(self, expected: Callable[[int], int]) -> None:
        """Called before a step is planned. expected(most): blocks that requests will take soon, counted up to @most.

        What is lacking is asked for in one go and before it is needed, so that it is there, or others give it, meanwhile.
        """
        self._collect()
        now, begun = time.monotonic(), time.thread_time()
        if now < self._next_ask or self.holder.asking:
            return
        n = expected(self.holder.limit) + self._margin
        fresh, there = n - self._count_unhashed(n), self.holder.takeable
        lack = min(n - self.get_num_free_blocks() - there, self._most)
        if fresh > 0 and (there > 0 or lack > 0):  # how many there are is a hint that may be old
            self.holder.ask(1, fresh if lack > 0 else min(fresh, there))
        if lack > 0:
            self.holder.ask(lack, lack)
        self._lacking, self._hopeful = 0, there > 0
        self._next_ask = now + max(ASK_EVERY, ASK_SHARE * (time.thread_time() - begun))

    def want(self, n: int) -> None:
        """Called before vLLM compares @n with get_num_free_blocks(): takes what is lacking, if it is to be had."""
        if n <= 0:
            return
        n += self._margin
        if n > self.get_num_free_blocks():
            self._collect(wait=self._hopeful)
        least, short = max(n - self.get_num_free_blocks(), 0), n - self._count_unhashed(n)
        # Rather than evicting what is cached, pages that nobody uses: but nobody is asked for those.
        if (least > 0 or short > 0) and self.holder.takeable >= max(least, 1):
            self._grow(least, short + AHEAD)
        self._lacking = max(self._lacking, n - self.get_num_free_blocks())

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        blocks: list[KVCacheBlock] = super().get_new_blocks(num_blocks)
        if self._freed_in:
            for block in blocks:
                self._freed_in.pop(block.block_id, None)
        return blocks

    def touch(self, blocks: Sequence[KVCacheBlock]) -> None:
        super().touch(blocks)
        if self._freed_in:
            for block in blocks:
                self._freed_in.pop(block.block_id, None)

    def free_blocks(self, ordered_blocks: Iterable[KVCacheBlock]) -> None:
        if not self.steps.in_flight:
            super().free_blocks(ordered_blocks)
            return
        blocks = list(ordered_blocks)
        super().free_blocks(blocks)
        for block in blocks:
            if block.ref_cnt == 0 and not block.is_null:
                self._freed_in[block.block_id] = self.steps.begun

    def reset_prefix_cache(self) -> bool:
        # vLLM counts as used whatever is not free: here only what is held.
        ids, self.num_gpu_blocks = self.num_gpu_blocks, self.holder.held
        try:
            done: bool = super().reset_prefix_cache()
        finally:
            self.num_gpu_blocks = ids
        if done:
            self.tend()
        return done

    def get_usage(self) -> float:
        """The share of what this engine may hold at most that requests use."""
        used = self.holder.held - 1 - self.get_num_free_blocks()
        return used / max(self.holder.limit - 1, 1)

    # ---- between steps -----------------------------------------------------------------

    def tend(self) -> None:
        """Gives back what stays free beyond the reserve, and what others lack as far as nothing refers to it."""
        self._collect()
        now, begun = time.monotonic(), time.thread_time()
        if now >= self._next_sweep and self.get_num_free_blocks() > 0 and (wanted := self.holder.wanted) > 0:
            if self._sweep is None or self._sweep.over or now > self._next_sweep + REST:
                self._sweep = self._begin_sweep()
            self._give(itertools.chain(self._in_wanted_ranges(), self._of_sweep(self._sweep)), wanted)
            # A sweep that finds little looks at every block: a tenth of the time at most.
            self._next_sweep = now + 10 * (time.thread_time() - begun)
        self._give_surplus(now)
        self.holder.offer(self.get_num_free_blocks())

    def _give_surplus(self, now: float) -> None:
        """Once a while; of an engine that is idle all, and at once."""
        free = self.get_num_free_blocks()
        idle = free + 1 == self.holder.held
        unhashed = free if not self.enable_caching else self._count_unhashed(free if idle else min(free, LOOKS))
        self._stays = min(self._stays, unhashed)
        if not idle and now < self._stays_until:
            return
        surplus = (unhashed if idle else self._stays) - RESERVE
        if surplus > 0:
            self._give(self._unhashed(), surplus)
        self._stays, self._stays_until = unhashed - max(surplus, 0), now + STAYS

    def _free(self) -> Iterator[KVCacheBlock]:
        """The free queue from its front; the block that was handed out last may be removed from it."""
        tail = self.free_block_queue.fake_free_list_tail
        block = self.free_block_queue.fake_free_list_head.next_free_block
        while block is not None and block is not tail:
            after = block.next_free_block
            yield block
            block = after

    def _unhashed(self) -> Iterator[KVCacheBlock]:
        return itertools.takewhile(lambda block: block.block_hash is None, self._free())

    def _count_unhashed(self, most: int) -> int:
        """How many free blocks in front of the queue have no hash, counted up to @most."""
        return sum(1 for _ in itertools.islice(self._unhashed(), most))

    def _begin_sweep(self) -> Sweep | None:
        """From the block that was used least recently. None: no block is free."""
        oldest = next((b for b in self._free() if b.block_hash is not None), None) or next(self._free(), None)
        return None if oldest is None else Sweep(len(self.blocks), oldest.block_id)

    def _in_wanted_ranges(self) -> Iterator[KVCacheBlock]:
        """Free blocks, cached or not, in places of the pool that others can use when they are free as a whole."""
        ids = itertools.chain.from_iterable(self.holder.wanted_ranges)
        return (self.blocks[i] for i in ids if self.blocks[i].next_free_block is not None)

    def _of_sweep(self, sweep: Sweep | None) -> Iterator[KVCacheBlock]:
        """Free blocks, cached or not, as @sweep comes by them. Those of others and of requests are in no queue."""
        return (self.blocks[i] for i in sweep or () if self.blocks[i].next_free_block is not None)

    def _grow(self, least: int, most: int) -> None:
        self._add(self.holder.take(least, most))

    def _add(self, taken: list[int]) -> None:
        if taken:
            self.free_block_queue.prepend_n([self.blocks[i] for i in taken])
            self._complained = None

    def _collect(self, wait: bool = False) -> None:
        """Adds what was asked for. When the broker would never give so much, less will be said to be lacking."""
        before = self.holder.refused
        self._add(self.holder.collect(wait))
        why = self.holder.refusal
        if self.holder.refused == before:
            return
        if isinstance(why, swakv.Never) and self._most > max(self._lacking, 1):
            self._most = max(self._lacking, self._most * 3 // 4, 1)
        elif isinstance(why, (swakv.Never, swakv.Denied)) and self._complained is not type(why):
            self._complained = type(why)  # nothing that passes by itself; once until pages come again
            logger.warning("swakv: requests wait, since the broker refuses pages: %s", why)

    def _give(self, blocks: Iterator[KVCacheBlock], n: int) -> None:
        """Gives back up to @n of the free @blocks, but for those that a step may still touch."""
        given: list[int] = []
        while len(given) < n and (block := next(blocks, None)) is not None:
            if self._freed_in.get(block.block_id, 0) > self.steps.ended:
                continue
            self.free_block_queue.remove(block)
            self._freed_in.pop(block.block_id, None)
            if self.enable_caching:
                self._maybe_evict_cached_block(block)
            given.append(block.block_id)
        if given:
            self.holder.give(given)
