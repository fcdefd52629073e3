# SPDX-License-Identifier: Apache-2.0
"""Continuous batching on swakv pages: the tokens of the stock generate_batch(), whatever the pool has room for."""

from __future__ import annotations

import contextlib
import functools
import threading
import types
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
if tuple(map(int, transformers.__version__.split(".")[:2])) < (5, 24):
    pytest.skip("continuous batching on pages needs transformers 5.24", allow_module_level=True)

import models  # noqa: E402
import processes  # noqa: E402

import swakv.torch  # noqa: E402
from swakv.transformers import paged  # noqa: E402

LONGEST = 320
WINDOW = models.WINDOW


def prompts() -> list[list[int]]:
    """Shorter than, equal to and longer than the window; more than a step takes at once."""
    lengths = [3, 9, WINDOW - 1, WINDOW, WINDOW + 1, 70, 150, 20, 45, 5]
    return [models.ids(1, n, seed=i)[0].tolist() for i, n in enumerate(lengths)]


def generate(kind: str, *, chunk: int = 64, blocks: int = 200, tokens: int = 3 * WINDOW + 4, **more: Any) -> dict[str, list[int]]:
    model = models.make(kind, torch.float32)
    out = model.generate_batch(
        inputs=prompts(),
        generation_config=transformers.GenerationConfig(
            max_new_tokens=tokens, do_sample=False, eos_token_id=-1, pad_token_id=0, bos_token_id=1
        ),
        continuous_batching_config=transformers.ContinuousBatchingConfig(
            num_blocks=blocks, page_size=16, max_batch_tokens=chunk, max_memory_percent=0.9, **more
        ),
        progress_bar=False,
    )
    assert all(o.error is None for o in out.values()), [o.error for o in out.values()]
    return {str(o.prompt_ids): o.generated_tokens for o in out.values()}


@functools.cache
def stock(kind: str, chunk: int) -> dict[str, list[int]]:
    tokens = generate(kind, chunk=chunk)
    assert len(tokens) == len(prompts())
    assert max(len(set(t)) for t in tokens.values()) > 20, "the outputs are worth comparing"
    return tokens


@pytest.mark.parametrize("chunk", [64, 512], ids=["chunked-prefill", "whole-prompts"])
@pytest.mark.parametrize("kind", models.SHAPES)
def test_tokens_are_those_of_the_stock_cache(pool: processes.Broker, kind: str, chunk: int) -> None:
    expected = stock(kind, chunk)
    with paged.use(socket=pool.socket_path, longest=LONGEST):
        assert generate(kind, chunk=chunk) == expected
    processes.wait_until(pool.idle, "all pages to come back")


