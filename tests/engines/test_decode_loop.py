# SPDX-License-Identifier: Apache-2.0
"""The block pool and memory of the vLLM plug-in, driven by a decode loop in torch: two engines on one pool, one is killed.

Needs no vLLM, so it runs on a GPU whose machine has none, with the pool imported by each worker over CUDA IPC.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import conftest  # noqa: E402
import models  # noqa: E402
import processes  # noqa: E402

import swakv  # noqa: E402
import swakv.torch  # noqa: E402

LOOP = Path(__file__).with_name("decode_loop.py")
# Bytes of the pool; of a block of each engine; steps before the kill, and of the heir; values that are compared, at least.
SIZES = {"cpu": (8 << 20, 16384, 32768, 100, 10**6), "cuda": (128 << 20, 262144, 524288, 300, 10**9)}
UNTIL_TOLD = 0  # steps


class Engine:
    def __init__(self, broker: processes.Broker, name: str, seed: int, steps: int, block_bytes: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(LOOP), broker.name, models.DEVICE, name, str(seed), str(steps), str(block_bytes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(broker.env, OMP_NUM_THREADS="1"),
        )  # fmt: skip
        broker.workers.append(self.process)

    def said(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the engine has ended"
        said = json.loads(line)
        assert said["wrong"] == 0, said
        return said  # type: ignore[no-any-return]

    def until(self, step: int) -> dict[str, Any]:
        said: dict[str, Any] = {"step": 0}
        while said["step"] < step:
            said = self.said()
        return said

    def grown(self, blocks: int) -> None:
        """Until it uses more than so many."""
        while (said := self.said()).get("most", 0) <= blocks:
            assert "done" not in said, said

    def stop(self) -> None:
        """Tells one whose steps are not counted."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def done(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What it said last before its end, and at its end."""
        before: dict[str, Any] = {}
        while "done" not in (said := self.said()):
            before = said
        assert self.process.wait() == 0
        return before, said


def fill_with_nan(broker: processes.Broker, block_bytes: int) -> None:
    """Every page, as another session that has used it."""
    group = swakv.Group(layers=1, page_tokens=16, k_bytes=block_bytes // 16, form="joined")
    with swakv.attach(swakv.Model("nan", [group], max_seq=16), socket=broker.socket_path) as session:
        swakv.torch.bind(session)
        pages, ids = session.pages(), []
        with contextlib.suppress(swakv.NoPages):
            while True:
                ids += pages.take(1, swakv.MAX_PAGES)
        all = swakv.torch.tensor(session.layouts[0].pages)
        all[ids] = 0xFF
        if models.DEVICE == "cuda":
            torch.cuda.synchronize()
        del all
        for i in range(0, len(ids), swakv.MAX_PAGES):
            pages.give(ids[i : i + swakv.MAX_PAGES])


@pytest.fixture
def broker() -> Iterator[processes.Broker]:
    with conftest.broker_of(str(SIZES[models.DEVICE][0])) as b:
        yield b


def test_one_of_two_engines_is_killed_and_no_value_is_wrong(broker: processes.Broker) -> None:
    size, small, large, before, least = SIZES[models.DEVICE]
    fill_with_nan(broker, small)
    other, victim = (Engine(broker, name, i, UNTIL_TOLD, b) for i, (name, b) in enumerate((("a", small), ("b", large))))
    beside, last = other.until(before), victim.until(before)
    for pid in (victim.process.pid, last["worker"]):
        os.kill(pid, signal.SIGKILL)
    victim.process.wait()
    with contextlib.suppress(AssertionError):
        while victim.said():
            pass
    processes.wait_until(lambda: all(m["name"] != "b" or not m["used_bytes"] for m in broker.status()["models"]), "its pages")
    other.grown(size // small // 2)  # more than a static half, while nobody else wants it
    heir = Engine(broker, "b", 7, before, large)
    with concurrent.futures.ThreadPoolExecutor() as beside_it:
        ended = beside_it.submit(other.done)
        try:
            heir_alone, heir_end = heir.done()
        finally:
            other.stop()
        alone, end = ended.result()
    print(f"{models.DEVICE}: {end['checked'] + heir_end['checked'] + last['checked']} values compared, 0 wrong")
    print(f"two beside each other: {beside} {last}\nwithout: {alone}\nits heir: {heir_alone}")
    assert end["checked"] + heir_end["checked"] + last["checked"] > least
    assert alone["hits"] > 0 and end["given"] > 0 and max(end["held"], heir_end["held"]) < 64, "who has stopped gives"
    processes.wait_until(broker.idle, "all pages to be free")


ON_A_DEVICE = """
import os, sys
sys.path[:0] = sys.argv[1].split(":")
import vllm_pool
vllm_pool.install()
from swakv_vllm import engine, plan, settings
block = plan.Block(65536, 16)
core = engine.Engine(settings.Settings(sys.argv[2], "m", True), block, block.model("m", "tag"), None, 0)
assert core.session.info.cuda
for _ in range(2):  # the second time they are dirty, and are filled with zeroes on the device
    ids = core.holder.take(20, 20)
    assert len(ids) == 20
    core.holder.give(ids)
print("taken", flush=True)
"""


def test_the_process_that_plans_takes_pages_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the fake driver, which torch does not know: without a worker."""
    if models.DEVICE != "cpu":
        pytest.skip("the other test does so on a real one")
    fake = str(processes.BUILD / "tests/fakecuda/libfakecuda.so")
    monkeypatch.setenv("SWAKV_CUDA_LIBRARY", fake)
    here = Path(__file__).resolve()
    path = f"{here.parent}:{here.parents[2] / 'client/python-vllm'}:{here.parents[2] / 'client/python'}"
    with processes.Broker(size="16M", arguments=("--backend", "cuda")) as b:
        command = [sys.executable, "-B", "-c", ON_A_DEVICE, path, b.name]
        run = subprocess.run(command, env=b.env, stdout=subprocess.PIPE, text=True, check=True)
        assert run.stdout == "taken\n"
