# SPDX-License-Identifier: Apache-2.0
"""processes - real brokers and workers for the process tests

Programs come from the build folder in $SWAKV_BUILD. Everything a test starts
ends with it: use Broker as a context manager, and start workers through it.
Each broker has its own run-time folder and an instance name of its own, so
tests run beside each other.
"""
import contextlib
import itertools
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SWAKV_BUILD", ROOT / "build-tests")).resolve()
PROGRAMS = {
    "swakvd": "broker/swakvd",
    "swakv-ctl": "tools/ctl/swakv-ctl",
    "swakv-status": "tools/status/swakv-status",
    "swakv-demo-worker": "tools/demo/swakv-demo-worker",
}
SKIP = 77
STALE, STUCK = 4, 5  # of swakv-status

# Two models of different page size, decoding until they are told to end.
DEMO_SMALL = ("--preset", "gemma3-1b", "--scale", "22", "--batch", "4", "--max-decode", "200", "--loop", "--quiet",
              "--trace", str(ROOT / "tools/demo/sample-trace.csv"), "--poison", "--time-limit", "600")
DEMO_OTHER = (*DEMO_SMALL, "--preset", "gpt-oss-20b", "--scale", "12")

# How long a test waits before it gives up. Never a claim about speed.
PATIENCE = 60


def program(name):
    path = BUILD / PROGRAMS.get(name, name)
    if not path.exists():
        sys.exit(f"there is no {path}: build first, or set SWAKV_BUILD")
    return str(path)


def check(condition, *what):
    """A failed check ends the test with what was wrong."""
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what))


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def wait_until(condition, what, patience=PATIENCE):
    """Polls until @condition() is true and returns its value."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < end, f"waited {patience} s for:", what)
        time.sleep(0.02)


def awake(ask):
    """What ask() is told by swakv-status while the broker's threads run: those of a busy machine may look stuck."""
    return wait_until(lambda: (d := ask()).returncode not in (STALE, STUCK) and d, "the broker's threads to run")


def read_all(fd, line=False):
    """What comes from @fd until it is closed at the other end: then that descriptor is out of the count, too. @line:
    or until a line has come, where somebody else keeps it open."""
    said = b""
    while select.select([fd], [], [], PATIENCE)[0]:
        piece = os.read(fd, 64)
        said += piece
        if not piece or (line and said.endswith(b"\n")):
            return said
    return b""


