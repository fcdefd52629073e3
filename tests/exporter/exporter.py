# SPDX-License-Identifier: Apache-2.0
"""exporter - a swakv-exporter for the length of a with block, and what it says"""
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fault"))
from processes import PATIENCE, check, end, program

PATH = "tools/exporter/swakv-exporter"


class Exporter:
    """Of the broker @broker, at a port of its own."""

    def __init__(self, broker: str, *arguments: str, listen: str = "127.0.0.1:0", env: dict[str, str] | None = None):
        self.broker = broker
        self.process = subprocess.Popen([program(PATH), "--broker", broker, "--listen", listen, *arguments],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env)
        said = self.process.stderr.readline()
        found = re.search(r"http://(\S+):(\d+)/$", said.strip())
        check(found, "the exporter did not say where it listens:", said)
        self.host, self.port = found[1].strip("[]"), int(found[2])

    def __enter__(self) -> "Exporter":
        return self

    def __exit__(self, *exc) -> None:
        end(self.process)
        self.process.stderr.close()

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def ask(self, path: str, method: str = "GET", headers: dict[str, str] | None = None, body: bytes | None = None):
        """(status, headers, body) of one request"""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, headers=headers or {}, body=body)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def status(self, path: str = "/api/status"):
        code, _headers, body = self.ask(path)
        check(code == 200, path, "is answered by", code, body)
        return json.loads(body)

    def resident(self) -> int:
        """bytes of memory that it uses"""
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))
