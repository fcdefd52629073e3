# SPDX-License-Identifier: Apache-2.0
"""vLLM on swakv pages: greedy tokens equal those of stock vLLM, whatever happens to the pages meanwhile.

Engines are slow to start, so one serves many tests: they run in this order, and each leaves the engines idle.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import admin
import engines
import processes
import pytest
from engines import Engine, Tokens

MODELS = ("mistral", "gemma3")
PAGE_BYTES = {"mistral": 65536, "gemma3": 32768}
LOOKS = 10  # times that prompts are sent until what they cause was seen: on a busy machine there are few looks at each
LEFT = 2 * 17  # pages of gemma3: what mistral, idle, can be asked for beyond its floor is no more
FLOORS = {"mistral": "1M", "gemma3": "2M"}  # one request of the greatest length, and more


@pytest.fixture(scope="module")
def expected() -> dict[str, list[Tokens]]:
    """What stock vLLM answers: of each model, for the prompts of each seed.

    $SWAKV_VLLM_EXPECTED: a file to keep it in, so that tests that are run by hand again and again wait less.
    """
    kept = Path(os.environ.get("SWAKV_VLLM_EXPECTED", os.devnull))
    if kept.is_file():
        return json.loads(kept.read_text())  # type: ignore[no-any-return]
    stock = {model: Engine(model) for model in MODELS}
    with engines.running(*stock.values()):
        asked = [engines.prompts(seed) for seed in (*engines.SEEDS, engines.BURST)]
        found = {model: [e.generate(prompts) for prompts in asked] for model, e in stock.items()}
    for model, answers in found.items():
        for tokens in answers:
            different = [len(set(t)) for t in tokens]
            assert min(different) >= 20, f"{model} repeats itself, nothing would be proved: {different}"
    kept.write_text(json.dumps(found))
    return found


# ---- two engines on one broker ----------------------------------------------------------


@pytest.fixture(scope="module")
def broker() -> Iterator[processes.Broker]:
    with processes.Broker(size="8M") as b:
        assert engines.fill_with_nan(b, PAGE_BYTES["mistral"]) > 60
        for model, floor in FLOORS.items():
            admin.ctl(b, "limit", model, "--floor", floor)
        yield b


@pytest.fixture(scope="module")
def pair(broker: processes.Broker, expected: object) -> Iterator[dict[str, Engine]]:
    """Two engines with different models on one pool, all of whose pages were full of NaN."""
    both = {model: Engine(model, broker) for model in MODELS}
    with engines.running(*both.values()), contextlib.ExitStack() as later:
        later.callback(lambda: [e.close() for e in both.values() if not e.closed])  # those that took a dead one's place
        yield both


@pytest.mark.parametrize("model", MODELS)
def test_tokens_equal_stock(pair: dict[str, Engine], expected: dict[str, list[Tokens]], model: str) -> None:
    """16 requests at once, shorter and longer than the window, prefilled in chunks; then again, from the prefix cache."""
    assert pair[model].generate(engines.prompts(0)) == expected[model][0]
    assert pair[model].generate(engines.prompts(0)) == expected[model][0]


@pytest.mark.parametrize("model", MODELS)
def test_prefix_cache_hits(
    pair: dict[str, Engine], broker: processes.Broker, expected: dict[str, list[Tokens]], model: str
) -> None:
    """What is cached may be asked for between two looks: then it is sent once more."""
    engines.wait_until(lambda: engines.quiet(broker, model), "the broker to ask for nothing that is cached")
    hits = [pair[model].call("metrics")["vllm:prefix_cache_hits"]]
    while len(hits) <= LOOKS and (len(hits) < 3 or hits[-1] == hits[-2]):
        assert pair[model].generate([engines.prompts(1)[7]]) == [expected[model][1][7]]
        hits.append(pair[model].call("metrics")["vllm:prefix_cache_hits"])
    assert hits[-1] > hits[-2], hits


@pytest.mark.parametrize("model", MODELS)
def test_one_request_at_a_time(pair: dict[str, Engine], expected: dict[str, list[Tokens]], model: str) -> None:
    for i in (0, 3, 7):
        assert pair[model].generate([engines.prompts(0)[i]]) == [expected[model][0][i]]


def test_each_serves_a_burst_with_more_than_a_static_half(
    pair: dict[str, Engine], broker: processes.Broker, expected: dict[str, list[Tokens]]
) -> None:
    """In turn, each is asked for more than half of the pool, while the other is idle and caches what it had."""
    for turn, (model, other) in enumerate((MODELS, MODELS[::-1]) * 2):
        half = broker.status()["pool"]["bytes"]["total"] // PAGE_BYTES[model] // 2
        had = engines.settled(lambda other=other: engines.blocks(broker, other))  # type: ignore[misc]
        before = engines.asked(broker, other)
        with engines.Watch(broker, model, other) as watch:
            for _ in range(LOOKS):
                assert pair[model].generate(engines.prompts(engines.BURST)) == expected[model][engines.BURST]
                if watch.used > half:
                    break
        print(f"{model}: its requests used up to {watch.used} blocks; half is {half}; {other} gave within {watch.moved} s")
        assert watch.used > half
        if turn > 0:  # before that, the other may have nothing to give
            assert engines.asked(broker, other) > before and engines.blocks(broker, other) < had


def test_a_page_that_left_a_window_may_be_full_of_nan_at_once(
    pair: dict[str, Engine], broker: processes.Broker, expected: dict[str, list[Tokens]]
) -> None:
    """Another session takes whatever is free, again and again, and fills it with NaN."""
    assert pair["mistral"].call("reset") is True
    with engines.filling_with_nan(broker, PAGE_BYTES["gemma3"]) as left:
        for seed in engines.SEEDS:
            before = left()
            for _ in range(LOOKS):
                assert pair["gemma3"].generate(engines.prompts(seed)) == expected["gemma3"][seed]
                if left() - before > LEFT:
                    break
            assert left() - before > LEFT


def test_both_at_once(pair: dict[str, Engine], expected: dict[str, list[Tokens]]) -> None:
    for model in MODELS:
        pair[model].send("generate", prompts=engines.prompts(3), tokens=engines.TOKENS)
    for model in MODELS:
        assert pair[model].answer() == expected[model][3]


def test_prefix_cache_is_reset_and_given_back(pair: dict[str, Engine], broker: processes.Broker) -> None:
    for model in MODELS:
        assert pair[model].call("reset") is True
    engines.wait_until(lambda: all(engines.blocks(broker, m) < 64 for m in MODELS), "the cached blocks to be given back")


def test_a_floor_is_there_at_once(
    pair: dict[str, Engine], broker: processes.Broker, expected: dict[str, list[Tokens]]
) -> None:
    """However much another caches, what is within the floor asks it for nothing."""
    assert pair["gemma3"].call("reset") is True
    for seed in engines.SEEDS:
        pair["mistral"].generate(engines.prompts(seed))
    engines.wait_until(lambda: engines.quiet(broker, "mistral"), "the broker to ask for nothing")
    before = engines.asked(broker, "mistral")
    assert pair["gemma3"].generate([engines.prompts(0)[7]]) == [expected["gemma3"][0][7]]
    assert engines.asked(broker, "mistral") == before


# ---- no prefix cache, and so few pages that vLLM preempts; no broker; a floor that is too low ----------------


@pytest.fixture(scope="module")
def others(expected: object) -> Iterator[dict[str, Engine]]:
    """Engines that start beside each other: two with a pool of their own each, one without a broker, and one refused."""
    with processes.Broker(size="4M") as one, processes.Broker(size="6M") as other, processes.Broker(size="12M") as third:
        found = {}
        for model, b in zip(MODELS, (one, other), strict=True):
            engines.fill_with_nan(b, PAGE_BYTES[model])
            found[model] = Engine(model, b, enable_prefix_caching=False)
        found["alone"] = Engine("mistral", environ={"SWAKV_BROKER": "nobody-is-called-so"})
        admin.ctl(third, "limit", "mistral", "--floor", str(3 * PAGE_BYTES["mistral"]))
        found["refused"] = Engine("mistral", third)
        started = [e for name, e in found.items() if name != "refused"]
        try:
            with engines.running(*started):
                yield found
        finally:
            found["refused"].close()


@pytest.mark.parametrize("model", MODELS)
def test_so_few_pages_that_vllm_preempts(others: dict[str, Engine], expected: dict[str, list[Tokens]], model: str) -> None:
    for seed in engines.SEEDS:
        assert others[model].generate(engines.prompts(seed)) == expected[model][seed]
    assert others[model].call("metrics")["vllm:num_preemptions"] > 0


def test_without_a_broker_it_says_so_and_vllm_runs_as_ever(
    others: dict[str, Engine], expected: dict[str, list[Tokens]]
) -> None:
    assert others["alone"].generate(engines.prompts(0)) == expected["mistral"][0]
    assert "vLLM uses memory of its own, since broker 'nobody-is-called-so' cannot be used" in others["alone"].text()


def test_a_floor_below_one_longest_request_is_refused(others: dict[str, Engine]) -> None:
    said = others["refused"].refused()
    assert "one request of max_model_len tokens takes 13 and the null block: raise it to 917504 bytes" in said, said[-5000:]


# ---- death -----------------------------------------------------------------------------------

ROUNDS = int(os.environ.get("SWAKV_VLLM_ROUNDS", "1"))  # of each of three; 7 by hand make more than 20


@pytest.mark.parametrize("victims", [("EngineCore",), ("Worker",), ("EngineCore", "Worker")] * ROUNDS)
def test_killed_in_the_middle_of_a_step(
    pair: dict[str, Engine], broker: processes.Broker, expected: dict[str, list[Tokens]], victims: tuple[str, ...]
) -> None:
    """The other's tokens do not change; pages come back when both halves are dead and not before; a new engine runs on them."""
    victim, other = pair["mistral"], pair["gemma3"]
    victim.send("generate", prompts=[p for seed in engines.SEEDS for p in engines.prompts(seed)], tokens=500)
    engines.wait_until(lambda: engines.used(broker, "mistral") > 20, "the victim's requests to run")
    other.send("generate", prompts=engines.prompts(3), tokens=engines.TOKENS)
    survivors = {"EngineCore", "Worker"} - set(victims)
    for name in survivors:  # so that its end comes when it is let go on
        os.kill(victim.pid(name), signal.SIGSTOP)
    for name in victims:
        os.kill(victim.pid(name), signal.SIGKILL)
    for name in victims:
        engines.wait_until(lambda name=name: engines.ended(victim.pid(name)), f"{name} to end")  # type: ignore[misc]
    if survivors:
        kept = engines.settled(lambda: engines.held(broker, "mistral"))
        assert kept >= 20 * PAGE_BYTES["mistral"]
        assert other.answer() == expected["gemma3"][3]
        assert other.generate(engines.prompts(4)) == expected["gemma3"][4]
        assert engines.held(broker, "mistral") == kept, "the other half may still write to them"
        for name in survivors:
            assert not engines.ended(victim.pid(name))
            os.kill(victim.pid(name), signal.SIGCONT)
        engines.wait_until(lambda: all(engines.ended(victim.pid(name)) for name in survivors), "the other half to end by itself")
    else:
        assert other.answer() == expected["gemma3"][3]
    engines.wait_until(lambda: engines.held(broker, "mistral") == 0, "the pages of the dead engine to come back")
    victim.close()

    pair["mistral"] = Engine("mistral", broker).started()
    assert pair["mistral"].generate(engines.prompts(0)) == expected["mistral"][0]
    assert other.generate(engines.prompts(0)) == expected["gemma3"][0]


def test_when_the_broker_ends_so_do_its_engines_and_say_why(pair: dict[str, Engine], broker: processes.Broker) -> None:
    """Idle ones, too. The last test of the pair."""
    processes.end(broker.process)
    for engine in pair.values():
        engines.wait_until(lambda engine=engine: all(map(engines.ended, engine.pids())), "the engine to end")  # type: ignore[misc]
        assert f"the KV cache is lost: broker '{broker.name}' has ended" in engine.text()