@pytest.mark.parametrize("kind", models.SHAPES)
def test_requests_wait_when_the_pool_is_small(pool: processes.Broker, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = stock(kind, 64)
    others: list[swakv.Session] = []
    refused: list[int] = []
    make, take = paged.PagedCache.__init__, paged.SectorPool._take

    def beside_another(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        others.append(swakv.attach(self.session.model, socket=pool.socket_path))
        swakv.torch.bind(others[0])
        everything = others[0].pages().take(1, swakv.MAX_PAGES)
        with pytest.raises(swakv.NoPages):
            others[0].pages().take(1)
        others[0].pages().give(everything[:4])  # all that there is beside the floor

    def watched(self: Any, n: int, wait: float) -> None:
        try:
            take(self, n, wait)
        except swakv.NoPages:
            refused.append(len(self._held))
            raise

    monkeypatch.setattr(paged.PagedCache, "__init__", beside_another)
    monkeypatch.setattr(paged.SectorPool, "_take", watched)
    try:
        with paged.use(socket=pool.socket_path, longest=LONGEST):
            # With more blocks the scheduler would think itself short of them, and begin one request at a time.
            assert generate(kind, blocks=24) == expected
    finally:
        others[0].close()
    assert refused, "no request has waited for a page"
    processes.wait_until(pool.idle, "all pages to come back")


def test_two_models_at_once_share_a_pool(pool: processes.Broker) -> None:
    expected = {kind: stock(kind, 64) for kind in ("mistral", "gpt_oss")}
    got: dict[str, Any] = {}
    with paged.use(socket=pool.socket_path, longest=LONGEST):
        # Of threads of one process no one may do what the capture of another one's graph forbids.
        how = dict(use_cuda_graph=False)
        threads = [threading.Thread(target=lambda k=kind: got.update({k: generate(k, **how)})) for kind in expected]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert got == expected


def test_a_floor_below_one_longest_request_is_refused(pool: processes.Broker) -> None:
    model = models.make("gemma3_text", torch.float32)
    with paged.use(socket=pool.socket_path, longest=LONGEST, floor=2), pytest.raises(ValueError, match="needs .* sectors"):
        make_cache(model, 200)
    with paged.use(socket=pool.socket_path, longest=LONGEST), pytest.raises(ValueError, match="num_blocks allows"):
        make_cache(model, 5)
    processes.wait_until(pool.idle, "all pages to come back")


def make_cache(model: Any, blocks: int, **more: Any) -> Any:
    config = transformers.ContinuousBatchingConfig(
        num_blocks=blocks, page_size=16, max_batch_tokens=64, max_memory_percent=0.9, **more
    )
    return paged.api.PagedAttentionCache(
        config=model.config,
        continuous_batching_config=config,
        device=model.device,
        distributed_helper=types.SimpleNamespace(tp_size=1),
        dtype=model.dtype,
    )


def test_no_second_copy_and_pages_that_the_window_left_go(pool: processes.Broker) -> None:
    model = models.make("gemma3_text", torch.float32)
    with paged.use(socket=pool.socket_path, longest=LONGEST):
        cache = make_cache(model, 200)
        begin = cache.session.info.pool_address
        assert begin <= cache.cache_tensor.data_ptr() < begin + cache.session.info.pool_bytes
        sliding = cache.cache_allocators["sliding_attention"]
        full = cache.cache_allocators["full_attention"]
        for past in range(0, 300, 5):
            for allocator in (sliding, full):
                lack = allocator.needs_new_sectors("r", past, 5)
                assert cache.pool.ensure(lack)
                for _ in range(lack):
                    cache.pool.allocate_sector(allocator.index)
                allocator.allocate_cache_to_request("r", past, 5)
            assert len(sliding.block_table["r"]) <= sliding.most_blocks(LONGEST, 5)
            assert len(sliding.get_read_indices("r", past, 5)) == min(past, WINDOW - 1) + 5
            row = torch.full((40,), -1, dtype=torch.int32)
            sliding.fill_block_table("r", past, 5, row)
            page = (past + 4) // 16
            assert row[page] * 16 + (past + 4) % 16 == sliding.get_write_indices("r", past, 5)[-1]
        assert len(full.block_table["r"]) == 19
        held = len(cache.pool._held)
        cache.free_blocks("r")
        cache.pool.try_to_free_sectors()
        assert len(cache.pool._held) == min(held, cache.pool.floor + paged.SPARE)
    processes.wait_until(pool.idle, "all pages to come back")


def test_what_is_asked_for_is_given(pool: processes.Broker) -> None:
    model = models.make("gemma3_text", torch.float32)
    with paged.use(socket=pool.socket_path, longest=LONGEST):
        cache = make_cache(model, 200)
        assert cache.pool.ensure(cache.pool.floor + paged.SPARE)
        with swakv.attach(cache.session.model, socket=pool.socket_path) as other:
            swakv.torch.bind(other)
            others = []

            def given() -> bool:
                with contextlib.suppress(swakv.NoPages):  # a refusal is a want for a second
                    while True:
                        others.extend(other.pages().take(1, swakv.MAX_PAGES))
                cache.pool.try_to_free_sectors()
                return len(cache.pool._held) < cache.pool.floor + paged.SPARE

            processes.wait_until(given, "pages to be given")
            assert other.pages().take(1, wait=60)
    processes.wait_until(pool.idle, "all pages to come back")
