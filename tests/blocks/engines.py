# SPDX-License-Identifier: Apache-2.0
"""engines - block engines (block_engine.c) of two processes each, for the tests here

With --cuda a test runs on the CUDA backend: over the fake driver, or the library
that tests/gpu/run names. With --joined its engines have joined pages.
"""
import argparse
import os
import pathlib
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fault"))
from processes import PATIENCE, Broker, check

# isort: split
from cuda import CudaBroker, need_cuda


def arguments(doc):
    parser = argparse.ArgumentParser(usage=doc)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--joined", action="store_true")
    given = parser.parse_args()
    if given.cuda:
        need_cuda()
    return given


def broker(cuda, size, *more):
    return CudaBroker(size=size, arguments=more) if cuda else Broker(size=size, arguments=more)


class Engine:
    """A block engine that does what it is told, a line at a time."""

    def __init__(self, where, name, joined, *more):
        self.name = name
        form = ["--joined"] if joined else []
        self.process = where.worker("--name", name, *form, *more, executable="tests/blocks/block_engine",
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.where = where
        self.text = b""
        self.hands = 0
        self.hands, self.pool_pages = (int(word) for word in self.hear("ready"))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        """Its second process outlives the first: it is ended by its number, which nobody has had since."""
        self.kill_hands()

    @property
    def pid(self):
        return self.process.pid

    def tell(self, line):
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def line(self, what):
        end = time.monotonic() + PATIENCE
        while b"\n" not in self.text:
            readable, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            check(readable, f"{self.name} did not say '{what}' within {PATIENCE} s")
            some = os.read(self.process.stdout.fileno(), 1 << 16)
            if not some:
                raise AssertionError(f"{self.name} ended before it said '{what}': {self.errors()}")
            self.text += some
        said, self.text = self.text.split(b"\n", 1)
        return said.decode()

    def hear(self, first):
        """The words behind @first of its next answer."""
        said = self.line(first)
        if said.split()[:1] != [first]:
            self.process.kill()
            raise AssertionError(f"{self.name} said '{said}' where '{first}' was expected: {self.errors()}")
        return said.split()[1:]

    def ask(self, line, first):
        self.tell(line)
        return [int(word) for word in self.hear(first)]

    def errors(self):
        """What it wrote to stderr, once both of its processes have ended."""
        self.kill_hands()
        return self.process.communicate(timeout=PATIENCE)[1].decode()

    def session(self):
        """Its session in the status; None: it has none any more."""
        return next((s for s in self.where.status()["sessions"] if s["pid"] == self.pid), None)

    def held(self):
        session = self.session()
        return session["pages"]["leased"] + session["pages"]["quarantined"] if session else 0

    def kill(self):
        """The first process."""
        self.process.kill()
        self.process.wait()
        check(self.process.returncode == -signal.SIGKILL, f"{self.name} had ended by itself:", self.process.returncode)

    def kill_hands(self):
        if self.hands:
            try:
                os.kill(self.hands, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.hands = 0

    def hands_live(self):
        """True while its second process is there and is no corpse that nobody has fetched."""
        try:
            stat = pathlib.Path(f"/proc/{self.hands}/stat").read_text(encoding="utf-8")
        except FileNotFoundError:
            return False
        return stat.rsplit(")", 1)[1].split()[0] not in "ZX"

    def end(self):
        """Its stdin ends, and so does it, in order."""
        self.process.stdin.close()
        self.process.stdin = None
        code = self.process.wait(PATIENCE)
        if code != 0:
            raise AssertionError(f"{self.name} ended with {code}: {self.errors()}")
