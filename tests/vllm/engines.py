# SPDX-License-Identifier: Apache-2.0
"""vLLM engines in processes of their own, and what the broker says of them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import build
import models
import processes

HERE = Path(__file__).resolve().parent
PACKAGES = (build.ROOT / "client/python", Path(os.environ["SWAKV_PLUGIN"]))
MODELS = Path(os.environ["SWAKV_MODELS"])
PATIENCE = 600  # seconds for one engine to start, or to answer, on a busy machine

Tokens = list[list[int]]  # of each prompt

# Shorter and longer than the window of 128, at its edges, and at those of blocks of 32.
LENGTHS = (40, 100, 127, 128, 129, 200, 300, 447, 33, 64, 90, 111, 222, 333, 20, 260)
TOKENS = 100
SEEDS = range(5)
# More than half of a small pool at a time, and for long.
BURST = 5
BURST_LENGTHS = (200, 270, 310, 240) * 6


def prompts(seed: int) -> Tokens:
    return random_prompts(seed, BURST_LENGTHS if seed == BURST else LENGTHS)


def random_prompts(seed: int, lengths: Sequence[int]) -> Tokens:
    rnd = random.Random(seed)
    return [[rnd.randrange(3, models.VOCABULARY) for _ in range(n)] for n in lengths]


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {PATIENCE} s for {what}"
        time.sleep(0.01)
    return found


def settled(look: Callable[[], int]) -> int:
    """What @look sees, once it sees the same twice with some time between: what was under way has arrived."""
    seen = [-1]

    def twice() -> bool:
        seen.append(look())
        time.sleep(0.2)
        return seen[-1] == seen[-2]

    wait_until(twice, "a number to settle")
    return seen[-1]


class Engine:
    """One vLLM engine. broker None: stock vLLM. It starts at once; started() waits for it."""

    def __init__(
        self, model: str, broker: processes.Broker | None = None, environ: dict[str, str] | None = None, **options: Any
    ) -> None:
        self.model, self.log = model, tempfile.TemporaryFile("w+")
        folder = models.save(model, MODELS / f"{model}-{models.edition()}")
        options = {"model": str(folder), "served_model_name": model, "enable_prefix_caching": True, **options}
        env = dict(
            os.environ, VLLM_CPU_KVCACHE_SPACE="1", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1",
            VLLM_CPU_OMP_THREADS_BIND="nobind", OMP_NUM_THREADS="1",
            PYTHONPATH=os.pathsep.join(map(str, PACKAGES)),
        )  # fmt: skip
        if broker is not None:
            env |= {"SWAKV_BROKER": broker.name, "SWAKV_REQUIRED": "1", "XDG_RUNTIME_DIR": str(broker.folder)}
        env |= environ or {}
        answers, theirs = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(HERE / "host.py"), json.dumps(options), str(theirs)],
            env=env, pass_fds=[theirs], stdin=subprocess.PIPE, stdout=self.log, stderr=self.log, text=True,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._answers = os.fdopen(answers)
        self._pids: dict[str, int] = {}
        self.closed = False

    def text(self) -> str:
        # Opened anew: the engine writes at the place that it shares with self.log.
        return Path(f"/proc/self/fd/{self.log.fileno()}").read_text()

    def answer(self) -> Any:
        line = self._answers.readline()
        assert line, f"the engine of {self.model} has ended:\n{self.text()[-20000:]}"
        said = json.loads(line)
        assert "error" not in said, said["error"]
        return said["answer"]

    def send(self, do: str, **arguments: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()

    def call(self, do: str, **arguments: Any) -> Any:
        self.send(do, **arguments)
        return self.answer()

    def started(self) -> Engine:
        assert self.answer() == "started"
        self._pids = self.call("pids")
        assert set(self._pids) == {"EngineCore", "Worker"}, self._pids
        return self

    def refused(self) -> str:
        """Waits for an engine that does not start. What it said."""
        line = self._answers.readline()
        assert not line, f"the engine of {self.model} has started: {line}"
        self.process.wait(PATIENCE)
        return self.text()

    def pid(self, which: str) -> int:
        return self._pids[which]

    def pids(self) -> list[int]:
        return list(self._pids.values())

    def generate(self, prompts: Tokens, tokens: int = TOKENS) -> Tokens:
        return self.call("generate", prompts=prompts, tokens=tokens)  # type: ignore[no-any-return]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        for pid in self._pids.values():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._answers.close()
        self.log.close()
        self.closed = True


@contextlib.contextmanager
def running(*engines: Engine) -> Iterator[None]:
    """Waits for engines that start beside each other, and ends them."""
    try:
        for e in engines:
            e.started()
        yield
    finally:
        for e in engines:
            if not e.closed:
                e.close()


def of(status: dict[str, Any], model: str) -> dict[str, Any]:
    """What @status says of the sessions of @model together."""
    nothing = {"managed": 0, "offered": 0, "wanted": 0, "wanted_ms": None, "used_bytes": 0}
    return next((m for m in status["models"] if m["name"] == model), nothing)


def said_of(broker: processes.Broker, model: str) -> dict[str, Any]:
    return of(broker.status(), model)


def blocks(broker: processes.Broker, model: str) -> int:
    """Pages that the engine of @model holds."""
    return int(said_of(broker, model)["managed"])


def quiet(broker: processes.Broker, model: str) -> int:
    """Pages that the engine of @model holds, when it is asked for none; else 0."""
    said = said_of(broker, model)
    return 0 if said["wanted"] else int(said["managed"])


def asked(broker: processes.Broker, model: str) -> int:
    """How often sessions of @model have been asked for pages."""
    return asked_in(broker.status(), model)


def asked_in(status: dict[str, Any], model: str) -> int:
    return sum(int(s["asked"]) for s in status["sessions"] if s["model"]["name"] == model)


def used(broker: processes.Broker, model: str) -> int:
    """Pages that requests of the engine of @model refer to, so neither cached nor free."""
    said = said_of(broker, model)
    return int(said["managed"]) - int(said["offered"])


def held(broker: processes.Broker, model: str) -> int:
    """Bytes of pages that sessions of @model have, alive or not, those in quarantine included."""
    return int(said_of(broker, model)["used_bytes"])


def ended(pid: int) -> bool:
    """A zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


