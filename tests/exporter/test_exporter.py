#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""swakv-exporter against pages of known content: each path says what swakv-status says, and nothing else is answered."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "status"))
from exporter import PATH, PATIENCE, Exporter, program
from test_status import Fixture, prometheus

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
# What Prometheus 2.42 sends.
PROMETHEUS = ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
              "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")


def without_ages(value):
    """@value without what changes by itself from one look to the next"""
    if isinstance(value, dict):
        return {k: without_ages(v) for k, v in value.items() if not k.endswith("_ms") and k != "snapshot"}
    return [without_ages(v) for v in value] if isinstance(value, list) else value


class Says(unittest.TestCase):
    def setUp(self):
        self.fixture = self.enterContext(Fixture("known"))
        self.exporter = self.enterContext(Exporter(self.fixture.name))

    def test_status_is_that_of_swakv_status(self):
        code, headers, body = self.exporter.ask("/api/status")
        self.assertEqual((code, headers["Content-Type"]), (200, "application/json"))
        self.assertEqual(without_ages(json.loads(body)), without_ages(self.fixture.json()))

    def test_status_has_the_requests_when_they_are_asked_for(self):
        for path in ("/api/status?requests", "/api/status?requests=1"):
            self.assertEqual(without_ages(self.exporter.status(path)), without_ages(self.fixture.json("--request")))
        self.assertNotIn("requests", self.exporter.status("/api/status?other"))

    def test_status_has_extents_and_events_when_they_are_asked_for(self):
        for path, options in (("?map", ["--map", "--events"]), ("?map&requests", ["--map", "--events", "--request"])):
            self.assertEqual(without_ages(self.exporter.status("/api/status" + path)),
                             without_ages(self.fixture.json(*options)))

    def test_metrics_are_those_of_swakv_status(self):
        code, headers, body = self.exporter.ask("/metrics")
        self.assertEqual((code, headers["Content-Type"]), (200, TEXT))
        said, types = prometheus(body)
        want, want_types = prometheus(self.fixture.status("--prometheus").stdout)
        self.assertEqual(types, want_types)
        self.assertEqual(said.keys(), want.keys())
        self.assertEqual({k: v for k, v in said.items() if not k[0].endswith("_seconds")},
                         {k: v for k, v in want.items() if not k[0].endswith("_seconds")})

    def test_openmetrics_only_for_those_who_ask(self):
        for accept, want in ((PROMETHEUS, OPENMETRICS), ("application/openmetrics-text", OPENMETRICS),
                             ("Application/OpenMetrics-Text ; version=\"1.0.0\" ; q=0.1", OPENMETRICS),
                             ("text/plain;q=0.5,application/openmetrics-text;q=0.4", TEXT),
                             ("application/openmetrics-text;version=2.0.0", TEXT), ("*/*", TEXT), ("", TEXT),
                             ("application/openmetrics-text;q=0", TEXT), ("application/openmetrics-text;q=9", TEXT),
                             (",;q=;;,q=" + "1" * 100 + ",", TEXT), ("application/openmetrics-textual", TEXT)):
            _code, headers, body = self.exporter.ask("/metrics", headers={"Accept": accept})
            self.assertEqual(headers["Content-Type"], want, accept)
            self.assertEqual(body.endswith("# EOF\n"), want == OPENMETRICS)

    def test_openmetrics_has_the_same_samples(self):
        _code, _headers, body = self.exporter.ask("/metrics", headers={"Accept": PROMETHEUS})
        _code, _headers, text = self.exporter.ask("/metrics")
        samples = [re.sub(r" \S+$", "", line) for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual([re.sub(r" \S+$", "", line) for line in body.splitlines() if not line.startswith("#")], samples)
        self.assertIn("# TYPE swakv_commands counter\n", body)
        self.assertIn("# TYPE swakv_commands_total counter\n", text)

    def test_a_head_has_no_body(self):
        code, headers, body = self.exporter.ask("/metrics", "HEAD")
        self.assertEqual((code, body), (200, ""))
        self.assertGreater(int(headers["Content-Length"]), 1000)

    def test_health(self):
        self.assertEqual(self.exporter.ask("/healthz")[::2], (200, "running\n"))
        with Exporter("no-such-broker") as other:
            code, _headers, body = other.ask("/healthz")
            self.assertEqual(code, 503)
            self.assertTrue(body.startswith("not-running\nno broker of the name 'no-such-broker'"), body)
            self.assertEqual(other.status()["status"], "not-running")
            self.assertIn("swakv_up{broker=\"no-such-broker\"} 0\n", other.ask("/metrics")[2])

    def test_a_broker_that_ends_and_comes_again(self):
        with Fixture("known") as f, Exporter(f.name) as e:
            self.assertEqual(e.status()["status"], "running")
            f.process.kill()
            f.process.wait()
            while e.status()["status"] != "not-running":
                pass

    def test_the_page_is_in_the_program(self):
        code, headers, body = self.exporter.ask("/")
        self.assertEqual((code, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertNotIn("//", re.sub(r"<!--.*?-->|xmlns=\S+", "", body), "something from elsewhere")
        names, seen = re.findall(r'(?:src|href)="([\w.-]+\.(?:css|js|svg))"', body), set()
        while names:
            seen.add(name := names.pop())
            code, headers, asset = self.exporter.ask(f"/{name}")
            self.assertEqual(code, 200, name)
            self.assertNotIn("http", re.sub(r"http://www\.w3\.org/\S+", "", asset), name)
            names += set(re.findall(r'from "\./([\w.-]+)"', asset)) - seen
        self.assertEqual(len(seen), 6)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])

    def test_other_paths_and_methods_are_refused(self):
        for path in ("/nothing", "//", "/metrics/", "/../etc/passwd", "/%2e%2e/", "/page.css/x", "*"):
            self.assertEqual(self.exporter.ask(path)[0], 404, path)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "X"):
            code, headers, _body = self.exporter.ask("/metrics", method, body=b"x" * 100 if method == "POST" else None)
            self.assertEqual((code, headers["Allow"]), (405, "GET, HEAD"), method)
        self.assertEqual(self.exporter.ask("/metrics")[0], 200)

    def test_a_name_that_leads_here_from_elsewhere_is_refused(self):
        for host in ("attacker.example", "attacker.example:80", "localhost.attacker.example", "127.0.0.1.attacker.example",
                     "[::1", "", "[localhost]"):
            code, _headers, body = self.exporter.ask("/api/status", headers={"Host": host})
            self.assertEqual(code, 421, host)
            self.assertNotIn("gemma", body)
        for host in ("localhost", "LOCALHOST:1", "127.0.0.1:9471", "[::1]:9471", "10.1.2.3"):
            self.assertEqual(self.exporter.ask("/api/status", headers={"Host": host})[0], 200, host)

    def test_elsewhere_any_name_will_do(self):
        with Exporter(self.fixture.name, listen="0.0.0.0:0") as e:
            e.host = "127.0.0.1"
            self.assertEqual(e.ask("/metrics", headers={"Host": "gpu1.example:9471"})[0], 200)

    def test_pages_that_want_to_break_out_are_data(self):
        with Fixture("hostile") as f, Exporter(f.name) as e:
            self.assertIsInstance(e.status()["sessions"], list)
            prometheus(e.ask("/metrics")[2])


