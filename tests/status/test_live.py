#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""swakv-status against a real broker with two working workers: what it says of requests agrees with itself."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fault"))
from processes import pause

TOOL = os.environ["SWAKV_STATUS"]
BROKER = os.environ["SWAKVD"]
WORKER = os.environ["SWAKV_DEMO_WORKER"]
TRACE = os.environ["DEMO_TRACE"]
NAME = "status-live-%d" % os.getpid()
SAMPLES, PICTURES = 300, 20  # at least


def status(*arguments):
    """What the tool says; a machine too busy to let the broker run in time (stale, stuck) is no fault here."""
    r = subprocess.run([TOOL, "--name", NAME, "--json", *arguments], capture_output=True, check=False, text=True)
    if r.returncode not in (0, 4, 5):
        raise RuntimeError("swakv-status ended with %d: %s" % (r.returncode, r.stderr))
    return json.loads(r.stdout)


class Live(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": self.folder.name}
        ready, write_end = os.pipe()
        self.log = open(os.path.join(self.folder.name, "log"), "w+")
        self.broker = subprocess.Popen(
            [BROKER, "--name", NAME, "--backend", "host", "--size", "64M", "--ready-fd", str(write_end)],
            env=self.environment, stderr=self.log, pass_fds=[write_end])
        os.close(write_end)
        self.assertTrue(os.read(ready, 100), "the broker did not get ready")
        os.close(ready)
        self.workers = [self.worker("gpt-oss-20b", 4), self.worker("gemma3-1b", 3)]

    def worker(self, preset, batch):
        return subprocess.Popen(
            [WORKER, "--broker", NAME, "--preset", preset, "--scale", "8", "--trace", TRACE, "--loop", "--batch",
             str(batch), "--max-decode", "40", "--time-limit", "600", "--quiet"],
            env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def tearDown(self):
        for process in [*self.workers, self.broker]:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.log.close()
        self.folder.cleanup()
        if os.path.exists("/dev/shm/swakv-" + NAME):
            os.unlink("/dev/shm/swakv-" + NAME)

    def wait_for(self, what):
        while True:
            self.assertIsNone(self.broker.poll(), "the broker ended")
            page = status("--request")
            if "pool" in page and what(page):
                return page
            time.sleep(0.02)

    def check_session(self, page, session):
        requests = [r for r in page["requests"] if r["session"] == session["id"]]
        self.assertEqual(len(requests), session["requests"])
        self.assertEqual(sum(r["n_sequences"] for r in requests), session["sequences"])
        sequences = [(r, q) for r in requests for q in r["sequences"]]
        held = sum(q["bound"] + q["reserved"] + q["retiring"] + q["staged"] for _, q in sequences)
        self.assertLessEqual(held, session["pages"]["leased"])
        groups = session["model"]["groups"]
        slots = [q["slot"] for _, q in sequences if q["group"] == 0]
        self.assertEqual(len(slots), len(set(slots)), "a slot in two sequences")
        self.assertEqual(len(sequences), len(groups) * session["sequences"])
        pages = [(groups[q["group"]]["class"], page_id) for _, q in sequences for _, page_id in q["bindings"]]
        self.assertEqual(len(pages), len(set(pages)), "a page bound twice in one class")
        for r, q in sequences:
            logical = [number for number, _ in q["bindings"]]
            self.assertEqual(len(logical), q["bound"] + q["retiring"])
            if r["pending"] == "none":
                self.assertEqual(logical, list(range(q["retained_begin"], q["retained_end"])))
                self.assertIsNone(q["pending_endpoint"])
                group = groups[q["group"]]
                tokens, window = group["page_tokens"], group["window"] or q["endpoint"]
                self.assertEqual(q["retained_end"], -(-q["endpoint"] // tokens))
                self.assertEqual(q["retained_begin"], max(0, q["endpoint"] - window) // tokens)

    def test_requests_agree_with_sessions_and_windows(self):
        self.wait_for(lambda p: len(p["sessions"]) == 2 and all(s["sequences"] for s in p["sessions"]))
        phases, numbers, samples = set(), set(), 0
        while samples < SAMPLES or len(numbers) < PICTURES or ("executing", "none") not in phases:
            samples += 1
            page = status("--request")
            self.assertIs(page["truncated"], False)
            for session in page["sessions"]:
                self.check_session(page, session)
            phases |= {(r["phase"], r["pending"]) for r in page["requests"]}
            numbers.add(page["snapshot"])
        self.assertEqual(page["counters"]["rescues"], 0, "a wake-up was lost")

    def test_killed_worker_is_counted_and_gone_from_the_sessions(self):
        self.wait_for(lambda p: len(p["sessions"]) == 2 and all(s["sequences"] for s in p["sessions"]))
        victim = self.workers[0]

        def stopped_with_pages(_):
            """Between two requests it has none. What is drawn when it stands still may be of before: the next one is not."""
            pause(victim)
            before = status()["snapshot"]
            page = self.wait_for(lambda p: p["snapshot"] > before + 1)
            if any(s["pid"] == victim.pid and s["pages"]["leased"] for s in page["sessions"]):
                return True
            victim.send_signal(signal.SIGCONT)
            return False

        self.wait_for(stopped_with_pages)
        victim.kill()
        victim.wait()
        page = self.wait_for(lambda p: all(s["pid"] != victim.pid for s in p["sessions"]))
        self.assertEqual(page["counters"]["deaths"], 1)
        self.assertGreater(page["counters"]["reclaimed_pages"], 0)
        self.assertEqual([c["pages"]["quarantined"] for c in page["classes"]], [0] * len(page["classes"]))

    def test_orderly_stop_is_not_running(self):
        for w in self.workers:
            w.terminate()
            w.wait()
        self.broker.send_signal(signal.SIGTERM)
        self.assertEqual(self.broker.wait(), 0)
        r = subprocess.run([TOOL, "--name", NAME, "--json"], capture_output=True, check=False, text=True)
        self.assertEqual((r.returncode, json.loads(r.stdout)["status"]), (3, "not-running"))


if __name__ == "__main__":
    unittest.main()
