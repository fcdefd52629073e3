# SPDX-License-Identifier: Apache-2.0
"""A plug-in of vLLM that measures what the plug-in swakv costs, for tests/vllm/speed. It writes to $SWAKV_VLLM_TIMES.PID."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable
from typing import Any

CLOCKS = {"time": time.perf_counter, "CPU time": time.thread_time}
spent = {of: {"swakv": 0.0, "steps": 0.0} for of in CLOCKS}
depth = {"swakv": 0, "steps": 0}


def timed(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The time of calls within calls counts once."""

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
                    spent[of][what] += clock() - begun[of]

    return run


def register() -> None:
    path = os.environ["SWAKV_VLLM_TIMES"]
    from swakv_vllm.blocks import SwakvBlockPool
    from swakv_vllm.engine import Engine
    from vllm.v1.engine.core import EngineCoreProc

    Engine.tend = timed("swakv", Engine.tend)  # type: ignore[method-assign]
    # Of the rest of the pool, what vLLM's own would not do.
    SwakvBlockPool.want = timed("swakv", SwakvBlockPool.want)  # type: ignore[method-assign]
    step = timed("steps", EngineCoreProc._process_engine_step)

    def _process_engine_step(self: Any) -> Any:
        done = step(self)
        with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as out:
            json.dump(spent, out)
        return done

    EngineCoreProc._process_engine_step = _process_engine_step
