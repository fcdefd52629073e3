# SPDX-License-Identifier: Apache-2.0
"""An engine of two processes on the classes of swakv_vllm, as vLLM has them: one plans, and its worker computes in torch.

decode_loop.py BROKER DEVICE NAME SEED STEPS BLOCK_BYTES: plans one step while the one before is under way, as vLLM does
when it schedules asynchronously. STEPS 0: until its standard input ends. Every value of K and V is a number that follows
from the sequence's key, the position and the place in the row, so each step can compare all that it reads. Prints a line
of JSON every ten steps, and one with "done" last.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import queue
import random
import select
import sys
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "client/python"), str(ROOT / "client/python-vllm")]

if importlib.util.find_spec("vllm") is None:
    import vllm_pool

    vllm_pool.install()

import torch  # noqa: E402
from swakv_vllm import engine, memory, plan, settings  # noqa: E402
from swakv_vllm.blocks import SwakvBlockPool  # noqa: E402

TOKENS, LAYERS = 16, 2
SEQUENCES, LONGEST, KEYS = 32, 500, 48

Row = tuple[int, int, list[int], int]  # key, length before the step, blocks, position whose K and V are written


# ---- the worker ------------------------------------------------------------------------------


class Model:
    """Writes one row a sequence and layer, and reads all rows through the block table."""

    def __init__(self, share: memory.Share, device: str) -> None:
        self.device, self.bytes = device, share.model.groups[0].k_bytes * TOKENS
        self.width = self.bytes // (LAYERS * 2 * TOKENS * 4)
        pool = memory.buffer(share)
        n = pool.numel() // self.bytes
        shape, whole = (n, 2, TOKENS, self.width), torch.empty(n, LAYERS, 2, TOKENS, self.width, device="meta")
        views = {f"layer{i}": whole[:, i] for i in range(LAYERS)}
        self.layers = list(memory.place(views, pool).values())
        assert all(layer.shape == shape and layer.stride(0) * 4 == self.bytes for layer in self.layers)
        # What memory.report() looks at.
        compilation = {"layer": type("Layer", (), {"kv_cache": self.layers[0]})()}
        self.model_runner = type("Runner", (), {})()
        self.model_runner.compilation_config = type("Config", (), {"static_forward_context": compilation})()

    def values(self, keys: torch.Tensor, positions: torch.Tensor, layer: int) -> torch.Tensor:
        """Whole numbers that float32 holds: [..., K and V, width]. keys, positions: of one shape."""
        place = torch.arange(2 * self.width, device=self.device).view(2, self.width)
        mixed = (keys * 7919 + positions * 104729 + layer * 1299709)[..., None, None] + place * 15485863
        return (mixed % 65521 - 32760).to(torch.float32)

    def step(self, rows: list[Row], null: int) -> tuple[int, int]:
        """How many values were compared, and how many were wrong."""
        if not rows:
            return 0, 0
        most = max(len(blocks) for _, _, blocks, _ in rows)
        table = torch.tensor([blocks + [null] * (most - len(blocks)) for _, _, blocks, _ in rows], device=self.device)
        keys = torch.tensor([key for key, *_ in rows], device=self.device)
        last = torch.tensor([position for *_, position in rows], device=self.device)
        block = table.gather(1, (last // TOKENS)[:, None])[:, 0]
        positions = torch.arange(most * TOKENS, device=self.device).expand(len(rows), -1)
        there = positions <= last[:, None]
        checked, wrong = 0, torch.zeros((), dtype=torch.int64, device=self.device)
        for i, layer in enumerate(self.layers):
            layer[block, :, last % TOKENS] = self.values(keys, last, i)
            read = layer[table].transpose(2, 3).reshape(len(rows), most * TOKENS, 2, self.width)
            right = self.values(keys[:, None].expand_as(positions), positions, i)
            wrong += ((read != right).any(-1).any(-1) & there).sum() * 2 * self.width
            # Attention reads what it masks: a NaN there would spread.
            weight = (there / there.sum(1, keepdim=True)).to(torch.float32)
            spread = torch.einsum("sp,spd->sd", weight, read[:, :, 1])
            wrong += (~spread.isfinite()).sum()
            checked += int(there.sum()) * 2 * self.width + spread.numel()
        return checked, int(wrong)


def work(pipe: Connection, share: memory.Share, device: str) -> None:
    model = Model(share, device)
    pipe.send(memory.report(model))
    while True:
        rows, null = pipe.recv()
        pipe.send(model.step(rows, null))


# ---- the process that plans ------------------------------------------------------------------------


@dataclass(eq=False)
class Sequence:
    key: int
    end: int
    blocks: list[Any] = field(default_factory=list)
    length: int = 0  # tokens whose K and V are in its blocks, once what is under way has ended


class Planner:
    """As vLLM's scheduler: prefix cache, preemption, and blocks that are taken before they are counted."""

    def __init__(self, pool: SwakvBlockPool, seed: int) -> None:
        self.pool, self.random = pool, random.Random(seed)
        self.sequences = [self.fresh() for _ in range(SEQUENCES)]
        self.preempted = self.hits = 0

    def fresh(self) -> Sequence:
        """A sequence that begins with those of its blocks that the cache still has."""
        s = Sequence(self.random.randrange(KEYS), self.random.randrange(TOKENS, LONGEST))
        while s.length + TOKENS < s.end:
            block = self.pool.cached_block_hash_to_block.get_one_block(self.hash(s, len(s.blocks)))
            if block is None:
                break
            self.pool.touch([block])
            s.blocks.append(block)
            s.length += TOKENS
            self.hits += 1
        return s

    @staticmethod
    def hash(s: Sequence, i: int) -> Any:
        return b"%020d%010d" % (s.key, i) + b"\0\0\0\0"

    def replace(self, s: Sequence) -> None:
        self.pool.free_blocks(reversed(s.blocks))
        self.sequences[self.sequences.index(s)] = self.fresh()

    def stop(self) -> None:
        """Nothing is under way."""
        for s in self.sequences:
            self.pool.free_blocks(reversed(s.blocks))
        self.sequences = []

    def expected(self, most: int) -> int:
        """Blocks for as many tokens of each sequence as a block has."""
        return min(len(self.sequences), most)

    def rows(self) -> list[Row]:
        """One step: what lacks a block and cannot have one waits, and the youngest that others wait for is preempted."""
        self.pool.expect(self.expected)
        found, waits = [], False
        for s in self.sequences:
            if s.length == len(s.blocks) * TOKENS:
                self.pool.want(1)
                if not self.pool.get_num_free_blocks():
                    waits = True
                    continue
                s.blocks += self.pool.get_new_blocks(1)
            found.append((s.key, s.length, [b.block_id for b in s.blocks], s.length))
            s.length += 1
            if s.length % TOKENS == 0:
                block, i = s.blocks[-1], len(s.blocks) - 1
                if block.block_hash is None:
                    self.pool._insert_block_hash(self.hash(s, i), block, num_tokens=s.length)
        if waits and not found:
            youngest = min((s for s in self.sequences if s.blocks), key=lambda s: s.length, default=None)
            if youngest is not None:
                self.preempted += 1
                self.replace(youngest)
        return found

    def end(self) -> None:
        """Called when the step has begun, which may still touch blocks of sequences that end with it."""
        for s in [s for s in self.sequences if s.length == s.end]:
            self.replace(s)


