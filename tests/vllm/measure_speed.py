# SPDX-License-Identifier: Apache-2.0
"""Two engines on one pool beside stock vLLM with a static half each. Run by tests/vllm/speed, which says what it shows.

Steps and calls are counted, so those figures hold on a busy machine, too. Tokens for a second of CPU time of all processes,
the broker's too, are less disturbed by what else the machine does than tokens a second.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import statistics
import time
from pathlib import Path

import admin
import engines
import processes
import psutil
import pytest
from engines import Engine, Tokens

if "SWAKV_VLLM_SPEED" not in os.environ:
    pytest.skip("run tests/vllm/speed", allow_module_level=True)
ROUNDS = int(os.environ["SWAKV_VLLM_SPEED"])
MODELS = ("mistral", "gemma3")
POOL, PAGE_BYTES = 8 << 20, {"mistral": 65536, "gemma3": 32768}
LENGTH, TOKENS = 60, 200  # of each prompt, and of each answer
LONGEST = 288
# Blocks of 32 tokens that a request comes to in the end: of a window of 128, and of gemma3's two sliding groups and a full one.
REQUEST = {"mistral": 5, "gemma3": 5 + 5 + 9}
FLOORS = {"mistral": 11, "gemma3": 30}  # blocks: what the longest request may need while it is prefilled, and the null block

Counts = collections.Counter[str]
Load = dict[str, int]  # requests of each engine


def loads(total: int) -> dict[str, list[Load]]:
    """Skewed: one engine has what needs most of the pool, the other one request. @total: bytes of the pool."""
    fit = {m: total // PAGE_BYTES[m] // REQUEST[m] for m in MODELS}  # requests that the whole pool holds
    skewed = []
    for busy, other in (MODELS, MODELS[::-1]):
        skewed.append({busy: int(fit[busy] * 0.8), other: 1})
    return {
        "skewed, one engine needs 0.8 of the pool": skewed,
        "even, each needs 0.4 of the pool": [{m: int(fit[m] * 0.4) for m in MODELS}],
        "even, each needs 0.8 of the pool: together more than there is": [{m: int(fit[m] * 0.8) for m in MODELS}],
    }


def cpu_seconds(pids: list[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(t.user + t.system for t in times)


class Pair:
    """Two engines, of which each is asked for its part of a load at the same time."""

    def __init__(self, engines: dict[str, Engine], counts: Path, others: list[int]) -> None:
        self.engines, self._counts, self._others = engines, counts, others

    def counted(self, model: str) -> Counts:
        file = Path(f"{self._counts}.{self.engines[model].pid('EngineCore')}")
        return collections.Counter(json.loads(file.read_text())) if file.exists() else collections.Counter()

    def run(self, load: Load, seed: int) -> Result:
        asked: dict[str, Tokens] = {m: engines.random_prompts(seed, [LENGTH] * n) for m, n in load.items()}
        pids = self._others + [pid for e in self.engines.values() for pid in (e.process.pid, *e.pids())]
        before = {m: self.counted(m) for m in MODELS}
        begun, cpu = time.monotonic(), cpu_seconds(pids)
        for model in MODELS:
            self.engines[model].send("generate", prompts=asked[model], tokens=TOKENS)
        for model in MODELS:
            self.engines[model].answer()
        took, cpu = time.monotonic() - begun, cpu_seconds(pids) - cpu
        counts = {}
        for model in MODELS:
            counts[model] = self.counted(model)
            counts[model].subtract(before[model])
        return Result(sum(load.values()) * TOKENS, took, cpu, counts)


class Result:
    def __init__(self, tokens: int, seconds: float, cpu: float, counts: dict[str, Counts]) -> None:
        self.speeds = (tokens / seconds, tokens / cpu)
        self.counts = counts


def ratio(of: list[float], to: list[float]) -> str:
    ratios = [a / b for a, b in zip(of, to, strict=True)]
    return (
        f"{statistics.median(of):.0f} on swakv, {statistics.median(to):.0f} stock with half each, ratio "
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )


def said(c: Counts) -> str:
    """What one engine did, in the middle of a line."""
    steps = max(c["steps"], 1)
    text = (
        f"{c['steps']} steps of {c['tokens'] / steps:.1f} tokens and {c['sequences'] / steps:.1f} sequences, "
        f"{c['preemptions']} preemptions, {c['lacking steps']} steps lacked blocks, {c['idle steps']} did nothing; "
        f"prefix cache: {c['evicted']} blocks lost, {c['recomputed']} of them computed again"
    )
    if c["takes"] + c["gives"] + c["offers"]:
        refused = ", ".join(f"{n} {key.split()[1]}" for key, n in sorted(c.items()) if key.startswith("refused: ") and n)
        text += (
            f"; broker: {c['takes']} takes of {c['taken']} blocks, {c['refused']} refused{f' ({refused})' if refused else ''}, "
            f"{c['gives']} gives of {c['given']}, {c['offers']} offers, {c['calls: time'] * 1000:.1f} ms in them"
        )
    return text


def share(c: Counts, of: str) -> float:
    """Of the time of an EngineCore's steps, and of what is between them: the share that is spent in swakv."""
    return c[f"swakv: {of}"] / max(c[f"steps: {of}"] + c[f"swakv: {of}"], 1e-9)


