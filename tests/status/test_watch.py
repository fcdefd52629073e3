#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""swakv-status --watch on a terminal: what the screen shows, and what keys do."""
import os
import re
import signal
import subprocess
import unittest

from terminal import Terminal
from test_status import RUNNING, TOOL, Fixture


def watch(f, *arguments, **environment):
    return Terminal([TOOL, "-b", f.name, "--watch=0.05", *arguments], **environment)


def session_rows(text):
    rows = text.split("ID ", 1)[1].splitlines()[1:] if "ID " in text else []
    return [int(m.group(1)) for m in (re.match(r"(\d+) ", row) for row in rows) if m]


class Screen(unittest.TestCase):
    def test_pool_models_sessions_and_keys_are_on_one_screen(self):
        with Fixture("known") as f, watch(f) as t:
            t.wait_for(lambda text: len(session_rows(text)) == 5 and "q quit" in text)
            lines = t.lines()
            t.type("q")
            self.assertEqual(t.wait_end(), RUNNING)
        self.assertTrue(lines[0].startswith(f"broker {f.name}: running for "), lines[0])
        self.assertIn("q quit", lines[-1])
        self.assertIn("s sort: id", lines[-1])
        self.assertTrue(all(len(line) <= 80 for line in lines))
        self.assertTrue(any(re.match(r"2 +1002 gemma +poisoned ", line) for line in lines), lines)
        self.assertTrue(any(line.startswith("gemma ") for line in lines), lines)

    def test_the_drained_are_named(self):
        with Fixture("distinct") as f, watch(f) as t:
            t.wait_for(lambda text: re.search(r"^one .* DRAINED$", text, re.M))
            t.type("q")
            t.wait_end()

    def test_rates_are_those_between_two_snapshots(self):
        with Fixture("rates") as f, watch(f) as t:
            t.wait_for(lambda text: "a second: 3.0k tokens, 500 commands, 20 refused; 1 sessions" in text)
            t.wait_for(lambda text: re.search(r"^one +\[.*\] .* 3\.0k +8us$", text, re.M))
            self.assertEqual(t.lines()[1], "pool [|||||||!!.....] 480.0 KiB of 976.6 KiB leased, 160.0 KiB quarantined")
            t.wait_for(lambda text: re.search(r"^7 +1007 one +attached .* 1\.5k +250$", text, re.M))
            t.type("q")
            t.wait_end()

    def test_no_rate_is_made_up_of_one_snapshot(self):
        with Fixture("frozen") as f, watch(f) as t:
            t.wait_for(lambda text: "a second: - tokens, - commands, - refused; 5 sessions" in text)
            t.type("q")
            t.wait_end()

    def test_sessions_are_sorted_by_what_is_chosen(self):
        with Fixture("known") as f, watch(f) as t:
            t.wait_for(lambda text: session_rows(text) == [1, 2, 3, 4, 5])
            t.type("sss")
            t.wait_for(lambda text: "sort: pages" in text and session_rows(text)[:1] == [1])
            t.type("s")
            t.wait_for(lambda text: "sort: quarantined" in text and session_rows(text)[:3] == [3, 4, 2])
            t.type("r")
            t.wait_for(lambda text: "reverse (on)" in text and session_rows(text)[-3:] == [2, 4, 3])
            t.type("q")
            t.wait_end()

    def test_what_does_not_fit_is_scrolled_to(self):
        with Fixture("many") as f, watch(f, rows=16, term="linux") as t:
            t.wait_for(lambda text: session_rows(text)[:1] == [1])
            self.assertNotIn(64, session_rows(t.text()))
            t.type("\x1b[B" * 3)  # arrows down
            t.wait_for(lambda text: session_rows(text)[-1:] and re.match("broker ", text) and "MODEL" in text)
            t.type("\x1b[6~" * 20)  # pages down, far beyond the end
            t.wait_for(lambda text: re.search(r"^64 ", text, re.M))
            self.assertTrue(t.lines()[0].startswith("broker "), "the head stays")
            t.type("\x1b[1~")
            t.wait_for(lambda text: session_rows(text)[:1] == [1])
            t.type("q")
            t.wait_end()

    def test_a_terminal_of_another_size_is_filled_anew(self):
        with Fixture("many") as f, watch(f) as t:
            t.wait_for(lambda text: "q quit" in t.lines()[23])
            t.resize(12, 60)
            t.wait_for(lambda text: "q quit" in t.lines()[11] and text.startswith("broker "))
            t.resize(40, 100)
            t.wait_for(lambda text: "q quit" in t.lines()[39] and 15 in session_rows(text))
            t.resize(2, 10)
            t.wait_for(lambda text: "q quit" in t.lines()[1])
            t.type("q")
            self.assertEqual(t.wait_end(), RUNNING)

    def test_a_part_in_full_is_scrolled_to_beyond_its_edge(self):
        with Fixture("known") as f, watch(f, "--session", columns=30) as t:
            t.wait_for(lambda text: "session 1" in text and "quarantined" not in text)
            t.type("\x1bOC" * 9)
            t.wait_for(lambda text: "quarantined" in text)
            t.type("\x1bOD" * 9)
            t.wait_for(lambda text: text.startswith("broker "))
            t.type("q")
            self.assertEqual(t.wait_end(), RUNNING)

    def test_colours_can_be_off(self):
        colour = re.compile(r"\x1b\[[0-9;]*3[0-7][0-9;]*m")
        for arguments, environment, coloured in ([], {}, True), (["--no-color"], {}, False), ([], {"NO_COLOR": "1"}, False), \
                ([], {"NO_COLOR": ""}, True):
            with Fixture("known") as f, watch(f, "--count=2", *arguments, term="linux", **environment) as t:
                t.order = lambda *_: None  # what it draws is not looked at
                t.wait_end()
            self.assertEqual(bool(colour.search(t.raw)), coloured, (arguments, environment))

    def test_an_interrupt_ends_it_and_leaves_the_terminal_as_it_was(self):
        with Fixture("known") as f, watch(f) as t:
            t.wait_for(lambda text: "q quit" in text)
            os.kill(t.pid, signal.SIGTERM)
            self.assertEqual(t.wait_end(), RUNNING)

    def test_a_broker_that_ends_is_told_of(self):
        with Fixture("known") as f, watch(f) as t:
            t.wait_for(lambda text: "running" in text)
            f.process.stdin.close()
            f.process.wait()
            t.wait_for(lambda text: "not-running" in text)
            t.type("q")
            t.wait_end()

    def test_a_pipe_gets_the_plain_table(self):
        with Fixture("known") as f:
            r = subprocess.run([TOOL, "-b", f.name, "--watch=0.01", "--count=2"], capture_output=True, text=True, check=False)
        self.assertEqual(r.returncode, RUNNING)
        self.assertEqual(r.stdout.count("\nCLASS "), 2)
        self.assertNotIn("\x1b", r.stdout)


if __name__ == "__main__":
    unittest.main()
