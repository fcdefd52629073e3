# SPDX-License-Identifier: Apache-2.0
"""The process EngineCore: attaches to the broker, has vLLM plan for the pool, and answers those who lack pages."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from vllm.logger import init_logger

import swakv

from . import Refused, demand, memory, plan, seams
from .holder import Holder, Steps
from .settings import Settings

logger = init_logger("vllm.plugins.swakv")

STREAMS = 2  # one of EngineCore, for filling pages with zeroes on a GPU; one of the worker
PAUSE = 0.005  # seconds between two times that the scheduler's thread is woken


class Engine:
    """What this process has at the broker. There is at most one."""

    def __init__(self, settings: Settings, block: plan.Block, model: swakv.Model, override: int | None, device: int) -> None:
        self.settings, self.block = settings, block
        self.session = swakv.attach(model, settings.broker, streams=STREAMS, joinable=True, events=True, cuda_device=device)
        if self.session.info.cuda:
            self.session.stream(0).bind_cuda()  # one that the library makes
        else:
            self.session.stream(0).bind_host()
        layout = self.session.layouts[0]
        if layout.page_stride != block.bytes:
            raise Refused(f"the broker makes pages of {layout.page_stride} bytes for vLLM's blocks of {block.bytes}")
        self.num_pages = layout.num_pages
        pages = self.session.pages()
        self.limits = pages.limits()
        self.capacity = min(self.limits.ceiling, override or self.num_pages)
        self.holder = Holder(pages, self.capacity)
        self.steps = Steps()
        self.over: swakv.Error | None = None  # why the session has ended
        self.pool: Any = None  # a SwakvBlockPool, once the scheduler has made it
        self.share = memory.Share(self.session.token(), settings.broker, model, STREAMS, device, os.getpid())
        memory.keep(self.session)

    def tend(self) -> None:
        try:
            if self.over is None and self.pool is not None:
                self.pool.tend()
        except swakv.Gone as e:  # before the thread that watches has seen it
            self.over = e
        if self.over is not None:
            raise Refused(f"the KV cache is lost: broker '{self.settings.broker}' has ended, or this session: {self.over}")

    def watch(self, core: Any, wakeup: Any) -> None:
        """Starts the thread that wakes an idle EngineCore when others lack pages. Only the scheduler's thread gives any."""

        def run() -> None:
            asked = select.poll()
            try:
                asked.register(self.session.fileno(), select.POLLIN)
                while True:
                    asked.poll()
                    while self.holder.wanted > 0:
                        if core.input_queue.empty():
                            core.input_queue.put_nowait((wakeup, None))
                        time.sleep(PAUSE)
                    self.session.collect()
                    time.sleep(PAUSE)
            except swakv.Error as e:
                self.over = e
                core.input_queue.put_nowait((wakeup, None))

        threading.Thread(target=run, name="swakv-wants", daemon=True).start()

    def check_floor(self, blocks: int) -> None:
        """@blocks: what one request of the greatest length takes. They and the null block must be there whatever others do."""
        if self.limits.floor == 0:
            logger.warning(
                "swakv: model '%s' has no floor at broker '%s': nothing is kept for it, and two engines that lack pages may "
                "preempt their requests again and again; give each a floor of %d bytes or more (%d blocks)",
                self.share.model.name, self.settings.broker, (blocks + 1) * self.block.bytes, blocks + 1,
            )  # fmt: skip
        elif self.limits.floor < blocks + 1:
            raise Refused(
                f"the floor of model '{self.share.model.name}' at broker '{self.settings.broker}' is {self.limits.floor} blocks "
                f"of {self.block.bytes} bytes, and one request of max_model_len tokens takes {blocks} and the null block: raise "
                f"it to {(blocks + 1) * self.block.bytes} bytes, or lower max_model_len"
            )


# ---- attaching -------------------------------------------------------------------------