def write_plugin(site: Path) -> None:
    info = site / "speed_counts-0.dist-info"
    info.mkdir(parents=True)
    (site / "speed_counts.py").write_text(Path(__file__).with_name("speed_counts.py").read_text())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: speed_counts\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nspeed_counts = speed_counts:register\n")


def report(kind: str, loads: list[Load], found: dict[str, list[Result]]) -> None:
    print(f"\n{kind}: " + "; ".join(", ".join(f"{m} {n} requests" for m, n in load.items()) for load in loads))
    for i, of in enumerate(("a second", "a second of CPU time")):
        print(f"  tokens for {of}: {ratio(*([r.speeds[i] for r in found[which]] for which in ('swakv', 'stock')))}")
    for i, load in enumerate(loads):
        steps = {}
        for which, results in found.items():
            mine = results[i :: len(loads)]
            for model in MODELS:
                total = sum((r.counts[model] for r in mine), collections.Counter())
                steps[which, model] = total["steps"]
                each = collections.Counter({key: n / len(mine) for key, n in total.items()})
                rounded = collections.Counter({k: n if ": " in k and "refused" not in k else round(n) for k, n in each.items()})
                print(f"  {load[model]:3} of {model:7} on {which}: {said(rounded)}")
                if which == "swakv":
                    print(" " * 21 + ", ".join(f"{share(total, of):.2%} of {of} in swakv" for of in ("time", "CPU time")))
        print("    steps of stock for each on swakv: " + ", ".join(
            f"{m} {steps['stock', m] / max(steps['swakv', m], 1):.2f}" for m in MODELS), flush=True)  # fmt: skip


def test_speed(tmp_path: Path) -> None:
    write_plugin(tmp_path / "site")
    counts = tmp_path / "counts"
    environ = {
        "PYTHONPATH": os.pathsep.join(map(str, (*engines.PACKAGES, tmp_path / "site"))), "SWAKV_VLLM_COUNTS": str(counts),
    }  # fmt: skip
    with processes.Broker(size=str(POOL)) as broker, contextlib.ExitStack() as later:
        total = broker.status()["pool"]["bytes"]["total"]
        kinds = loads(total)
        most = max(n for loads in kinds.values() for load in loads for n in load.values())
        options = {"environ": environ, "max_num_seqs": most, "max_model_len": LONGEST}
        for model in MODELS:
            admin.ctl(broker, "limit", model, "--floor", str(FLOORS[model] * PAGE_BYTES[model]))
        swakv = {m: Engine(m, broker, **options) for m in MODELS}
        stock = {m: Engine(m, num_gpu_blocks_override=total // PAGE_BYTES[m] // 2, **options) for m in MODELS}
        later.enter_context(engines.running(*swakv.values(), *stock.values()))
        pairs = {"swakv": Pair(swakv, counts, [broker.pid]), "stock": Pair(stock, counts, [])}
        print(f"\n{total} bytes: " + ", ".join(f"{total // PAGE_BYTES[m]} blocks of {m}" for m in MODELS))
        seed, load_before = 0, os.getloadavg()[0]
        for kind, of_kind in kinds.items():
            found: dict[str, list[Result]] = {which: [] for which in pairs}
            for turn in range(ROUNDS + 1):  # the first warms up
                for load in of_kind:
                    seed += 1
                    for which, pair in pairs.items():  # in turn, so that both meet the same machine
                        result = pair.run(load, seed)
                        if turn > 0:
                            found[which].append(result)
            report(kind, of_kind, found)
        print(f"load of the machine: {load_before:.1f} before, {os.getloadavg()[0]:.1f} at the end, {os.cpu_count()} CPUs")
        for pair in pairs.values():
            assert all(pair.counted(m)["steps"] for m in MODELS)
        assert all(pairs["swakv"].counted(m)["taken"] for m in MODELS)