class Watch:
    """Looks again and again at the pages of one engine and of another while its block runs.

    used: the most that requests of @model referred to at a time, so neither cached nor free. moved: seconds from the last look
    before @other was asked for pages to the first at which it held fewer; None: it was not asked, or held no fewer.
    """

    def __init__(self, broker: processes.Broker, model: str, other: str) -> None:
        self._broker, self._model, self._other, self._over = broker, model, other, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.used = 0
        self.moved: float | None = None

    def _run(self) -> None:
        before: tuple[float, int, int] | None = None  # when it was last not asked yet, how often it had been, what it held
        while not self._over.is_set():
            now, status = time.monotonic(), self._broker.status()
            mine, theirs = of(status, self._model), of(status, self._other)
            self.used = max(self.used, mine["managed"] - mine["offered"])
            times = asked_in(status, self._other)
            if before is None or times == before[1]:
                before = (now, times, theirs["managed"])
            elif self.moved is None and theirs["managed"] < before[2]:
                self.moved = time.monotonic() - before[0]
            self._over.wait(0.02)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


NAN = """
import contextlib, sys, time, numpy, swakv
page, tokens, again = int(sys.argv[2]), 32, sys.argv[3] == "again"
group = swakv.Group(layers=1, page_tokens=tokens, k_bytes=page // tokens, form="joined")
with swakv.attach(swakv.Model("nan", [group], max_seq=tokens), socket=sys.argv[1]) as session:
    session.stream().bind_host()
    pages, had, filled = session.pages(), set(), 0
    while True:
        ids, complete = [], False
        with contextlib.suppress(swakv.Pending, swakv.Busy):
            try:
                while len(ids) < 4096:
                    ids += pages.take(1, swakv.MAX_PAGES)
            except swakv.NoPages:
                complete = True
        all = numpy.asarray(session.layouts[0].pages).view(numpy.uint32)
        all[ids] = 0x7FC00000
        del all
        for i in range(0, len(ids), swakv.MAX_PAGES):
            pages.give(ids[i:i + swakv.MAX_PAGES])
        # Only those that were not to be had the time before: they have left somebody since.
        filled += len(set(ids) - had)
        had = set(ids) if complete else had.union(ids)
        print(filled, flush=True)
        if not again:
            break
        time.sleep(0.005)
"""


def _nan(broker: processes.Broker, page_bytes: int, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-B", "-c", NAN, broker.socket_path, str(page_bytes), how], stdout=subprocess.PIPE, text=True,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, PACKAGES))),
    )  # fmt: skip


def fill_with_nan(broker: processes.Broker, page_bytes: int) -> int:
    """Fills every page that can be had with NaN, as another session that has used them. Returns how many."""
    with _nan(broker, page_bytes, "once") as run:
        said, _ = run.communicate()
    assert run.returncode == 0
    return int(said)


@contextlib.contextmanager
def filling_with_nan(broker: processes.Broker, page_bytes: int) -> Iterator[Callable[[], int]]:
    """The same again and again, from before the block begins until it ends.

    Yields a function: how many were filled until now, of those that others held the time before.
    """
    with _nan(broker, page_bytes, "again") as run, contextlib.ExitStack() as later:
        later.callback(run.kill)
        lines = run.stdout
        assert lines is not None
        first = lines.readline()
        assert first, "it has ended"
        filled = int(first)

        def read() -> None:
            nonlocal filled
            for line in lines:
                filled = int(line)

        reader = threading.Thread(target=read)
        reader.start()
        later.callback(reader.join)
        later.callback(run.kill)
        yield lambda: filled
        assert run.poll() is None, "it has ended"