def threads(pid):
    """[(name, state, how often it has slept)] of the threads of @pid, but those that end meanwhile."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
            found.append((fields["Name"].strip(), fields["State"].split()[0], int(fields["voluntary_ctxt_switches"])))
    return found


def pause(process):
    """Stops @process, and returns when all its threads stand still or have ended."""
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: all(state in "TZX" for _, state, _ in threads(process.pid)), "a process to stand still")


class Broker:
    """A private broker on the host backend."""

    counter = itertools.count(1)  # also for tests with threads

    def __init__(self, size="64M", arguments=(), name=None, expect_ready=True, env=None, wrapper=(), beside=False,
                 descriptors=()):
        """@beside: the wrapper stays as its parent. @descriptors: that it inherits."""
        self.name = name or f"test-{os.getpid()}-{next(Broker.counter)}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="swakv-test."))
        self.env = dict(os.environ, XDG_RUNTIME_DIR=str(self.folder), **(env or {}))
        self.log = self.folder / "swakvd.log"
        self.arguments = ["--name", self.name, "--backend", "host", "--size", size,
                          "--min-page-bytes", "16", *arguments]
        self.workers = []
        self.process = None
        self.expect_ready = expect_ready
        self.wrapper = wrapper
        self.beside = beside
        self.descriptors = descriptors

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def start(self):
        ready, ready_child = os.pipe()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, program("swakvd"), *self.arguments, "-n", str(ready_child)], env=self.env,
                pass_fds=[ready_child, *self.descriptors], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        os.close(ready_child)
        try:
            if self.expect_ready:
                said = read_all(ready, line=self.beside)
                check(said, "the broker did not get ready:", self.text())
        finally:
            os.close(ready)

    def __exit__(self, kind, error, trace):
        for worker in self.workers:
            end(worker)
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGCONT)
            end(self.process)
        if kind is not None and kind is not SystemExit:
            print(f"--- log of broker {self.name}:\n{self.text()}", file=sys.stderr)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.expect_ready:  # otherwise the name may be another broker's
            pathlib.Path(f"/dev/shm/swakv-{self.name}").unlink(missing_ok=True)

    @property
    def socket_path(self):
        return str(self.folder / "swakv" / f"{self.name}.sock")

    @property
    def pid(self):
        return self.process.pid

    def log_is_written(self):
        """True when the thread that writes the log sleeps: a line that waited for it would keep it awake. At the start it may
        not have its name yet."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            states = {name: state for name, state, _ in threads(self.pid)}
            if "swakvd-log" in states:
                return states["swakvd-log"] not in "RD"
            return self.process.poll() is not None or "swakvd" not in states
        return True

    def text(self):
        """Its log, of all that it has done so far."""
        if self.process and self.process.poll() is None:
            wait_until(self.log_is_written, "the log to be written")
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def says(self, words):
        """Waits for @words in its log: status may show what has happened before the line of it is written."""
        wait_until(lambda: words in self.text(), f"the log to say: {words}")

    def stop(self):
        """An orderly stop; returns the exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)

    # ---- what it shows ----

    def status_command(self, *arguments):
        return subprocess.run([program("swakv-status"), "--name", self.name, *arguments], env=self.env, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def shown(self, *arguments):
        """What swakv-status prints of it while it runs; at its very start it has shown nothing yet."""
        done = awake(lambda: self.status_command(*arguments))
        check(done.returncode == 0, "swakv-status", *arguments, "said", done.returncode, done.stdout, done.stderr)
        return done.stdout

    def status(self):
        """Its page, with all that had happened before this call: a picture from before it is no answer, since in it a
        worker may not even have come yet. Threads that a busy machine does not run for seconds look stuck: they are
        given the time."""
        begun = time.monotonic()
        time.sleep(0.002)  # the age of a picture is told in whole milliseconds
        # An administrator's command has a picture drawn soon; without one it is twice a second where nothing happens.
        subprocess.run([program("swakv-ctl"), "--name", self.name, "--timeout", "1", "list"], env=self.env, check=False,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return wait_until(lambda: self._page_since(begun), "the broker to show what it does now")

    def _page_since(self, begun):
        """Its page, None while its threads look stuck or its picture may be older than @begun."""
        read_at = time.monotonic()
        result = self.status_command("--json")
        if result.returncode in (STALE, STUCK):
            return None
        check(result.returncode == 0, "swakv-status said", result.returncode, result.stderr)
        page = json.loads(result.stdout)
        return page if read_at - (page["age_ms"] + 1) / 1000 >= begun else None

    def idle(self):
        """True when no session is left and all pages are free."""
        now = self.status()
        return not now["sessions"] and all(c["pages"]["free"] == c["pages"]["total"] for c in now["classes"])

    # Who has just gone, an administrator that has asked, a page in place of another: they are still about to be closed
    # or unmapped when whoever waits for them goes on. @beside: workers that keep its ring thread awake.

    def rests(self, beside=False):
        """Waits until its threads sleep: what had come is done, and what that left behind is closed."""
        def sleeps():
            first = threads(self.pid)
            return all(state == "S" for name, state, _ in first if not (beside and name == "swakvd-ring")) and \
                (beside or threads(self.pid) == first)
        wait_until(sleeps, "the broker's threads to sleep")

    def n_fds(self, beside=False):
        self.rests(beside)
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def n_maps(self, beside=False):
        self.rests(beside)
        with open(f"/proc/{self.pid}/maps", encoding="utf-8", errors="replace") as maps:
            return len(maps.readlines())

    def pause(self):
        """Returns when all its threads stand still: of a process that is told to stop the first one may do so before the
        others."""
        pause(self.process)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    # ---- workers ----

    def worker(self, *arguments, executable="swakv-demo-worker", wrapper=(), **options):
        """Starts a demo worker, or another executable; it ends with the broker's block."""
        command = [*wrapper, program(executable), "--broker", self.name, *arguments]
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.DEVNULL)
        options.setdefault("stderr", subprocess.DEVNULL)
        process = subprocess.Popen(command, env=self.env, **options)
        self.workers.append(process)
        return process


def check_sums(status):
    """The page counts of one picture agree with each other."""
    check(status["invariant"] == {"holds": True, "violation": ""}, status["invariant"])
    check(status["counters"]["rescues"] == 0, status["counters"]["rescues"], "wake-ups were lost")
    for c in status["classes"]:
        pages = c["pages"]
        check(pages["free"] + pages["leased"] + pages["quarantined"] == pages["total"], "class counts differ:", c)
        held = sum(g["held"] for s in status["sessions"] for g in s["model"]["groups"] if g["class"] == c["index"])
        check(held == pages["leased"] + pages["quarantined"], "pages of the sessions:", held, "of the class:", c)
    for key in ("leased", "quarantined"):
        of_sessions = sum(s["pages"][key] for s in status["sessions"])
        of_classes = sum(c["pages"][key] for c in status["classes"])
        check(of_sessions == of_classes, key, "pages of the sessions:", of_sessions, "of the classes:", of_classes)
    pool = status["pool"]["bytes"]
    check(pool["held"] + pool["free"] + pool["unusable"] == pool["total"], "bytes differ:", pool)
    held = sum(c["pages"]["total"] * c["page_bytes"] * (1 if c["form"] == "joined" else 2) for c in status["classes"])
    check(held == pool["held"], "bytes of the pages of all classes:", held, pool)
    lent, extents = pool["held"] + pool["unusable"], 2 * sum(c["extents"] for c in status["classes"]) * pool["extent"]
    # The pool's last extent may be a short one.
    check(extents - 2 * pool["extent"] < lent <= extents or lent == 0 == extents, "extents:", pool)


def check_right(said):
    """What a demo worker wrote to stderr until it was killed: until then, too, its results had to be right."""
    wrong = [line for line in said.splitlines() if "MISMATCH" in line or "WRONG" in line]
    check(not wrong, "a worker that was killed had seen:", wrong[:3])


def end(process):
    if process.poll() is None:
        process.kill()
    process.wait()


def main(test):
    """Runs @test(); says what failed; exits."""
    try:
        test()
    except AssertionError as why:
        print(f"FAIL: {why}", file=sys.stderr)
        sys.exit(1)
