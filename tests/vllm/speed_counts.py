# SPDX-License-Identifier: Apache-2.0
"""A plug-in of vLLM that counts what an EngineCore does, on swakv or not, for tests/vllm/speed.

It writes to $SWAKV_VLLM_COUNTS.PID after each step: totals since the start.
"""

from __future__ import annotations

import collections
import functools
import json
import os
import time
from collections.abc import Callable
from typing import Any

CLOCKS = {"time": time.perf_counter, "CPU time": time.thread_time}
counts: collections.Counter[str] = collections.Counter()
depth: collections.Counter[str] = collections.Counter()


def timed(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds up the seconds in @function, calls within calls once."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        depth[what] += 1
        begun = {of: clock() for of, clock in CLOCKS.items()}
        try:
            return function(*args, **kwargs)
        finally:
            depth[what] -= 1
            if not depth[what]:
                for of, clock in CLOCKS.items():
                    counts[f"{what}: {of}"] += clock() - begun[of]

    return run


def count_scheduler() -> None:
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    from vllm.v1.core.sched.scheduler import Scheduler

    schedule, allocate, preempt = Scheduler.schedule, KVCacheManager.allocate_slots, Scheduler._preempt_request

    @functools.wraps(schedule)
    def counted_schedule(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = counts["lacks"]
        output = schedule(self, *args, **kwargs)
        if output.total_num_scheduled_tokens > 0:
            counts["steps"] += 1
            counts["tokens"] += output.total_num_scheduled_tokens
            counts["sequences"] += len(output.num_scheduled_tokens)
        else:
            counts["idle steps"] += bool(self.waiting)
        counts["lacking steps"] += counts["lacks"] > before
        return output

    @functools.wraps(allocate)
    def counted_allocate(self: Any, *args: Any, **kwargs: Any) -> Any:
        blocks = allocate(self, *args, **kwargs)
        counts["lacks"] += blocks is None
        return blocks

    @functools.wraps(preempt)
    def counted_preempt(self: Any, *args: Any, **kwargs: Any) -> Any:
        counts["preemptions"] += 1
        return preempt(self, *args, **kwargs)

    Scheduler.schedule = counted_schedule
    KVCacheManager.allocate_slots = counted_allocate
    Scheduler._preempt_request = counted_preempt


def count_cache() -> None:
    """Blocks that left the prefix cache, and those of them whose content was computed again."""
    from vllm.v1.core.block_pool import BlockPool

    evict, insert = BlockPool._maybe_evict_cached_block, BlockPool._insert_block_hash
    lost: set[bytes] = set()

    @functools.wraps(evict)
    def counted_evict(self: Any, block: Any) -> bool:
        was = block.block_hash
        evicted: bool = evict(self, block)
        if evicted and was is not None:
            counts["evicted"] += 1
            lost.add(was)
        return evicted

    @functools.wraps(insert)
    def counted_insert(self: Any, block_hash: bytes, *args: Any, **kwargs: Any) -> None:
        if block_hash in lost:
            lost.discard(block_hash)
            counts["recomputed"] += 1
        insert(self, block_hash, *args, **kwargs)

    BlockPool._maybe_evict_cached_block = counted_evict
    BlockPool._insert_block_hash = counted_insert


def count_broker() -> None:
    from swakv_vllm.blocks import SwakvBlockPool
    from swakv_vllm.engine import Engine
    from swakv_vllm.holder import Holder

    import swakv

    start_take, start_give, offer = swakv.Pages.start_take, swakv.Pages.start_give, swakv.Pages.offer
    note_refusal, took = Holder._note_refusal, Holder._took

    def counted_take(self: Any, *args: Any, **kwargs: Any) -> Any:
        counts["takes"] += 1
        return start_take(self, *args, **kwargs)

    def counted_refusal(self: Any, refusal: swakv.Error) -> None:
        counts["refused"] += 1
        counts[f"refused: {type(refusal).__name__}"] += 1
        note_refusal(self, refusal)

    def counted_took(self: Any, got: list[int]) -> list[int]:
        counts["taken"] += len(got)
        return took(self, got)

    def counted_give(self: Any, ids: Any, *args: Any, **kwargs: Any) -> Any:
        counts["gives"] += 1
        counts["given"] += len(ids)
        return start_give(self, ids, *args, **kwargs)

    def counted_offer(self: Any, n: int) -> None:
        counts["offers"] += 1
        offer(self, n)

    Holder._note_refusal, Holder._took = counted_refusal, counted_took  # type: ignore[method-assign]
    for name, counted in (("start_take", counted_take), ("start_give", counted_give), ("offer", counted_offer)):
        setattr(swakv.Pages, name, timed("calls", counted))
    Holder.take = timed("calls", Holder.take)  # type: ignore[method-assign]
    Holder.collect = timed("calls", Holder.collect)  # type: ignore[method-assign]
    Engine.tend = timed("swakv", Engine.tend)  # type: ignore[method-assign]
    # Of the rest of the pool, what vLLM's own would not do. Nothing is wanted most often: a clock would take the longer time.
    want = timed("swakv", SwakvBlockPool.want)
    SwakvBlockPool.want = lambda self, n: want(self, n) if n > 0 else None  # type: ignore[assignment, method-assign]
    SwakvBlockPool.expect = timed("swakv", SwakvBlockPool.expect)  # type: ignore[method-assign]


def register() -> None:
    path = os.environ["SWAKV_VLLM_COUNTS"]
    from vllm.v1.engine.core import EngineCoreProc

    count_scheduler()
    count_cache()
    if "SWAKV_BROKER" in os.environ:
        count_broker()
    step = timed("steps", EngineCoreProc._process_engine_step)

    @functools.wraps(step)
    def _process_engine_step(self: Any) -> Any:
        done = step(self)
        temporary = f"{path}.{os.getpid()}.new"
        with open(temporary, "w", encoding="utf-8") as out:
            json.dump(counts, out)
        os.replace(temporary, f"{path}.{os.getpid()}")
        return done

    EngineCoreProc._process_engine_step = _process_engine_step
