#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""swakv-status against pages of known content, written by status-fixture."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

TOOL = os.environ["SWAKV_STATUS"]
FIXTURE = os.environ["STATUS_FIXTURE"]
PAGE = pathlib.Path(__file__).resolve().parents[2] / "shared" / "status_page.h"
VERSION = int(re.search(r"define STATUS_VERSION (\d+)", PAGE.read_text())[1])
PATIENCE = 300  # seconds until a test gives up: no claim about speed
RUNNING, NOT_FOUND, USAGE, NOT_RUNNING, STALE, STUCK = range(6)


class Fixture:
    """A page of the given mode, of a name of its own, for the length of a with block."""

    count = 0

    def __init__(self, mode):
        Fixture.count += 1
        self.mode = mode
        self.name = "status-test-%d-%d" % (os.getpid(), Fixture.count)

    def __enter__(self):
        self.process = subprocess.Popen(
            [FIXTURE, self.name, self.mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the fixture did not start")
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        if os.path.exists("/dev/shm/swakv-" + self.name):
            os.unlink("/dev/shm/swakv-" + self.name)

    def status(self, *arguments):
        return status("--name", self.name, *arguments)

    def json(self, *arguments, code=RUNNING):
        r = self.status("--json", *arguments)
        assert r.returncode == code, (r.returncode, r.stderr)
        return json.loads(r.stdout)


def status(*arguments, **environment):
    return subprocess.run([TOOL, *arguments], check=False, capture_output=True, text=True, env={**os.environ, **environment})


def prometheus(text):
    """Parses the text format strictly: {(name, ((label, value), ...)): value}, {name: type}."""
    samples, types = {}, {}
    family = None
    label = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
    line_format = re.compile(r"([a-z_]+)\{(%s(?:,%s)*)\} (-?[0-9]+(?:\.[0-9]+)?)" % (label, label))
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, family, _ = line.split(" ", 3)
            assert family not in types, "family %s comes twice" % family
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family and kind in ("gauge", "counter", "histogram"), line
            types[name] = kind
        else:
            m = line_format.fullmatch(line)
            assert m, line
            parts = ["_bucket", "_sum", "_count"] if types[family] == "histogram" else [""]
            assert m.group(1) in [family + part for part in parts], "sample outside its family: " + line
            key = (m.group(1), tuple(re.findall(label, m.group(2))))
            assert key not in samples, "sample comes twice: " + line
            samples[key] = float(line.rsplit(" ", 1)[1])
    return samples, types


def find(samples, name, **labels):
    found = [v for (n, ls), v in samples.items() if n == name and labels.items() <= dict(ls).items()]
    assert len(found) == 1, (name, labels, found)
    return found[0]


class Sums(unittest.TestCase):
    def check_sums(self, page):
        b = page["pool"]["bytes"]
        self.assertEqual(b["held"] + b["free"] + b["unusable"], b["total"])
        for i, c in enumerate(page["classes"]):
            p = c["pages"]
            self.assertEqual(p["free"] + p["leased"] + p["quarantined"], p["total"])
            held = sum(g["held"] for s in page["sessions"] for g in s["model"]["groups"] if g["class"] == i)
            self.assertEqual(held, p["leased"] + p["quarantined"], "held of class %d" % i)
        for state in ("leased", "quarantined"):
            of_sessions = sum(s["pages"][state] for s in page["sessions"])
            self.assertEqual(of_sessions, sum(c["pages"][state] for c in page["classes"]), state)


class Content(Sums):
    def test_json_has_what_was_published(self):
        with Fixture("known") as f:
            page = f.json()
        self.assertEqual(page["status"], "running")
        self.assertEqual(page["instance"], f.name)
        self.assertEqual(page["pid"], f.process.pid)
        self.assertEqual(page["pool"]["bytes"]["total"], 1000000)
        self.assertEqual([c["page_bytes"] for c in page["classes"]], [65536, 16384])
        self.assertEqual([c["form"] for c in page["classes"]], ["split", "joined"])
        self.assertEqual(page["classes"][0]["pages"]["available"], 81)
        self.assertEqual([s["state"] for s in page["sessions"]], ["attached", "attached", "dead", "ended", "closing"])
        self.assertEqual([s["poisoned"] for s in page["sessions"]], [False, True, False, False, False])
        first, poisoned, closing = page["sessions"][0], page["sessions"][1], page["sessions"][4]
        self.assertEqual((first["pid"], first["uid"], first["requests"], first["sequences"]), (1001, 500, 2, 3))
        self.assertEqual(first["model"]["name"], "gemma")
        sliding = {"kind": "sliding", "window": 1024, "page_tokens": 128, "page_bytes": 65536, "class": 0,
                   "private_per_sequence": 19, "held": 38, "tag": "", "managed": 0,
                   "offered": 0, "wanted": 0, "wanted_ms": None, "wanted_ranges": [], "movable": False, "moved": 0}
        full = {"kind": "full", "window": 0, "page_tokens": 32, "page_bytes": 16384, "class": 1,
                "private_per_sequence": 256, "held": 0, "tag": "mla, 512 + 64"}
        full |= {key: sliding[key] for key in list(sliding)[8:]}
        self.assertEqual(first["model"]["groups"], [sliding])
        self.assertEqual(page["sessions"][2]["model"]["groups"], [{**sliding, "held": 7}, full])
        self.assertEqual(page["sessions"][2]["pages"]["private_per_sequence"], 19 + 256)
        self.assertEqual(first["last"]["command"], "step-complete")
        self.assertEqual(first["last"]["result"], "ok")
        self.assertGreaterEqual(first["oldest_lease_ms"], 5000)
        self.assertGreaterEqual(first["oldest_point_ms"], 3000)
        self.assertIsNone(poisoned["oldest_point_ms"])
        self.assertIsNone(first["ended_ms"])
        self.assertEqual(poisoned["last"]["result"], "poisoned")
        self.assertIsNone(closing["last"])
        self.assertEqual(page["counters"]["reclaimed_pages"], 77)
        self.assertEqual(page["counters"]["rescues"], 0)
        self.assertEqual([t["name"] for t in page["threads"]], ["ring", "control", "device"])
        self.assertNotIn("requests", page)
        self.check_sums(page)

    def test_who_is_to_move_who_has_moved_and_who_is_passed_over(self):
        with Fixture("distinct") as f:
            text = f.status().stdout + f.status("--session=1041").stdout
        for line in (r"moves +1171 pages \(.*\) have moved; 1173 times there was no place",
                     r"emptying +1162 extents of class 0; passed over: 1163 idle, 1164 no-room",
                     r"to move +1168 pages of session 1041 \(one\); passed over: 1169 pinned",
                     r" +moves +1168 pages are to move; passed over: 1169 pinned",
                     r" +movable: 1165 pages have moved", r" +wanted first: \[1166, 1167\)"):
            self.assertRegex(text, "(?m)^" + line + "$")
        with Fixture("known") as f:
            self.assertNotRegex(f.status().stdout, r"moves|to move|passed over|emptying")

    def test_the_form_of_a_class_and_the_tag_of_a_group_are_shown(self):
        with Fixture("known") as f:
            text = f.status().stdout + f.status("--session=3").stdout
            samples, _types = prometheus(f.status("--prometheus").stdout)
        self.assertRegex(text, r"(?m)^CLASS +FORM +PAGE ")
        self.assertRegex(text, r"(?m)^0 +split +64.0 KiB +100 ")
        self.assertRegex(text, r"(?m)^1 +joined +16.0 KiB +50 ")
        self.assertRegex(text, r"group 0 .* class 0 \(split\); 19 private pages a sequence, 7 held\n")
        self.assertRegex(text, r"group 1 .* class 1 \(joined\); .* held; tag mla, 512 \+ 64\n")
        of_class = {name: dict(labels)["form"] for (name, labels) in samples if dict(labels).get("class") == "1"}
        self.assertGreater(len(of_class), 5)
        self.assertEqual(set(of_class.values()), {"joined"})
        self.assertEqual(find(samples, "swakv_class_extents", form="split"), 4)

    def test_models_share_limits_and_a_queue(self):
        with Fixture("known") as f:
            page = f.json()
            text = f.status().stdout
            samples, _types = prometheus(f.status("--prometheus").stdout)
        gemma, mistral = page["models"]
        self.assertEqual((gemma["name"], gemma["floor_bytes"], gemma["used_bytes"]), ("gemma", 300000, 200000))
        self.assertEqual((gemma["floor_unused_bytes"], gemma["ceiling_bytes"]), (100000, None))
        self.assertEqual((gemma["sessions"], gemma["waiting"], gemma["claims"]), (3, 2, True))
        self.assertEqual((gemma["drained"], mistral["drained"]), (True, False))
        self.assertGreaterEqual(gemma["oldest_wait_ms"], 4000)
        self.assertEqual(gemma["classes"], [{"class": 0, "pages": 49}])
        self.assertEqual((mistral["ceiling_bytes"], mistral["oldest_wait_ms"]), (400000, None))
        self.assertEqual(mistral["classes"], [{"class": 1, "pages": 7}])
        self.assertEqual(page["refusals_by_reason"], {"no-pages": 3, "reason-159": 1})
        self.assertRegex(text, r"gemma +293.0 KiB +- +195.3 KiB +3 +2 .*yes +yes +49 of class 0")
        self.assertIn("3 for no-pages", text)
        self.assertEqual(find(samples, "swakv_model_floor_bytes", model="gemma"), 300000)
        self.assertEqual(find(samples, "swakv_model_waiting", model="gemma"), 2)
        self.assertEqual(find(samples, "swakv_model_drained", model="gemma"), 1)
        self.assertEqual(find(samples, "swakv_model_drained", model="mistral"), 0)

    def test_no_ceiling_is_no_sample_and_not_0(self):
        with Fixture("known") as f:
            samples, _types = prometheus(f.status("--prometheus").stdout)
        ceilings = {dict(labels)["model"]: v for (name, labels), v in samples.items() if name == "swakv_model_ceiling_bytes"}
        self.assertEqual(ceilings, {"mistral": 400000})

    def test_extents_are_shown_when_they_are_asked_for(self):
        with Fixture("known") as f:
            page = f.json("--map")
            text = f.status("--map").stdout
            self.assertNotIn("map", f.json("--events"))
        self.assertEqual(page["map"], {
            "extents": 8, "class": [0, 0, 0, -1, 1, -1], "live": [38, 11, 0, 0, 7, 0], "free": [2, 14, 35, 0, 43, 0],
            "quarantined": [11, 0, 0, 0, 0, 0], "session": [3, 1, 0, 0, 0, 0], "shared": [1], "emptying": [4], "claimed": [2]})
        self.assertNotIn("events", page)
        self.assertRegex(text, r"(?m)^ +0  !Aa\.B\.$")
        self.assertIn("8 extents:", text)
        self.assertIn("those from 6 on are not listed", text)

    def test_the_last_events_are_shown_when_they_are_asked_for(self):
        with Fixture("known") as f:
            events = f.json("--events")["events"]
            lines = f.status("--events").stdout.splitlines()
        self.assertEqual([e["number"] for e in events], list(range(300 - 256, 300)))
        self.assertEqual(sorted((e["age_ms"] for e in events), reverse=True), [e["age_ms"] for e in events])
        want = {"number": 299, "event": "ended", "session": 4, "generation": 299, "pid": 1003, "uid": 500, "model": "gemma",
                "pages": 0, "text": "word above armed"}
        self.assertEqual({k: v for k, v in events[-1].items() if k != "age_ms"}, want)
        self.assertEqual(len(lines[lines.index("300 events since the start, the last 256:") + 1:]), 256)
        self.assertTrue(lines[-2].endswith("ago  death         session 3.298 (pid 1003, gemma), 7 pages"), lines[-2])
        self.assertTrue(lines[-1].endswith("ago  ended         session 4.299 (pid 1003, gemma): word above armed"), lines[-1])

    def test_only_the_info_series_has_the_pid(self):
        with Fixture("known") as f:
            samples, _types = prometheus(f.status("--prometheus").stdout)
        with_pid = {name for (name, labels) in samples if "pid" in dict(labels)}
        self.assertEqual(with_pid, {"swakv_session_info"})
        self.assertEqual(find(samples, "swakv_session_info", pid="1001"), 1)
        self.assertTrue(any(name == "swakv_session_commands_total" for (name, _labels) in samples))
        self.assertGreaterEqual(find(samples, "swakv_model_oldest_wait_seconds", model="gemma"), 4)
        self.assertEqual(find(samples, "swakv_model_pages", **{"model": "mistral", "class": "1"}), 7)
        self.assertEqual(find(samples, "swakv_refusals_by_reason_total", reason="no-pages"), 3)

    def test_sums_are_computed_and_shown(self):
        for mode, holds in (("known", True), ("unbalanced", False), ("empty", True)):
            with Fixture(mode) as f:
                page = f.json()
                text = f.status().stdout
                samples, _types = prometheus(f.status("--prometheus").stdout)
            self.assertEqual(page["invariant"]["holds"], holds, mode)
            self.assertEqual(find(samples, "swakv_invariant_holds"), holds, mode)
            self.assertEqual("DO NOT HOLD" in text, not holds, mode)
            if not holds:
                self.assertEqual(page["invariant"]["violation"],
                                 "free, leased and quarantined pages of class 1: 51, and not 50")
        for mode, violation in (("bytes", "bytes held, free and unusable are 999999 together, and not 1000000"),
                                ("held", "pages that sessions hold of class 1: 8, and not 7"),
                                ("quarantine", "pages that sessions hold of class 0: 49, and not 48")):
            with Fixture("unbalanced-" + mode) as f:
                self.assertEqual(f.json()["invariant"], {"holds": False, "violation": violation})

    def test_requests_with_their_sequences_and_bindings(self):
        with Fixture("known") as f:
            page = f.json("--request")
            one = f.json("--request", "1:0xabc00000001")
            none = f.json("--request", "3")
            unknown = [f.status("--request", r) for r in ("1:0xabc00000002", "9", "3:0xabc00000001")]
            text = f.status("-r").stdout
        decode, admitted = page["requests"]
        self.assertEqual(decode["handle"], "0xabc00000001")
        self.assertEqual((decode["phase"], decode["pending"], decode["stream"]), ("executing", "decode", 1))
        self.assertEqual(decode["open_points"], 1)
        q = decode["sequences"][0]
        self.assertEqual((q["slot"], q["endpoint"], q["pending_endpoint"]), (5, 4096, 4097))
        self.assertEqual((q["retained_begin"], q["retained_end"]), (24, 33))
        self.assertEqual(q["bindings"], [[23 + i, 200 + i] for i in range(10)])
        self.assertEqual(decode["sequences"][1]["bindings"], [[0, 399]])
        self.assertEqual(admitted["handle"], "0xfffffffffffffffe")
        self.assertIsNone(admitted["sequences"][0]["pending_endpoint"])
        self.assertEqual([r["handle"] for r in one["requests"]], ["0xabc00000001"])
        self.assertEqual(none["requests"], [])
        for u in unknown:
            self.assertEqual(u.returncode, NOT_FOUND)
            self.assertIn("hint:", u.stderr)
        self.assertIn("endpoint 4096 -> 4097, retains [24, 33)", text)
        self.assertIn("bindings 23=200 24=201", text)

    def test_one_session(self):
        with Fixture("known") as f:
            page = f.json("--session", "3")
            missing = f.status("--session", "77")
            every = f.status("--session").stdout
            joined = f.status("-S4").stdout
        self.assertEqual([s["id"] for s in page["sessions"]], [3])
        self.assertEqual(missing.returncode, NOT_FOUND)
        self.assertEqual(len(re.findall(r"^session \d+", every, re.M)), 5)
        self.assertEqual(re.findall(r"^session (\d+)", joined, re.M), ["4"])

    def test_quarantine_names_the_sessions_and_what_they_wait_for(self):
        with Fixture("known") as f:
            page = f.json("--quarantine")
            text = f.status("--quarantine").stdout
        with Fixture("empty") as f:
            nothing = f.status("--quarantine").stdout
        self.assertEqual([s["id"] for s in page["sessions"]], [2, 3, 4])
        reasons = [s["quarantine_reason"] for s in page["sessions"]]
        self.assertIn("a completion failed", reasons[0])
        self.assertIn("process 1003 has exited", reasons[1])
        self.assertIn("protocol violation", reasons[2])
        for reason in reasons:
            self.assertIn(reason, text)
        self.assertIn("no pages are quarantined", nothing)

    def test_table(self):
        with Fixture("known") as f:
            text = f.status().stdout
        self.assertIn("total 976.6 KiB = held 585.9 KiB + free 293.0 KiB + unusable 97.7 KiB", text)
        row = next(line for line in text.splitlines() if line.startswith("all"))
        self.assertEqual(row.split(), ["all", "150", "94", "38", "18"])
        sessions = re.findall(r"^(\d)  .*$", text.split("SESSION  ", 1)[1], re.M)
        self.assertEqual(sessions, list("12345"))
        self.assertRegex(text, r"(?m)^2 +1002 +500 gemma +poisoned ")

    def test_empty_broker(self):
        with Fixture("empty") as f:
            page = f.json("--request")
            r = f.status()
        self.assertEqual((page["classes"], page["sessions"], page["requests"]), ([], [], []))
        self.assertEqual(r.returncode, RUNNING)

    def test_prometheus(self):
        with Fixture("known") as f:
            samples, types = prometheus(f.status("--prometheus").stdout)
        self.assertEqual(find(samples, "swakv_up"), 1)
        size = find(samples, "swakv_pool_size_bytes")
        self.assertEqual(sum(v for (n, _), v in samples.items() if n == "swakv_pool_bytes"), size)
        for c in ("0", "1"):
            pages = [find(samples, "swakv_class_pages", **{"class": c, "state": s})
                     for s in ("free", "leased", "quarantined")]
            self.assertEqual(sum(pages), find(samples, "swakv_class_size_pages", **{"class": c}))
        self.assertEqual(find(samples, "swakv_session_pages", session="3", state="quarantined"), 7)
        self.assertEqual(find(samples, "swakv_deaths_total"), 2)
        for name, kind in types.items():
            self.assertEqual(name.endswith("_total"), kind == "counter", name)

    def test_hostile_texts_break_no_format(self):
        with Fixture("hostile") as f:
            page = f.json()
            samples, _ = prometheus(f.status("--prometheus").stdout)
            table = f.status().stdout
            detail = f.status("--session=2").stdout + f.status("--session=3").stdout
        self.assertEqual(page["sessions"][0]["model"]["name"], '"\\??[2J??{}')
        self.assertEqual(page["sessions"][1]["model"]["name"], "x" * 127)
        self.assertEqual(page["device"], "?" * 63)
        find(samples, "swakv_session_requests", model='\\"\\\\??[2J??{}')
        find(samples, "swakv_info", pool='a\\"b\\\\c')
        self.assertNotIn("\033", table + detail)
        self.assertEqual(page["sessions"][1]["model"]["groups"][0]["tag"], "y" * 31)
        self.assertIn("; tag ?[2J?\n", detail)

    def test_truncated_snapshot_says_so(self):
        with Fixture("truncated") as f:
            page = f.json("--request")
            text = f.status("--request").stdout
        self.assertIs(page["truncated"], True)
        self.assertEqual(len(page["requests"][0]["sequences"][0]["bindings"]), 10)
        self.assertIsNone(page["requests"][0]["sequences"][1]["bindings"])
        self.assertIsNone(page["requests"][1]["sequences"])
        self.assertEqual(page["requests"][1]["n_sequences"], 1)
        self.assertIn("not all requests, sequences and bindings fit", text)

    def test_every_one_of_1000_samples_adds_up_while_the_writer_flips(self):
        numbers = set()
        n = 0
        end = time.monotonic() + PATIENCE
        with Fixture("flip") as f:
            while n < 1000 or len(numbers) <= 500:  # where much else runs, a writer may be late
                page = f.json()
                self.check_sums(page)
                numbers.add(page["snapshot"])
                n += 1
                self.assertLess(time.monotonic(), end, "%d samples are of %d snapshots" % (n, len(numbers)))


class Health(unittest.TestCase):
    def check(self, fixture, code, name, reason):
        r = fixture.status()
        self.assertEqual(r.returncode, code, r.stdout + r.stderr)
        self.assertIn(reason, r.stdout)
        self.assertEqual(len(re.findall(r"^hint: ", r.stderr, re.M)), 1)
        page = fixture.json(code=code)
        self.assertEqual(page["status"], name)
        self.assertIn(reason, page["reason"])
        self.assertTrue(page["hint"])
        samples, _ = prometheus(fixture.status("--prometheus").stdout)
        self.assertEqual(find(samples, "swakv_up"), 0)
        self.assertEqual(find(samples, "swakv_status", state=name), 1)
        return page

    def wait_for(self, fixture, code):
        """Asks until the answer is @code; there is no limit but the test's own."""
        while fixture.status().returncode != code:
            time.sleep(0.05)

    def test_running(self):
        with Fixture("known") as f:
            r = f.status()
        self.assertEqual((r.returncode, r.stderr), (RUNNING, ""))

    def test_no_page(self):
        f = Fixture("none")
        page = self.check(f, NOT_RUNNING, "not-running", "no broker of the name")
        self.assertNotIn("pool", page)

    def test_orderly_end(self):
        with Fixture("known") as f:
            pass
        self.check(f, NOT_RUNNING, "not-running", "no broker of the name")

    def test_killed_broker_is_not_running(self):
        with Fixture("known") as f:
            f.process.kill()
            f.process.wait()
            page = self.check(f, NOT_RUNNING, "not-running", "died without closing")
            self.assertNotIn("pool", page, "a dead broker's numbers are nobody's")

    def test_killed_zombie_is_not_running(self):
        with Fixture("known") as f:
            f.process.kill()
            os.waitid(os.P_PID, f.process.pid, os.WEXITED | os.WNOWAIT)
            self.check(f, NOT_RUNNING, "not-running", "died without closing")

    def test_stopped_broker_is_stuck_until_it_goes_on(self):
        with Fixture("known-beating") as f:
            f.process.send_signal(signal.SIGSTOP)
            self.wait_for(f, STUCK)
            page = self.check(f, STUCK, "stuck", "process %d is stopped" % f.process.pid)
            self.assertIn("kill -CONT %d" % f.process.pid, page["hint"])
            self.assertEqual(len(page["classes"]), 2, "the last picture is still shown")
            self.assertEqual([t["stuck"] for t in page["threads"]], [True] * 3)
            f.process.send_signal(signal.SIGCONT)
            self.wait_for(f, RUNNING)

    def test_stopped_in_the_middle_of_a_flip_it_is_read_all_the_same(self):
        with Fixture("flip-beating") as f:
            for _ in range(5):
                f.process.send_signal(signal.SIGSTOP)
                self.wait_for(f, STUCK)
                Content.check_sums(self, f.json(code=STUCK))
                f.process.send_signal(signal.SIGCONT)
                self.wait_for(f, RUNNING)

    def test_the_stuck_thread_is_named(self):
        for i, name in enumerate(("ring", "control", "device")):
            with Fixture("quiet-" + name) as f:
                page = self.check(f, STUCK, "stuck", "from: %s (" % name)
                self.assertEqual([t["stuck"] for t in page["threads"]], [k == i for k in range(3)])
                self.assertRegex(f.status().stdout, r"[ ,]%s \S+ s STUCK" % name)

    def test_old_snapshot_of_a_living_broker_is_stale(self):
        with Fixture("stale") as f:
            page = self.check(f, STALE, "stale", "ms old, though its threads live")
            self.assertGreater(page["age_ms"], 2000)

    def test_page_of_another_version_is_stale(self):
        with Fixture("version") as f:
            self.check(f, STALE, "stale", f"has version {VERSION + 1} or another layout; this tool reads version {VERSION}")

    def test_page_of_another_version_without_a_broker_is_not_running(self):
        with Fixture("version") as f:
            f.process.kill()
            f.process.wait()
            self.check(f, NOT_RUNNING, "not-running", "no broker holds it")

    def test_unfinished_page_is_stale(self):
        with Fixture("unready") as f:
            self.check(f, STALE, "stale", "not finished its status page")

    def test_no_snapshot_yet_is_stale(self):
        with Fixture("silent") as f:
            self.check(f, STALE, "stale", "no whole snapshot yet")

    def test_damaged_snapshot_is_stale(self):
        with Fixture("damaged") as f:
            page = self.check(f, STALE, "stale", "impossible counts")
            self.assertNotIn("pool", page)


class Options(unittest.TestCase):
    def test_wrong_usage(self):
        wrong = (["--nonsense"], ["extra"], ["--session", "x"], ["--session=-1"], ["--session=4294967296"],
                 ["--request", "1:"], ["--request", "1:x"], ["--request", "1:2:3"], ["--watch", "0"],
                 ["--watch=nan"], ["--watch=0x1"], ["--count", "0x5"], ["--count", "5x"],
                 ["--watch", "1", "--count", "0"], ["--json", "--prometheus"], ["--name", "a/b"],
                 ["--name", "x" * 32], ["--name", ""])
        for arguments in wrong:
            r = status(*arguments)
            self.assertEqual(r.returncode, USAGE, arguments)
            self.assertTrue(r.stderr, arguments)

    def test_a_count_without_watch_is_wrong_usage(self):
        with Fixture("known") as f:
            r = status("--count", "3", "-b", f.name)
            self.assertEqual((r.returncode, r.stdout), (USAGE, ""))
            self.assertIn("--watch", r.stderr)
            self.assertEqual(status("--count", "1", "--watch=0.001", "-b", f.name).returncode, RUNNING)

    def test_name_from_the_environment(self):
        with Fixture("known") as f:
            self.assertEqual(status("--json", SWAKV_BROKER=f.name).returncode, RUNNING)
            self.assertEqual(status("-b", f.name, SWAKV_BROKER="status-test-nobody").returncode, RUNNING)
        self.assertIn("'default'", status(SWAKV_BROKER="").stdout + status(SWAKV_BROKER="default").stdout)

    def test_help_and_version(self):
        self.assertIn("usage: swakv-status", status("--help").stdout)
        self.assertRegex(status("--version").stdout, r"^swakv-status \d+\.\d+\.\d+$")

    def test_output_that_cannot_be_written_is_an_error(self):
        with Fixture("known") as f, open("/dev/full", "w") as full:
            r = subprocess.run([TOOL, "--json", "-b", f.name], check=False, stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(r.returncode, NOT_FOUND)
        self.assertIn("cannot write", r.stderr)


class Watch(unittest.TestCase):
    def test_batch_json_is_a_document_a_line(self):
        with Fixture("flip") as f:
            r = f.status("--watch", "0.01", "--count", "20", "--json")
        pages = [json.loads(line) for line in r.stdout.splitlines()]
        self.assertEqual(len(pages), 20)
        numbers = [p["snapshot"] for p in pages]
        self.assertEqual(numbers, sorted(numbers))
        self.assertGreater(len(set(numbers)), 1)

    def test_batch_sees_the_broker_come_and_go(self):
        with Fixture("known") as f:
            watcher = subprocess.Popen(
                [TOOL, "-b", f.name, "--json", "--watch", "0.02"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True)
            self.assertEqual(json.loads(watcher.stdout.readline())["status"], "running")
            f.process.kill()
            f.process.wait()
            while json.loads(watcher.stdout.readline())["status"] != "not-running":
                pass
        watcher.send_signal(signal.SIGINT)
        watcher.communicate()
        self.assertEqual(watcher.returncode, NOT_RUNNING, "the last sample's")

    def test_reader_that_goes_away_ends_the_watch(self):
        with Fixture("known") as f:
            watcher = subprocess.Popen([TOOL, "-b", f.name, "--watch", "0.01"], stdout=subprocess.PIPE)
            watcher.stdout.readline()
            watcher.stdout.close()
            self.assertEqual(watcher.wait(), RUNNING)


if __name__ == "__main__":
    unittest.main()
