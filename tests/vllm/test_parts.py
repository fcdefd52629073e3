# SPDX-License-Identifier: Apache-2.0
"""The plug-in's parts without an engine: what is refused at start, and the block pool beside steps in flight."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pages import Pages
from swakv_vllm import Refused, plan, seams, settings
from swakv_vllm.sweep import Sweep

# ---- what the environment says ---------------------------------------------------------------


def test_nothing_is_asked_for() -> None:
    assert settings.read({}) is None
    assert settings.read({"SWAKV_BROKER": "", "SWAKV_REQUIRED": "0"}) is None


def test_what_is_asked_for() -> None:
    assert settings.read({"SWAKV_BROKER": "kv"}) == settings.Settings("kv", None, False)
    asked = {"SWAKV_BROKER": "kv", "SWAKV_MODEL": "chat", "SWAKV_REQUIRED": "1"}
    assert settings.read(asked) == settings.Settings("kv", "chat", True)


@pytest.mark.parametrize("environ", [{"SWAKV_REQUIRED": "1"}, {"SWAKV_BROKER": "kv", "SWAKV_REQUIRED": "yes"}])
def test_what_is_asked_for_is_wrong(environ: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="SWAKV_REQUIRED"):
        settings.read(environ)


def test_loading_attaches_nothing_and_changes_nothing_without_a_broker() -> None:
    code = "import swakv_vllm, sys; swakv_vllm.register(); sys.exit('vllm' in sys.modules or 'swakv' in sys.modules)"
    subprocess.run([sys.executable, "-B", "-c", code], check=True, env={"PATH": "", "PYTHONPATH": ":".join(sys.path)})


# ---- seams -------------------------------------------------------------------------------------


def test_every_seam_of_this_vllm_is_as_expected() -> None:
    seams.check_version()
    for seam in vars(seams).values():
        if isinstance(seam, seams.Seam):
            seam.get()


def test_an_unknown_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vllm.version.__version__", "0.33.0")
    with pytest.raises(Refused, match=r"vLLM is version 0\.33\.0, and swakv-vllm knows 0\.32\.x"):
        seams.check_version()


def test_a_seam_of_another_shape_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def popleft(self: Any, eagerly: bool) -> None: ...

    monkeypatch.setattr("vllm.v1.core.kv_cache_utils.FreeKVCacheBlockQueue.popleft", popleft)
    with pytest.raises(Refused, match=r"FreeKVCacheBlockQueue\.popleft of this vLLM takes \(self, eagerly\)"):
        seams.check_version()


def test_a_seam_that_there_is_not_is_refused_by_its_name() -> None:
    with pytest.raises(Refused, match=r"no vllm\.v1\.engine\.core\.EngineCore\._gone"):
        seams.Seam("vllm.v1.engine.core", "EngineCore._gone", ("self",)).get()


# ---- configurations --------------------------------------------------------------------------------


def config(served: list[str] | None) -> Any:
    return SimpleNamespace(model_config=SimpleNamespace(served_model_name=served, model="path"))


def test_layouts() -> None:
    assert plan.layout([["LBHNC"]], None, on_cpu=True) == "BLHNC"
    assert plan.layout([["LBNHC", "BLHNC"]], None, on_cpu=False) == "BLHNC"
    with pytest.raises(Refused, match="LBNHC"):
        plan.layout([["LBNHC"]], None, on_cpu=True)
    with pytest.raises(Refused, match="set to LBHNC"):
        plan.layout([["LBHNC"]], "LBHNC", on_cpu=True)


def test_the_name_of_the_model() -> None:
    assert plan.name(config(["a", "b"]), None) == "a"
    assert plan.name(config(["a", "b"]), "mine") == "mine"
    assert plan.name(config(None), None) == "path"
    with pytest.raises(Refused, match="SWAKV_MODEL"):
        plan.name(config(None), "m\u00f6del")


def test_a_model_whose_blocks_are_no_power_of_two() -> None:
    group = plan.Block(bytes=96 * 1000 + 7, tokens=96).model("m", "tag").groups[0]
    assert group.page_tokens * group.k_bytes + group.extra_bytes == 96 * 1000 + 7


# ---- the block pool ------------------------------------------------------------------------------


N = 200
Make = Callable[..., Any]


@pytest.fixture
def pages() -> Pages:
    return Pages(N)


@pytest.fixture
def pool(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Whose time goes on only where a test says so: none depends on how long it takes itself."""
    from swakv_vllm import blocks
    from swakv_vllm.blocks import SwakvBlockPool
    from swakv_vllm.holder import Holder, Steps

    for name in ("STAYS", "REST", "ASK_EVERY"):
        monkeypatch.setattr(blocks, name, 3600.0)
    SwakvBlockPool.attach(Holder(pages, N), Steps(), 0)  # type: ignore[arg-type]
    return SwakvBlockPool(N, True, 32)


