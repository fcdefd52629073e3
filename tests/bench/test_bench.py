#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""swakv-bench prints the figures it promises, leaves nothing behind, and a flooder costs its neighbour no rounds."""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

BENCH, SWAKVD = sys.argv[1], sys.argv[2]


def bench(*arguments):
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True, check=False,
                          env={**os.environ, "SWAKVD": SWAKVD})


def figures(*arguments):
    done = bench("--json", "--quick", *arguments)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.stderr}")
    return json.loads(done.stdout)


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "two CPUs are needed")
class Bench(unittest.TestCase):
    def test_figures_have_medians_quartiles_and_ratios(self):
        f = figures("--only", "noop")
        for key in ("noop_ns", "noop_low_ns", "noop_high_ns", "noop_ratio", "noop_spin_ns", "noop_p50_ns",
                    "noop_p99_ns", "noop_p999_ns", "noop_system_calls"):
            self.assertIn(key, f)
        self.assertLessEqual(f["noop_low_ns"], f["noop_ns"])
        self.assertLessEqual(f["noop_ns"], f["noop_high_ns"])
        self.assertGreater(f["noop_ratio"], 0)
        self.assertGreaterEqual(f["noop_samples"] + f["noop_dropped"], 1)

    def test_a_step_in_one_message_is_measured(self):
        f = figures("--only", "turn")
        for name in ("turn_1", "turn_256", "turn_256_requests"):
            self.assertGreater(f[name + "_ratio"], 0)

    def test_a_step_of_milliseconds_is_measured(self):
        f = figures("--only", "step_5ms")
        for name in ("turn", "calls", "bell"):
            self.assertGreater(f[f"step_5ms_{name}_ns"], 0)
        self.assertGreaterEqual(f["step_5ms_turn_rings"], 0)

    def test_takes_and_gives_are_measured_beside_a_command_that_does_nothing(self):
        f = figures("--only", "pages")
        for name in ("take_1", "give_1", "take_64", "give_64", "take_4096", "give_4096"):
            self.assertGreater(f[name + "_ratio"], 0)
            self.assertGreater(f[name + "_over_noop"], 0)

    def test_a_command_beside_a_flooder_waits_at_most_two_rounds(self):
        f = figures("--only", "victim")
        self.assertGreaterEqual(f["victim_rounds"], 1)
        self.assertLessEqual(f["victim_rounds"], 2)

    def test_a_neighbour_of_millions_of_pages_is_measured(self):
        f = figures("--only", "long")
        self.assertGreaterEqual(f["long_pages"], 2000000)
        self.assertGreater(f["long_requests_per_s"], 0)
        self.assertGreater(f["long_over_quiet"], 0)
        self.assertGreaterEqual(f["long_longest_ns"], f["long_p99_ns"])

    def test_each_of_64_workers_is_served_in_one_of_two_rounds(self):
        f = figures("--only", "workers")
        self.assertGreater(f["workers_64_commands_per_s"], 0)
        self.assertLessEqual(f["workers_64_rounds"], 2)

    def test_no_wakeup_is_lost_in_many_sleeps(self):
        done = bench("--json", "--soak", "5000")
        self.assertEqual(done.returncode, 0, done.stderr)
        f = json.loads(done.stdout)
        self.assertEqual(f["soak_rescues"], 0)
        self.assertGreaterEqual(f["soak_broker_sleeps"] + f["soak_worker_sleeps"], 5000)
        self.assertGreater(f["soak_broker_sleeps"], 200)
        self.assertGreater(f["soak_worker_sleeps"], 200)

    def test_it_leaves_nothing_behind(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.Popen([BENCH, "--quick", "--only", "attach"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True, env={**os.environ, "SWAKVD": SWAKVD, "TMPDIR": folder})
            _, said = done.communicate()
            self.assertEqual(done.returncode, 0, said)
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(glob.glob(f"/dev/shm/swakv-*-{done.pid}-*"), [])

    def test_a_picture_has_its_curves(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bench.svg")
            done = bench("--quick", "--only", "noop", "--plot", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as f:
                svg = f.read()
        self.assertIn("<polyline", svg)
        self.assertTrue(svg.rstrip().endswith("</svg>"))

    def test_wrong_usage_says_so(self):
        for arguments in (["--cpus", "x"], ["--nonsense"], ["extra"]):
            with self.subTest(arguments):
                self.assertEqual(bench(*arguments).returncode, 2)

    def test_options_that_would_be_ignored_are_wrong_usage(self):
        for arguments, sentence in ((["--only", "nosuch"], "nosuch"), (["--pool", "1G"], "--density"),
                                    (["--window", "64", "--only", "noop"], "--density"),
                                    (["--density", "--soak", "5"], "--soak"), (["--plot", "x", "--soak", "5"], "--soak"),
                                    (["--plot", "x", "--density"], "--density")):
            with self.subTest(arguments):
                done = bench(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(sentence, done.stderr)


unittest.main(argv=sys.argv[:1], verbosity=2)