class Inbox:
    """The queue of an EngineCore."""

    def __init__(self) -> None:
        self.input_queue: queue.Queue[Any] = queue.Queue()


def main() -> None:
    broker, device, name, seed, steps, block_bytes = sys.argv[1:7]
    index = torch.device(device).index or 0
    block = plan.Block(int(block_bytes), TOKENS)
    asked = settings.Settings(broker, name, True)
    core = engine.Engine(asked, block, block.model(name, "decode loop"), None, index)
    SwakvBlockPool.attach(core.holder, core.steps, 0)
    core.pool = SwakvBlockPool(core.num_pages, True, TOKENS)
    inbox = Inbox()
    core.watch(inbox, "wakeup")
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    worker = context.Process(target=work, args=(theirs, core.share, device), daemon=True)
    worker.start()
    theirs.close()
    engine._check_workers(core, [pipe.recv()])
    planner, checked, wrong, most, under_way = Planner(core.pool, int(seed)), 0, 0, 0, 0

    def collect() -> None:
        nonlocal checked, wrong, under_way
        n, bad = pipe.recv()
        checked, wrong, under_way = checked + n, wrong + bad, under_way - 1
        core.steps.ended += 1

    step = 0
    while step < int(steps) or (steps == "0" and not select.select([sys.stdin], [], [], 0)[0]):
        while not inbox.input_queue.empty():
            inbox.input_queue.get()
        core.tend()
        rows = planner.rows()
        if not rows:  # all lack a block: no step, as in vLLM
            if under_way:
                collect()
            time.sleep(0.001)
            continue
        step += 1
        pipe.send((rows, core.pool.null_block.block_id))
        core.steps.begun += 1
        planner.end()
        under_way += 1
        if under_way == 2:
            collect()
        most = max(most, core.holder.held - core.pool.get_num_free_blocks())
        if step % 10 == 0:
            said = dict(
                step=step, checked=checked, wrong=wrong, most=most, hits=planner.hits, preempted=planner.preempted,
                given=core.holder.given, pages=core.num_pages, worker=worker.pid,
            )  # fmt: skip
            print(json.dumps(said), flush=True)
    while under_way:
        collect()
    planner.stop()
    assert core.pool.reset_prefix_cache(), "nothing refers to a block"
    print(json.dumps(dict(done=True, checked=checked, wrong=wrong, given=core.holder.given, held=core.holder.held)), flush=True)


if __name__ == "__main__":
    main()