def get(pool: Any, n: int) -> list[Any]:
    pool.want(n)
    assert pool.get_num_free_blocks() >= n
    return list(pool.get_new_blocks(n))


def cache(pool: Any, blocks: list[Any]) -> None:
    for block in blocks:
        pool._insert_block_hash(b"%030d" % block.block_id + b"\0\0\0\0", block, num_tokens=32)


def test_the_null_block_is_a_page_of_its_own(pool: Any, pages: Pages) -> None:
    assert pool.null_block.is_null and pool.null_block.block_id not in pages.free
    assert sum(b.is_null for b in pool.blocks) == 1
    assert pool.holder.held == 1 and pool.get_num_free_blocks() == 0 and pool.get_usage() == 0.0


def test_a_second_pool_is_refused(pool: Any) -> None:
    with pytest.raises(Refused, match="second BlockPool"):
        type(pool)(N, True, 32)


def test_blocks_are_taken_before_they_are_counted(pool: Any, pages: Pages) -> None:
    blocks = get(pool, 50)
    assert not {b.block_id for b in blocks} & set(pages.free)
    assert pool.holder.held + len(pages.free) == N
    pool.want(N)
    assert pool.get_num_free_blocks() < N, "so many there are not: nothing is taken, and nothing raised"
    assert pool.get_usage() == 50 / (N - 1)


def test_all_that_requests_will_take_is_asked_for_in_one_go(pool: Any, pages: Pages) -> None:
    """Before they are planned, and waiting for nothing; what is lacking is told to the broker as a whole."""
    pages.takes.clear()
    pool.expect(lambda most: min(70, most))
    assert pages.takes == [(1, 70)]
    pool.want(7)
    assert pool.get_num_free_blocks() == 70 and len(pages.takes) == 1
    blocks = pool.get_new_blocks(70)
    others = [pages.free.pop() for _ in range(len(pages.free) - 10)]
    pool._next_ask = 0.0
    pool.expect(lambda most: min(50, most))
    assert pages.takes[1:] == [(1, 50), (40, 40)], "what there is, and what others are to give"
    pool.want(50)
    assert pool.get_num_free_blocks() == 10 and pool.holder.refused == 1
    for _ in range(10):
        pool.expect(lambda most: min(50, most))
        pool.want(50)
    assert len(pages.takes) == 3, "neither for each request nor in each step"
    pages.free += others
    pool.want(50)
    assert pool.get_num_free_blocks() >= 50, "there are pages"
    pool.free_blocks(blocks)


def test_a_request_waits_for_no_answer_that_will_be_a_refusal(pool: Any, pages: Pages) -> None:
    """The others go on without it."""
    get(pool, 100)
    del pages.free[:]
    pages.slow = True
    pool.expect(lambda most: min(50, most))
    pool.want(50)
    assert pool.holder.asking and pool.holder.refused == 0
    pages.slow = False
    pool.tend()
    assert not pool.holder.asking and pool.holder.refused == 2


def test_no_more_is_said_to_be_lacking_than_the_broker_would_ever_give(pool: Any, pages: Pages) -> None:
    """Whoever asks for more lacks nothing, as the broker sees it, and nobody would give anything."""
    get(pool, 100)
    pages.never, pages.free = 60, []
    told = 0
    for _ in range(20):
        pages.takes.clear()
        pool._next_ask = 0.0
        pool.expect(lambda most: most)
        told = pages.takes[-1][0]
        pool.want(30)
    assert 30 <= told <= 60


def test_pages_in_wanted_ranges_are_given_first_and_none_that_a_request_uses(pool: Any, pages: Pages) -> None:
    blocks = get(pool, 100)
    cache(pool, blocks)
    used = {b.block_id for b in blocks[::5]}
    pool.free_blocks(reversed([b for b in blocks if b.block_id not in used]))
    held = {b.block_id for b in pool._free()}
    first, last = range(min(held), min(held) + 4), range(max(held) - 20, max(held) + 1)
    help_most = held & {*first, *last}
    assert 2 < len(help_most) < len(held) - 10 and used & {*first, *last}
    before = set(pages.free)
    pages.ask(len(help_most), first, last)
    pool.tend()
    assert set(pages.free) - before == help_most
    before = set(pages.free)
    pages.ask(10, last)
    pool._next_sweep = 0.0
    pool.tend()
    given = set(pages.free) - before
    assert len(given) == 10 and given <= held - help_most, "there is none left in the range: others"


def test_what_is_free_goes_back_beyond_a_reserve(pool: Any, pages: Pages) -> None:
    blocks = get(pool, 150)
    pool.free_blocks(blocks)
    pool.tend()
    assert pool.holder.held < 50 and len(pages.free) == N - pool.holder.held
    assert pages.offered == pool.get_num_free_blocks()