@contextlib.contextmanager
def _set(target: Any, **values: Any) -> Iterator[None]:
    before = {name: getattr(target, name) for name in values}
    for name, value in values.items():
        setattr(target, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(target, name, value)


def _block(config: Any, specs: list[dict[str, Any]], layout: str) -> plan.Block | None:
    """What a block of this model is: vLLM's own plan, for memory without end. None: the model has no KV cache."""
    plan_for = seams.CONFIGS.get()
    with (
        _set(config.cache_config, kv_cache_layout=layout, num_gpu_blocks_override=None),
        _set(config.model_config, max_model_len=config.model_config.max_model_len),
    ):
        plans = plan_for(config, specs, [1 << 50] * len(specs))
    if len(plans) != 1:
        raise Refused(f"vLLM has {len(plans)} workers, and swakv-vllm knows one")
    return plan.Block.of(plans[0]) if plans[0].kv_cache_tensors else None


def _attach(core: Any, config: Any, settings: Settings) -> Engine | None:
    """Attaches, if what vLLM is to run can run on swakv. None: no broker, or nothing to hold in pages."""
    from vllm.platforms import current_platform
    from vllm.v1.engine.core import EngineCoreProc

    seams.check_version()
    plan.check(config)
    if type(core) is not EngineCoreProc:
        raise Refused(
            f"the engine is a {type(core).__name__}, in which nobody could ask an idle engine for pages; leave "
            "VLLM_ENABLE_V1_MULTIPROCESSING at 1, or unset SWAKV_BROKER"
        )
    specs = core.model_executor.get_kv_cache_specs()
    if not any(specs):
        logger.info("swakv: this model keeps no KV cache")
        return None
    plan.check_specs(specs)
    layout = plan.layout(
        core.model_executor.get_supported_kv_cache_layouts(), config.cache_config.kv_cache_layout, current_platform.is_cpu()
    )
    block = _block(config, specs, layout)
    if block is None:
        return None
    model = block.model(plan.name(config, settings.model), f"vllm {layout} {config.model_config.dtype}".replace("torch.", ""))
    try:
        engine = Engine(settings, block, model, config.cache_config.num_gpu_blocks_override, 0)
    except swakv.Error as e:
        if settings.required:
            raise Refused(f"no KV cache from swakv broker '{settings.broker}', and SWAKV_REQUIRED is 1: {e}") from e
        logger.warning("swakv: vLLM uses memory of its own, since broker '%s' cannot be used: %s", settings.broker, e)
        return None
    config.cache_config.kv_cache_layout = layout
    return engine


def _initialize(settings: Settings) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def _initialize_kv_caches(self: Any, vllm_config: Any) -> Any:
            engine = _attach(self, vllm_config, settings)
            if engine is None:
                return stock(self, vllm_config)
            _replace(engine)
            planned = stock(self, vllm_config)
            _check_workers(engine, self.model_executor.collective_rpc(memory.report))
            from vllm.v1.engine import EngineCoreRequestType

            engine.watch(self, EngineCoreRequestType.WAKEUP)
            return planned

        return _initialize_kv_caches

    return wrap


def _check_workers(engine: Engine, reports: list[memory.Report | None]) -> None:
    for r in reports:
        if r is None or r.session_id != engine.session.info.session_id or r.outside or not r.layers:
            raise Refused(
                f"the worker's KV cache does not lie in the pool ({r}): {seams.ALLOCATE.where} was not called, or its result "
                "was not used"
            )
        logger.info(
            "swakv: worker %d has joined session %d at broker '%s': %d layers in %d pages of %d bytes",
            r.pid, r.session_id, engine.settings.broker, r.layers, r.num_pages, r.page_bytes,
        )  # fmt: skip


# ---- what is replaced in this process ------------------------------------------------------


def _replace(engine: Engine) -> None:
    from vllm.v1.core import kv_cache_coordinator

    from .blocks import SwakvBlockPool

    seams.BLOCK_POOL.get()
    seams.CONFIGS.replace(_configs(engine))
    seams.CAPACITY.replace(_capacity(engine))
    seams.NEED.replace(_need)
    seams.SCHEDULE.replace(_schedule(engine))
    seams.UPDATE.replace(_update(engine))
    seams.LOOP.replace(_loop(engine))
    seams.MESSAGE.replace(_message(engine))
    kv_cache_coordinator.BlockPool = SwakvBlockPool


def _configs(engine: Engine) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def get_kv_cache_configs(vllm_config: Any, kv_cache_specs: Any, available_memory: Any) -> Any:
            from .blocks import SwakvBlockPool

            # Whether a request fits, and how long one may be, follows from what this engine may hold; but any page may be its.
            with _set(vllm_config.cache_config, num_gpu_blocks_override=None):
                try:
                    configs = stock(vllm_config, kv_cache_specs, [engine.capacity * engine.block.bytes] * len(kv_cache_specs))
                except ValueError as e:
                    raise Refused(
                        f"this engine may hold {engine.capacity} blocks of {engine.block.bytes} bytes in broker "
                        f"'{engine.settings.broker}', which is too little for one request: {e}"
                    ) from e
            (config,) = configs
            at_once = seams.CONCURRENCY.get()(vllm_config, config)
            engine.check_floor(math.ceil(round(config.num_blocks / at_once, 6)))
            config.num_blocks = engine.num_pages
            for tensor in config.kv_cache_tensors:
                if tensor.block_stride != engine.block.bytes:
                    raise Refused(f"vLLM lays out blocks of {tensor.block_stride} bytes now, and of {engine.block.bytes} before")
                tensor.size = engine.num_pages * engine.block.bytes
            setattr(config, memory.ATTRIBUTE, engine.share)
            SwakvBlockPool.attach(engine.holder, engine.steps, int(vllm_config.scheduler_config.watermark * engine.num_pages))
            return configs

        return get_kv_cache_configs

    return wrap


def _capacity(engine: Engine) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def update_kv_cache_capacity(vllm_config: Any, kv_cache_config: Any) -> None:
            reported = copy.copy(kv_cache_config)
            reported.num_blocks = engine.capacity
            stock(vllm_config, reported)

        return update_kv_cache_capacity

    return wrap


def _need(stock: Callable[..., int]) -> Callable[..., int]:
    def get_num_blocks_to_allocate(self: Any, *args: Any, **kwargs: Any) -> int:
        n = stock(self, *args, **kwargs)
        self.block_pool.want(n)
        return n

    return get_num_blocks_to_allocate


def _schedule(engine: Engine) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def schedule(self: Any, *args: Any, **kwargs: Any) -> Any:
            engine.pool = self.kv_cache_manager.block_pool
            engine.pool.expect(functools.partial(demand.blocks, self))
            output = stock(self, *args, **kwargs)
            if output.total_num_scheduled_tokens > 0:
                engine.steps.begun += 1
            return output

        return schedule

    return wrap


def _update(engine: Engine) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def update_from_output(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
            outputs = stock(self, scheduler_output, *args, **kwargs)
            if scheduler_output.total_num_scheduled_tokens > 0:
                engine.steps.ended += 1
            return outputs

        return update_from_output

    return wrap


def _loop(engine: Engine) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def _process_input_queue(self: Any) -> None:
            engine.tend()
            stock(self)

        return _process_input_queue

    return wrap


def _message(engine: Engine) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def _handle_client_request(self: Any, request_type: Any, request: Any) -> None:
            stock(self, request_type, request)
            if request is None:  # WAKEUP: of ours, or of a shutdown
                engine.tend()

        return _handle_client_request

    return wrap


def install(settings: Settings) -> None:
    """Replaces what runs first of all: everything else follows when EngineCore has a broker."""
    seams.INITIALIZE.replace(_initialize(settings))
