# SPDX-License-Identifier: Apache-2.0
"""How many blocks a scheduler's requests will take: those that wait, and those that run and grow."""

from __future__ import annotations

from typing import Any

STEPS = 32  # of one token, for which running requests find their blocks without asking the broker in between


def blocks(scheduler: Any, most: int) -> int:
    """Both, counted up to @most."""
    from vllm.v1.core.sched.interface import PauseState

    if scheduler.pause_state == PauseState.PAUSED_ALL:
        return 0
    if scheduler.pause_state != PauseState.UNPAUSED:
        return min(_growth(scheduler), most)
    return min(_growth(scheduler) + _queued(scheduler, most), most)


def _growth(scheduler: Any) -> int:
    """What running requests take in the next STEPS steps, about."""
    managers = scheduler.kv_cache_manager.coordinator.single_type_managers
    return len(scheduler.running) * sum(-(-STEPS // m.block_size) for m in managers)


def _queued(scheduler: Any, most: int) -> int:
    """What the requests that wait take until they are prefilled, as many of them as may run; counted up to @most.

    As vLLM admits them: what the prefix cache has of them is not taken again, but leaves the free blocks.
    """
    manager = scheduler.kv_cache_manager
    room, blocks = scheduler.max_num_active_reqs - len(scheduler.running), 0
    for request in scheduler.waiting:
        if room <= 0 or blocks >= most:
            break
        room -= 1
        blocks += _of(request, manager)
    return min(blocks, most)


def _of(request: Any, manager: Any) -> int:
    coordinator = manager.coordinator
    cached, tokens = [[]] * len(coordinator.single_type_managers), 0
    if manager.prefix_cache_lookup_enabled(request):
        cached, tokens, _ = coordinator.find_longest_cache_hit(request.block_hashes, request.num_tokens - 1)
    return sum(
        m.get_num_blocks_to_allocate(
            request_id=request.request_id, num_tokens=request.num_tokens, new_computed_blocks=of,
            total_computed_tokens=tokens, num_local_computed_tokens=tokens, num_tokens_main_model=request.num_tokens,
            apply_admission_cap=True,
        )
        for m, of in zip(coordinator.single_type_managers, cached, strict=True)
    )  # fmt: skip
