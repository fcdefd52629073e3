# SPDX-License-Identifier: Apache-2.0
"""Engines of vLLM's own scheduler, whose steps compute nothing, in this process: on a broker's pages, or on a static part."""

from __future__ import annotations

import collections
import itertools
import os
import random
import time
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import models
import pytest
from swakv_vllm import engine, seams
from swakv_vllm.blocks import SwakvBlockPool
from swakv_vllm.holder import Holder, Steps

import swakv

TOKENS = 32  # of a block
STEP = 0.004  # seconds: about what the smallest model takes, so that a broker answers no sooner and no later than there
BLOCK_BYTES = {"mistral": 65536, "gemma3": 32768}


def groups(model: str, dtype: Any) -> list[Any]:
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheGroupSpec, SlidingWindowSpec

    of: dict[str, Any] = {"block_size": TOKENS, "num_kv_heads": 2, "head_size": 32, "dtype": dtype}
    sliding = [SlidingWindowSpec(**of, sliding_window=models.WINDOW) for _ in range(1 if model == "mistral" else 2)]
    full = [] if model == "mistral" else [FullAttentionSpec(**of)]
    return [KVCacheGroupSpec([f"layer {i}"], spec) for i, spec in enumerate([*sliding, *full])]


def config(model: str, longest: int) -> Any:
    from vllm.engine.arg_utils import EngineArgs

    os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    folder = models.save(model, Path(os.environ["SWAKV_MODELS"]) / f"{model}-{models.edition()}")
    return EngineArgs(
        model=str(folder), skip_tokenizer_init=True, dtype="float32", enforce_eager=True, block_size=TOKENS,
        max_model_len=longest, max_num_seqs=64, max_num_batched_tokens=256,
    ).create_engine_config()  # fmt: skip


class Planner:
    """A scheduler of vLLM that plans and learns what was drawn, as EngineCore drives it. pages None: stock, on @n blocks."""

    def __init__(self, model: str, config: Any, pages: swakv.Pages | None, n: int) -> None:
        from vllm.v1.core import kv_cache_coordinator
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheTensor
        from vllm.v1.structured_output import StructuredOutputManager

        self._pages = pages
        self.model, self._names, self.counts = model, itertools.count(), collections.Counter[str]()
        self._core: Any = SimpleNamespace(steps=Steps(), pool=None)
        of = groups(model, config.model_config.dtype)
        size = BLOCK_BYTES[model]
        layers = [name for g in of for name in g.layer_names]
        tensor = KVCacheTensor(size=n * size, layers=layers, layer_stride=size // len(of), block_stride=size)
        cache = KVCacheConfig(num_blocks=n, kv_cache_tensors=[tensor], kv_cache_groups=of)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(config.cache_config, "num_gpu_blocks", n)
            if pages is not None:
                SwakvBlockPool.attach(Holder(pages, n), self._core.steps, 0)
                patch.setattr(kv_cache_coordinator, "BlockPool", SwakvBlockPool)
            kind: Any = config.scheduler_config.get_scheduler_cls()
            self.scheduler = kind(config, cache, StructuredOutputManager(config), TOKENS)
        if pages is not None:
            self._replace(seams.SCHEDULE, self.scheduler, engine._schedule(self._core))
            self._replace(seams.UPDATE, self.scheduler, engine._update(self._core))
            self._replace(seams.NEED, self.scheduler.kv_cache_manager.coordinator, engine._need)
        init_none_hash(hash)
        self._hasher = get_request_block_hasher(TOKENS, lambda x: hash(x).to_bytes(8, "little", signed=True))

    @staticmethod
    def _replace(seam: seams.Seam, of: Any, wrap: Any) -> None:
        """For this one object; what a class has is everybody's."""
        setattr(of, seam.name.split(".")[-1], types.MethodType(wrap(seam.get()), of))

    @property
    def pool(self) -> Any:
        return self.scheduler.kv_cache_manager.block_pool

    def add(self, prompt: list[int], tokens: int) -> None:
        from vllm import SamplingParams
        from vllm.v1.request import Request

        sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        sampling.update_from_generation_config({}, 2)
        self.scheduler.add_request(Request(str(next(self._names)), prompt, sampling, None, block_hasher=self._hasher))

    @property
    def busy(self) -> bool:
        return bool(self.scheduler.has_requests())

    def tend(self) -> None:
        if self._pages is not None:
            self._pages.session.ping()  # however busy the machine, the broker keeps up
            self.pool.tend()

    def step(self) -> None:
        from vllm.v1.outputs import ModelRunnerOutput

        self.tend()
        step = self.scheduler.schedule()
        names = list(step.num_scheduled_tokens)
        self.counts["preemptions"] += len(step.preempted_req_ids or ())
        if names:
            self.counts["steps"] += 1
            self.counts["sequences"] += len(names)
        else:
            self.counts["empty"] += 1
        drawn = [[] if self.scheduler.requests[name].is_prefill_chunk else [9] for name in names]
        self.scheduler.update_from_output(step, ModelRunnerOutput(names, {n: i for i, n in enumerate(names)}, drawn))


def run(planners: list[Planner], load: dict[str, int], seed: int, length: int, tokens: int) -> None:
    """Each has its requests at once, and steps beside the others until all are done."""
    rnd = random.Random(seed)
    for p in planners:
        for _ in range(load[p.model]):
            p.add([rnd.randrange(3, models.VOCABULARY) for _ in range(length)], tokens)
    while any(p.busy for p in planners):
        for p in planners:
            if p.busy:
                p.step()
            else:
                p.tend()
        time.sleep(STEP)


def session(model: str, socket: str) -> swakv.Session:
    group = swakv.Group(layers=1, page_tokens=TOKENS, k_bytes=BLOCK_BYTES[model] // TOKENS, form="joined")
    attached = swakv.attach(swakv.Model(model, [group], max_batch=1, max_seq=TOKENS), socket=socket)
    attached.stream().bind_host()
    return attached

