# SPDX-License-Identifier: Apache-2.0
"""vLLM's own configuration and scheduler, in this process, on a block pool over pages without a broker.

Asynchronous scheduling and sleep are tested here only: vLLM turns the first off on CPUs, and ignores the other there.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import models
import pytest
from pages import Pages
from swakv_vllm import Refused, engine, memory, plan, seams, settings
from swakv_vllm.blocks import SwakvBlockPool
from swakv_vllm.holder import Holder, Steps

N, TOKENS, STOP = 200, 32, 7


@pytest.fixture(scope="module")
def config() -> Any:
    """Of a real engine. Who changes it puts it back."""
    os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    from vllm.engine.arg_utils import EngineArgs

    folder = models.save("mistral", Path(os.environ["SWAKV_MODELS"]) / f"mistral-{models.edition()}")
    return EngineArgs(
        model=str(folder), skip_tokenizer_init=True, dtype="float32", enforce_eager=True, block_size=TOKENS,
        max_model_len=models.MAX_LENGTH, max_num_seqs=16, max_num_batched_tokens=256,
    ).create_engine_config()  # fmt: skip


# ---- what is refused ---------------------------------------------------------------------------


def test_the_configuration_of_a_plain_engine_is_not_refused(config: Any) -> None:
    plan.check(config)
    assert plan.name(config, None) == config.model_config.model


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("parallel_config.tensor_parallel_size", 2, "tensor_parallel_size is 2"),
        ("parallel_config.pipeline_parallel_size", 2, "pipeline_parallel_size is 2"),
        ("parallel_config.data_parallel_size", 2, "data_parallel_size is 2"),
        ("parallel_config.decode_context_parallel_size", 2, "decode_context_parallel_size is 2"),
        ("parallel_config.prefill_context_parallel_size", 2, "prefill_context_parallel_size is 2"),
        ("parallel_config.enable_eplb", True, "expert load balancing"),
        ("kv_transfer_config", SimpleNamespace(kv_connector="NixlConnector"), "NixlConnector"),
        ("kv_transfer_config", SimpleNamespace(kv_connector="OffloadingConnector"), "OffloadingConnector"),
        ("cache_config.kv_offloading_size", 4.0, "KV offload"),
        ("speculative_config", SimpleNamespace(method="eagle"), r"speculative decoding \(eagle\)"),
        ("speculative_config", SimpleNamespace(method="ngram"), r"speculative decoding \(ngram\)"),
        ("attention_config.hisparse_config", object(), "HiSparse"),
        ("model_config.enable_sleep_mode", True, "sleep mode"),
        ("scheduler_config.scheduler_cls", "mine.Scheduler", "scheduler_cls is mine.Scheduler"),
    ],
)
def test_what_would_go_wrong_is_refused(
    config: Any, monkeypatch: pytest.MonkeyPatch, path: str, value: Any, words: str
) -> None:
    *where, last = path.split(".")
    target = config
    for name in where:
        target = getattr(target, name)
    assert hasattr(target, last), "vLLM has no such setting any more"
    monkeypatch.setattr(target, last, value)
    with pytest.raises(Refused, match=words):
        plan.check(config)


def test_model_runner_v2_is_refused_for_its_warm_up_requests(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "1")
    with pytest.raises(Refused, match="made-up requests on blocks 1, 2, .*VLLM_USE_V2_MODEL_RUNNER=0"):
        plan.check(config)


def test_a_setting_that_vllm_has_no_more_is_refused_by_its_name(config: Any) -> None:
    class Parallel:
        tensor_parallel_size = 1

    class Config:
        parallel_config = Parallel()

    with pytest.raises(Refused, match=r"no parallel_config\.pipeline_parallel_size"):
        plan.check(Config())


def test_an_engine_within_the_callers_process_is_refused(config: Any) -> None:
    """VLLM_ENABLE_V1_MULTIPROCESSING=0: nothing would wake it when others lack pages."""
    with pytest.raises(Refused, match="the engine is a SimpleNamespace.*leave VLLM_ENABLE_V1_MULTIPROCESSING at 1"):
        engine._attach(SimpleNamespace(), config, settings.Settings("nobody", None, True))


@pytest.mark.parametrize("change", [{"session_id": 2}, {"layers": 0}, {"outside": ("layer 3",)}, None])
def test_a_worker_whose_kv_cache_lies_elsewhere_is_refused(change: dict[str, Any] | None) -> None:
    session = SimpleNamespace(info=SimpleNamespace(session_id=1))
    core: Any = SimpleNamespace(session=session, settings=SimpleNamespace(broker="kv"))
    right = memory.Report(pid=5, session_id=1, num_pages=N, page_bytes=4096, layers=4, outside=())
    engine._check_workers(core, [right])
    with pytest.raises(Refused, match="KV cache does not lie in the pool"):
        engine._check_workers(core, [None if change is None else dataclasses.replace(right, **change)])


def test_blocks_of_two_sizes_are_refused() -> None:
    tensors = [SimpleNamespace(block_stride=n) for n in (4096, 8192)]
    with pytest.raises(Refused, match=r"different sizes \(\[4096, 8192\] bytes\)"):
        plan.Block.of(SimpleNamespace(kv_cache_tensors=tensors))


def specs() -> list[type]:
    from vllm.v1 import kv_cache_interface

    kinds = [c for c in vars(kv_cache_interface).values() if inspect.isclass(c)]
    return [c for c in kinds if issubclass(c, kv_cache_interface.KVCacheSpec) and c is not kv_cache_interface.KVCacheSpec]


def test_every_other_kind_of_kv_cache_of_this_vllm_is_refused() -> None:
    """Mamba, gated delta nets and short convolutions are MambaSpecs; MLA, chunked, cross attention, ... have their own."""
    names = {c.__name__ for c in specs()}
    assert names >= {*plan.KNOWN_SPECS, "MambaSpec", "MLAAttentionSpec", "ChunkedLocalAttentionSpec", "CrossAttentionSpec"}
    for kind in specs():
        spec = object.__new__(kind)
        if kind.__name__ in plan.KNOWN_SPECS:
            plan.check_specs([{"layer": spec}])
        else:
            with pytest.raises(Refused, match=f"layer ssm has a KV cache of kind {kind.__name__}"):
                plan.check_specs([{"layer": object.__new__(next(c for c in specs() if c.__name__ in plan.KNOWN_SPECS))},
                                  {"ssm": spec}])  # fmt: skip


# ---- asynchronous scheduling, and sleep -------------------------------------------------------------


class World:
    """A scheduler of vLLM as EngineCore drives it, with up to two steps under way."""

    def __init__(self, config: Any, asynchronous: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        from vllm.v1.core import kv_cache_coordinator
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, KVCacheTensor, SlidingWindowSpec
        from vllm.v1.structured_output import StructuredOutputManager

        self.pages, self.engine = Pages(N), SimpleNamespace(steps=Steps(), pool=None)
        SwakvBlockPool.attach(Holder(self.pages, N), self.engine.steps, 0)  # type: ignore[arg-type]
        of: Any = self.engine
        wrapped = {seams.NEED: engine._need, seams.SCHEDULE: engine._schedule(of), seams.UPDATE: engine._update(of)}
        for seam, wrap in wrapped.items():
            holder, last = seam._holder()
            monkeypatch.setattr(holder, last, wrap(seam.get()))
        monkeypatch.setattr(kv_cache_coordinator, "BlockPool", SwakvBlockPool)
        monkeypatch.setattr(config.scheduler_config, "async_scheduling", asynchronous)
        monkeypatch.setattr(config.cache_config, "num_gpu_blocks", N)
        spec = SlidingWindowSpec(
            block_size=TOKENS, num_kv_heads=2, head_size=32, dtype=config.model_config.dtype, sliding_window=models.WINDOW
        )
        size = spec.page_size_bytes
        tensor = KVCacheTensor(size=N * size, layers=["layer"], layer_stride=size, block_stride=size)
        cache = KVCacheConfig(num_blocks=N, kv_cache_tensors=[tensor], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
        kind: Any = config.scheduler_config.get_scheduler_cls()
        assert kind.__name__ == ("AsyncScheduler" if asynchronous else "Scheduler")
        self.scheduler = kind(config, cache, StructuredOutputManager(config), TOKENS)
        init_none_hash(hash)
        self._hasher = get_request_block_hasher(TOKENS, lambda x: hash(x).to_bytes(8, "little", signed=True))
        self.under_way: list[Any] = []

    @property
    def pool(self) -> SwakvBlockPool:
        return self.scheduler.kv_cache_manager.block_pool  # type: ignore[no-any-return]

    def add(self, name: str, length: int, tokens: int) -> None:
        from vllm import SamplingParams
        from vllm.v1.request import Request

        sampling = SamplingParams(temperature=0, max_tokens=tokens, stop_token_ids=[STOP], detokenize=False)
        sampling.update_from_generation_config({}, 2)
        self.scheduler.add_request(Request(name, [ord(name)] * length, sampling, None, block_hasher=self._hasher))

    def schedule(self) -> None:
        self.under_way.append(self.scheduler.schedule())

    def end_step(self, *stopped: str) -> None:
        """The oldest step that is under way ends; requests @stopped have drawn the stop token in it."""
        from vllm.v1.outputs import ModelRunnerOutput

        step = self.under_way.pop(0)
        names = list(step.num_scheduled_tokens)
        drawn = []
        for name in names:
            request = self.scheduler.requests.get(name)
            whole = request is not None and not request.is_prefill_chunk
            drawn.append([STOP if name in stopped else 9] if whole else [])
        output = ModelRunnerOutput(names, {n: i for i, n in enumerate(names)}, drawn)
        self.scheduler.update_from_output(step, output)

    def blocks(self, name: str) -> set[int]:
        groups = self.scheduler.kv_cache_manager.get_block_ids(name)
        return {i for group in groups for i in group} - {self.pool.null_block.block_id}

    def press(self) -> None:
        """Others lack all that there is, and the engine looks whether it can give."""
        self.pages.ask(N)
        self.pool._next_sweep = 0.0
        self.pool.tend()


@pytest.fixture(params=[False, True], ids=["one step at a time", "asynchronous"])
def world(config: Any, monkeypatch: pytest.MonkeyPatch, request: Any) -> Iterator[World]:
    yield World(config, request.param, monkeypatch)


@pytest.fixture
def ahead(config: Any, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(config, True, monkeypatch)


def test_blocks_of_a_request_that_has_ended_are_given(world: World) -> None:
    world.add("a", 100, 50)
    world.schedule()
    had = world.blocks("a")
    assert len(had) >= 4 and not had & set(world.pages.free)
    world.press()
    assert not had & set(world.pages.free), "the step is under way"
    world.end_step("a")
    world.press()
    assert had <= set(world.pages.free)


def test_a_request_that_stopped_while_its_next_step_is_under_way_gives_one_step_later(ahead: World) -> None:
    """That step still writes to its blocks."""
    ahead.add("a", 100, 50)
    ahead.add("b", 60, 50)
    ahead.schedule()
    ahead.schedule()
    assert all("a" in step.num_scheduled_tokens for step in ahead.under_way)
    had = ahead.blocks("a")
    ahead.end_step("a")
    assert "a" not in ahead.scheduler.requests
    ahead.schedule()
    assert "a" not in ahead.under_way[-1].num_scheduled_tokens
    ahead.press()
    assert not had & set(ahead.pages.free)
    ahead.end_step()
    ahead.press()
    assert had <= set(ahead.pages.free) | ahead.blocks("b")
    assert had & set(ahead.pages.free)


def test_what_left_a_window_is_given_once_no_step_under_way_reads_it(ahead: World) -> None:
    ahead.add("a", 220, 300)
    ahead.schedule()
    first = ahead.blocks("a")
    may_be_read = [first]  # of each step that is under way
    for _ in range(2 * models.WINDOW):
        ahead.schedule()
        may_be_read.append(ahead.blocks("a"))
        ahead.press()
        assert not set.union(*may_be_read) & set(ahead.pages.free)
        ahead.end_step()
        del may_be_read[0]
    ahead.press()
    left = first - set.union(*may_be_read)
    assert left and left <= set(ahead.pages.free)


def test_an_engine_that_sleeps_gives_all_that_others_lack(world: World) -> None:
    """As EngineCore.sleep(): pause, clear the prefix cache. A WAKEUP then tends, and no step is planned."""
    from vllm.v1.core.sched.interface import PauseState

    world.add("a", 200, 50)
    world.schedule()
    world.end_step()
    world.scheduler.set_pause_state(PauseState.PAUSED_ALL)
    world.schedule()
    assert world.under_way.pop().total_num_scheduled_tokens == 0
    assert not world.engine.steps.in_flight
    assert world.scheduler.reset_prefix_cache(reset_running_requests=True) is True
    world.press()
    assert world.pool.holder.held == 1 and len(world.pages.free) == N - 1, "all but the null block"
    world.scheduler.set_pause_state(PauseState.UNPAUSED)
    world.schedule()
    assert world.under_way[0].num_scheduled_tokens == {"a": 201}
