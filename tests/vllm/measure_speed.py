# SPDX-License-Identifier: Apache-2.0
"""Sum of tokens a second under skewed and even load, on swakv and stock; share of time in swakv. Run by tests/vllm/speed.

Tokens for a second of CPU time of all processes, the broker's too, are less disturbed by what else the machine does.
"""

from __future__ import annotations

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
FLOORS = {"mistral": "1M", "gemma3": "2M"}  # one request of the greatest length, and more
MANY, FEW, LENGTH, TOKENS = 32, 2, 250, 100

Load = tuple[int, int]  # requests of each engine
LOADS: dict[str, list[Load]] = {"skewed": [(MANY, FEW), (FEW, MANY)], "even": [(MANY // 2, MANY // 2)]}


def cpu_seconds(pids: list[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(t.user + t.system for t in times)


def one(pair: dict[str, Engine], others: list[int], load: Load, seed: int) -> tuple[float, float]:
    """Tokens of both together for a second, and for a second of CPU time; @others: pids that count, too."""
    counts = dict(zip(MODELS, load, strict=True))
    asked: dict[str, Tokens] = {m: engines.random_prompts(seed, [LENGTH] * n) for m, n in counts.items()}
    pids = others + [pid for e in pair.values() for pid in (e.process.pid, *e.pids())]
    begun, before = time.monotonic(), cpu_seconds(pids)
    for model in MODELS:
        pair[model].send("generate", prompts=asked[model], tokens=TOKENS)
    for model in MODELS:
        pair[model].answer()
    tokens = sum(load) * TOKENS
    return tokens / (time.monotonic() - begun), tokens / (cpu_seconds(pids) - before)


def ratio(of: list[float], to: list[float]) -> str:
    ratios = [a / b for a, b in zip(of, to, strict=True)]
    return (
        f"{statistics.median(of):.0f} on swakv, {statistics.median(to):.0f} stock with half each, ratio "
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )


def share(times: Path, of: str) -> dict[str, float]:
    """Of each EngineCore: the share of the time of its steps, and of what is between them, that is spent in swakv."""
    found = {}
    for file in sorted(times.parent.glob(times.name + ".*")):
        spent = json.loads(file.read_text())[of]
        if spent["swakv"]:
            found[file.suffix[1:]] = spent["swakv"] / (spent["steps"] + spent["swakv"])
    return found


def test_speed(tmp_path: Path) -> None:
    site = tmp_path / "timer"
    info = site / "speed_timer-0.dist-info"
    info.mkdir(parents=True)
    (site / "speed_timer.py").write_text(Path(__file__).with_name("speed_timer.py").read_text())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: speed_timer\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nspeed_timer = speed_timer:register\n")
    times = tmp_path / "times"
    with processes.Broker(size=str(POOL)) as broker, contextlib.ExitStack() as later:
        for model in MODELS:
            admin.ctl(broker, "limit", model, "--floor", FLOORS[model])
        total = broker.status()["pool"]["bytes"]["total"]
        timed = {"PYTHONPATH": os.pathsep.join(map(str, (*engines.PACKAGES, site))), "SWAKV_VLLM_TIMES": str(times)}
        pairs = {
            "swakv": {m: Engine(m, broker, environ=timed, max_num_seqs=MANY) for m in MODELS},
            "stock": {m: Engine(m, num_gpu_blocks_override=total // PAGE_BYTES[m] // 2, max_num_seqs=MANY) for m in MODELS},
        }
        later.enter_context(engines.running(*(e for pair in pairs.values() for e in pair.values())))
        seed, load_before = 0, os.getloadavg()[0]
        others = {"swakv": [broker.pid], "stock": []}
        for kind, loads in LOADS.items():
            found: dict[str, list[tuple[float, float]]] = {which: [] for which in pairs}
            for turn in range(ROUNDS + 1):  # the first warms up
                for load in loads:
                    seed += 1
                    for which, pair in pairs.items():  # in turn, so that both meet the same machine
                        result = one(pair, others[which], load, seed)
                        if turn > 0:
                            found[which].append(result)
            for i, of in enumerate(("a second", "a second of CPU time")):
                print(f"{kind}: tokens for {of}: {ratio(*([r[i] for r in found[which]] for which in pairs))}", flush=True)
        for of in ("time", "CPU time"):
            print(f"share of the engines' {of} in swakv: {', '.join(f'{s:.2%}' for s in share(times, of).values())}")
        print(f"load of the machine: {load_before:.1f} before, {os.getloadavg()[0]:.1f} at the end, {os.cpu_count()} CPUs")
        assert len(share(times, "time")) == len(MODELS)