class Serves(unittest.TestCase):
    def test_ipv6(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            self.skipTest("no IPv6 on the loopback device")
        with Fixture("known") as f, Exporter(f.name, listen="[::1]:0") as e:
            self.assertEqual(e.ask("/healthz")[0], 200)

    def test_wrong_usage(self):
        for arguments, words in ((["--listen", "localhost"], "IPv4"), (["--listen", "127.0.0.1:65536"], "65536"),
                                 (["--listen", "[::1"], "::1"), (["--listen", "127.0.0.1:"], "not"),
                                 (["--connections", "0"], "from 1 to 512"), (["--broker", "a/b"], "a/b"),
                                 (["more"], "unexpected"), (["--what"], "--help")):
            done = subprocess.run([program(PATH), *arguments], check=False, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=PATIENCE)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(words, done.stderr)

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            where = f"127.0.0.1:{taken.getsockname()[1]}"
            done = subprocess.run([program(PATH), "--listen", where], check=False, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(where, done.stderr)
        self.assertIn("Address already in use", done.stderr)

    def test_ends_in_order_with_clients_connected(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Fixture("known") as f, Exporter(f.name) as e, socket.create_connection((e.host, e.port)) as idle:
                idle.sendall(b"GET /metrics HTTP/1.1\r\n")
                e.process.send_signal(number)
                self.assertEqual(e.process.wait(PATIENCE), 0)

    def test_whoever_comes_when_all_places_are_taken_takes_the_oldest(self):
        with Fixture("known") as f, Exporter(f.name, "--connections", "4") as e:
            silent = [socket.create_connection((e.host, e.port), timeout=PATIENCE) for _ in range(4)]
            for s in silent:
                s.sendall(b"GET /metrics HTTP/1.1\r\n")
            self.assertEqual(e.ask("/healthz")[0], 200)
            with contextlib.suppress(ConnectionResetError):  # what it sent was not read
                self.assertEqual(silent[0].recv(1), b"", "the oldest is still connected")
            silent[3].sendall(b"Host: localhost\r\n\r\n")
            self.assertTrue(silent[3].recv(15).startswith(b"HTTP/1.1 200"))
            for s in silent:
                s.close()

    def test_a_connection_that_never_finishes_ends(self):
        with Fixture("known") as f, Exporter(f.name) as e, socket.create_connection((e.host, e.port)) as s:
            s.settimeout(0.5)
            s.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            while True:  # a byte now and then: it is never silent
                try:
                    if s.recv(100) == b"":
                        break
                except TimeoutError:
                    with contextlib.suppress(ConnectionError):  # the next recv() says so
                        s.sendall(b"x")
                except ConnectionError:
                    break
            self.assertEqual(e.ask("/healthz")[0], 200)

    def test_a_request_that_is_too_long_is_refused(self):
        with Fixture("known") as f, Exporter(f.name) as e:
            try:
                self.assertIn(e.ask("/metrics", headers={"X": "x" * 100000})[0], (413, 431))
            except (ConnectionError, http.client.BadStatusLine):
                pass  # it closed before all was sent
            self.assertEqual(e.ask("/healthz")[0], 200)

    def test_an_unprivileged_user_serves_what_its_group_may_read(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be another user")
        with Fixture("known") as f:
            for groups, status in (([], "unreadable"), ([4321], "running")):
                os.chown(f"/dev/shm/swakv-{f.name}", 0, 4321)
                process = subprocess.Popen([program(PATH), "--broker", f.name, "--listen", "127.0.0.1:0"], user=65534,
                                           group=65534, extra_groups=groups, stderr=subprocess.PIPE, text=True)
                try:
                    where = re.search(r":(\d+)/", process.stderr.readline())
                    connection = http.client.HTTPConnection("127.0.0.1", int(where[1]), timeout=PATIENCE)
                    connection.request("GET", "/api/status")
                    self.assertEqual(json.loads(connection.getresponse().read())["status"], status)
                    connection.close()
                finally:
                    process.kill()
                    process.wait()
                    process.stderr.close()


if __name__ == "__main__":
    unittest.main()