def test_what_a_request_frees_is_kept_for_the_next_one_a_while(pool: Any, pages: Pages) -> None:
    """While others run: so that not each that ends gives what the next one takes."""
    running, ended = get(pool, 20), get(pool, 100)
    pool.tend()
    pool.free_blocks(ended)
    pool.tend()
    assert pool.get_num_free_blocks() >= 100
    pool._stays_until = 0.0
    pool.tend()
    assert pool.get_num_free_blocks() >= 100, "they have not stayed free for long"
    more = get(pool, 40)
    pool.tend()
    pool.free_blocks(more)
    pool._stays_until = 0.0
    pool.tend()
    free = pool.get_num_free_blocks()
    assert 40 < free < 100, "but for those that were used in between, and the reserve"
    pool.free_blocks(running)
    pool.tend()
    assert pool.get_num_free_blocks() < free, "who is idle keeps no more than the reserve"


def test_cached_blocks_are_kept_until_others_lack_pages(pool: Any, pages: Pages) -> None:
    blocks = get(pool, 150)
    cache(pool, blocks)
    pool.free_blocks(reversed(blocks))
    pool.tend()
    assert pool.holder.held > 150 and len(pool.cached_block_hash_to_block) == 150
    free = pool.get_num_free_blocks()
    pages.ask(60)
    pool.tend()
    assert pool.get_num_free_blocks() == free - 60
    assert all(pool.blocks[i].block_hash is None for i in pages.free), "a page that was given is in the cache"
    pool._next_sweep = 0.0
    pool.tend()
    assert pool.get_num_free_blocks() == free - 60, "the same is not given twice"
    pages.ask(10)
    pool._next_sweep = 0.0
    pool.tend()
    assert pool.get_num_free_blocks() == free - 70


def test_what_is_given_are_neighbours_in_both_halves_of_the_pool(pool: Any, pages: Pages) -> None:
    """Only an extent that is free as a whole helps engines with pages of another size."""
    blocks = get(pool, N - 1)
    cache(pool, blocks)
    random.Random(1).shuffle(blocks)
    pool.free_blocks(blocks)
    places: set[int] = set()
    for wanted in (10, 6, 40):
        before = set(pages.free)
        pages.ask(wanted)
        pool._next_sweep = time.monotonic()
        pool.tend()
        given = set(pages.free) - before
        assert len(given) == wanted
        places |= {i % (N // 2) for i in given}
        assert max(places) - min(places) <= (N - pool.get_num_free_blocks()) // 2 + 1, "gaps"


@pytest.mark.parametrize(("n", "start"), [(1, 0), (2, 1), (7, 3), (8, 0), (8, 7), (200, 150)])
def test_a_sweep_comes_by_every_page_once_and_by_neighbours_in_turn(n: int, start: int) -> None:
    ids = list(Sweep(n, start))
    assert sorted(ids) == list(range(n))
    places = [i % ((n + 1) // 2) for i in ids]
    assert places[0] == start % ((n + 1) // 2)
    assert all(max(places[:i]) - min(places[:i]) < i for i in range(1, n + 1))


def test_blocks_of_requests_are_not_given(pool: Any, pages: Pages) -> None:
    blocks = get(pool, 100)
    pages.ask(N)
    pool.tend()
    assert pool.holder.held == 101 and not {b.block_id for b in blocks} & set(pages.free)


def test_a_block_is_given_when_the_steps_that_might_touch_it_have_ended(pool: Any, pages: Pages) -> None:
    """As with asynchronous scheduling: a request is found to have ended while the next step with it is in flight."""
    blocks = get(pool, 100)
    pages.ask(N)
    pool.steps.begun = 2
    pool.steps.ended = 1
    pool.free_blocks(blocks)
    pool.tend()
    assert not {b.block_id for b in blocks} & set(pages.free)
    pool.steps.begun = 3
    pool.tend()
    assert not {b.block_id for b in blocks} & set(pages.free)
    pool.steps.ended = 2
    pool._next_sweep = 0.0
    pool.tend()
    assert {b.block_id for b in blocks} <= set(pages.free)


def test_what_is_cached_is_not_evicted_while_pages_are_to_be_had(pool: Any, pages: Pages) -> None:
    blocks = get(pool, 40)
    cache(pool, blocks)
    pool.free_blocks(reversed(blocks))
    more = get(pool, 60)
    assert len(pool.cached_block_hash_to_block) == 40
    pool.free_blocks(more)
    get(pool, N - 1)
    assert len(pool.cached_block_hash_to_block) == 0


def test_the_prefix_cache_is_reset_and_given_back(pool: Any, pages: Pages) -> None:
    blocks = get(pool, 100)
    cache(pool, blocks)
    assert pool.reset_prefix_cache() is False, "requests use it"
    pool.free_blocks(reversed(blocks))
    assert pool.reset_prefix_cache() is True
    assert pool.holder.held < 50 and pool.num_gpu_blocks == N and not len(pool.cached_block_hash_to_block)
