# SPDX-License-Identifier: Apache-2.0
"""workers - page workers and what they answer, for the tests of tests/gpu"""
import os
import pathlib
import select
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fault"))
from processes import check

PATIENCE = 60


class Hand:
    """A page worker (page_worker.c) that does what it is told, a line at a time."""

    def __init__(self, broker, name, **options):
        arguments = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        self.name = name
        self.process = broker.worker("--name", name, *arguments, executable="tests/gpu/page_worker",
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None)
        self.broker = broker
        self.text = b""
        self.pages = []

    @property
    def pid(self):
        return self.process.pid

    def tell(self, line):
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def hear(self, first, patience=PATIENCE):
        """The words behind @first of its next answer."""
        end = time.monotonic() + patience
        while b"\n" not in self.text:
            readable, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            check(readable, f"{self.name} did not say '{first}' within {patience} s")
            some = os.read(self.process.stdout.fileno(), 1 << 16)
            check(some, f"{self.name} ended before it said '{first}'")
            self.text += some
        line, self.text = self.text.split(b"\n", 1)
        words = line.decode().split()
        check(words and words[0] == first, f"{self.name} said '{line.decode()}' where '{first}' was expected")
        return words[1:]

    def ask(self, line, first, patience=PATIENCE):
        self.tell(line)
        return self.hear(first, patience)

    def take(self, how):
        self.pages = [int(page) for page in self.ask(f"take {how}", "pages")]
        return self.pages

    def watch(self, milliseconds):
        """(sweeps, milliseconds, {page: elements that changed, over all sweeps}); at most 8 pages are named."""
        words = self.ask(f"watch {milliseconds}", "watched", PATIENCE + milliseconds / 1000)
        changed = {int(page): int(n) for page, n in (word.split(":") for word in words[3:])}
        check(int(words[2]) == 0 or changed, "changed pages without a name:", words)
        return int(words[0]), float(words[1]), changed

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.broker.workers.remove(self.process)

    def end(self):
        """Its stdin ends, and so does it; returns the exit code."""
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self.broker.workers.remove(self.process)
        return code
