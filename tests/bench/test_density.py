#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""swakv-bench --density counts what a slow count of the same rows finds, and the bounded advance holds its factor."""
import csv
import json
import math
import subprocess
import sys
import tempfile
import unittest

BENCH, SAMPLE = sys.argv[1], sys.argv[2]
WAYS = ("full", "any", "max_advance_1", "any_max_tokens", "max_advance_1_max_tokens", "on_demand")
TOKEN_BYTES = 52 * 16 * 128 * 2 * 2


def bench(*arguments):
    return subprocess.run([BENCH, "--density", *map(str, arguments)], capture_output=True, text=True, check=False)


def density(trace, *arguments):
    done = bench("--trace", trace, "--json", *arguments)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def ceil(a, b):
    return -(-a // b)


def rows_of(path):
    with open(path, encoding="utf-8") as f:
        lines = [line for line in f if not line.startswith("#")]
    rows = [(int(r["ContextTokens"]), int(r["GeneratedTokens"])) for r in csv.DictReader(lines)]
    return [row for row in rows if row[1] > 0]


def mapped(endpoint, w, p):
    return ceil(endpoint, p) - max(0, endpoint - w) // p


def needs(index, row, w, p, max_seq, in_flight, max_rewind):
    """Pages of a row in each way, by the rules as they are written down."""
    context, generated = row
    width, final = ceil(max_seq, p), ceil(context + generated, p)
    golden = 0.61803398874989485 * (index + 1)
    endpoint = context + 1 + int((golden - math.floor(golden)) * generated)
    any_step = min(2 * (ceil(w, p) + 1) + 1, width)
    one = min(ceil(w + max_rewind, p) + 1, width)
    needed = mapped(endpoint, w, p)
    return {"full": final, "any": any_step, "max_advance_1": one, "any_max_tokens": min(any_step, final),
            "max_advance_1_max_tokens": min(one, final), "on_demand": needed}


def fitting(need, pages):
    """Mean over all first rows of how many rows in order fit."""
    total = 0
    for first in range(len(need)):
        left, i = pages, first
        while need[i % len(need)] <= left:
            left -= need[i % len(need)]
            i += 1
        total += i - first
    return total / len(need)


def preempted(rows, pages, w, p):
    """Sequences that lose their pages when rows join in order as soon as there is room; the last to come gives way."""
    waiting, live, lost = list(range(len(rows))), {}, 0

    def used():
        return sum(mapped(e, w, p) for e in live.values())

    while waiting or live:
        while waiting and (not live or used() + mapped(rows[waiting[0]][0] + 1, w, p) <= pages):
            row = waiting.pop(0)
            live[row] = rows[row][0] + 1
        live = {row: e + 1 for row, e in live.items() if e < sum(rows[row])}
        while used() > pages and len(live) > 1:
            row = list(live)[-1]
            del live[row]
            waiting = sorted([row, *waiting])
            lost += 1
    return 1000 * lost / len(rows)


class Density(unittest.TestCase):
    def check(self, trace, pool=64 << 30, w=1024, p=128, max_seq=32768, in_flight=2, max_rewind=0):
        got = density(trace, "--pool", pool, "--window", w, "--page-tokens", p, "--max-seq", max_seq, "--in-flight",
                      in_flight, "--max-rewind", max_rewind)
        rows = rows_of(trace)
        pages = pool // (p * TOKEN_BYTES)
        need = [needs(i, row, w, p, max_seq, in_flight, max_rewind) for i, row in enumerate(rows)]
        self.assertEqual((got["rows"], got["pool_pages"], got["page_bytes"]), (len(rows), pages, p * TOKEN_BYTES))
        for way in WAYS:
            column = [n[way] for n in need]
            self.assertAlmostEqual(got[way]["sequences"], fitting(column, pages), places=4, msg=way)
            self.assertAlmostEqual(got[way]["pages_per_sequence"], sum(column) / len(column), places=4, msg=way)

    def check_preempted(self, trace, pages, w, p):
        got = density(trace, "--pool", pages * p * TOKEN_BYTES, "--window", w, "--page-tokens", p)
        self.assertAlmostEqual(got["on_demand"]["preempted_per_1000"], preempted(rows_of(trace), pages, w, p), places=4)
        return got["on_demand"]["preempted_per_1000"]

    def test_sequences_that_lose_their_pages_are_counted(self):
        self.check_preempted(SAMPLE, 1260, 1024, 128)
        self.assertGreater(self.check_preempted(SAMPLE, 60, 1024, 128), 0)
        self.assertGreater(self.check_preempted(self.trace(*[(10, 300)] * 40), 100, 1024, 16), 0)
        self.check_preempted(self.trace((4000, 50), (10, 10)), 1, 1024, 16)  # no row fits: one at a time

    def test_the_sample_counts_as_a_slow_count(self):
        self.check(SAMPLE)

    def test_other_windows_pages_pools_and_steps_count_as_well(self):
        self.check(SAMPLE, w=128, p=16)
        self.check(SAMPLE, w=2047, p=256, in_flight=7, max_rewind=100)
        self.check(SAMPLE, pool=1 << 40)  # more than all rows once
        self.check(SAMPLE, pool=10 * 128 * TOKEN_BYTES)
        self.check(SAMPLE, pool=1)
        self.check(SAMPLE, w=10 ** 6, max_seq=8192)

    def test_a_bounded_advance_fits_1_8_times_as_many(self):
        got = density(SAMPLE)
        self.assertGreaterEqual(got["max_advance_1"]["sequences"], 1.8 * got["any"]["sequences"])
        self.assertGreaterEqual(got["on_demand"]["sequences"], got["max_advance_1_max_tokens"]["sequences"])

    def trace(self, *lines):
        f = tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8")
        self.addCleanup(f.close)
        f.write("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(f"t,{c},{g}\n" for c, g in lines))
        f.flush()
        return f.name

    def test_rows_without_output_never_decode(self):
        got = density(self.trace((100, 0), (5000, 10), (7, 0), (200, 1)))
        self.assertEqual((got["rows"], got["rows_without_output"]), (2, 2))
        self.check(self.trace((100, 0), (5000, 10), (7, 0), (200, 1)))

    def test_traces_that_cannot_be_counted(self):
        for trace, sentence in ((self.trace((100, 0)), "no row has output"),
                                (self.trace((5, 5), (30000, 3000)), "row 2 has 33000 tokens, --max-seq allows 32768"),
                                ("/nonexistent.csv", "No such file")):
            with self.subTest(sentence):
                done = bench("--trace", trace)
                self.assertEqual(done.returncode, 1)
                self.assertIn(sentence, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_wrong_usage_says_so(self):
        for arguments in ([], ["--trace", SAMPLE, "--page-tokens", "100"], ["--trace", SAMPLE, "--window", "0"],
                          ["--trace", SAMPLE, "--pool", "much"], ["--trace", SAMPLE, "--in-flight", "-1"],
                          ["--trace", SAMPLE, "--max-seq", "9999999999"], ["--trace", SAMPLE, "--max-rewind", "1x"]):
            with self.subTest(arguments):
                done = bench(*arguments)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertNotEqual(done.stderr, "")


unittest.main(argv=sys.argv[:1], verbosity=2)
