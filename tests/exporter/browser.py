# SPDX-License-Identifier: Apache-2.0
"""browser - a headless Chromium for the length of a with block, told what to do over a pair of pipes"""
import base64
import fcntl
import itertools
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fault"))
from processes import PATIENCE, check, end, wait_until

NAMES = ("chromium-headless-shell", "chromium")
KEYS = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35,
        "Tab": 9}


def executable() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of it. Its DevTools protocol: JSON texts, each with a NUL behind it, on descriptors 3 and 4."""

    def __init__(self, width: int = 1280, height: int = 1600):
        self.folder = tempfile.mkdtemp(prefix="swakv-browser.")
        (low_read, self.write_end), (self.read_end, low_write) = os.pipe(), os.pipe()
        # Above 3 and 4, which the shell makes of them.
        read, write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (low_read, low_write))
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        command = [executable(), *sandbox, "--headless", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
                   f"--user-data-dir={self.folder}", "--remote-debugging-pipe", f"--window-size={width},{height}", "about:blank"]
        script = f'exec 3<&{read} 4>&{write} {read}<&- {write}>&-; exec "$@"'
        with open(f"{self.folder}/log", "wb") as log:
            self.process = subprocess.Popen(["bash", "-c", script, "browser", *command], pass_fds=[read, write],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for fd in (low_read, low_write, read, write):
            os.close(fd)
        self.numbers = itertools.count(1)
        self.left = b""
        self.wrong: list[str] = []
        self.ended: list[str] = []  # servers that are there no more: what is said of loads from them is no fault
        self.session: str | None = None

    def __enter__(self) -> "Browser":
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc) -> None:
        end(self.process)
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def read_one(self) -> dict:
        while b"\0" not in self.left:
            check(select.select([self.read_end], [], [], PATIENCE)[0], "the browser said nothing for", PATIENCE, "s")
            piece = os.read(self.read_end, 1 << 20)
            check(piece, "the browser ended:", pathlib.Path(self.folder, "log").read_text(errors="replace")[-2000:])
            self.left += piece
        text, self.left = self.left.split(b"\0", 1)
        return json.loads(text)

    def note(self, said: dict) -> None:
        """what went wrong in the page: errors, refused loads, requests to elsewhere"""
        p = said.get("params", {})
        if said.get("method") == "Runtime.exceptionThrown":
            details = p["exceptionDetails"]
            self.wrong.append(details.get("exception", {}).get("description") or details["text"])
        elif said.get("method") == "Log.entryAdded" and p["entry"]["level"] == "error":
            self.wrong.append(p["entry"]["text"] + " " + p["entry"].get("url", ""))
        elif said.get("method") == "Network.requestWillBeSent":
            url = p["request"]["url"]
            if not url.startswith(("http://127.0.0.1:", "about:", "data:")):
                self.wrong.append(f"it asked {url}")

    def call(self, method: str, **params) -> dict:
        message = {"id": next(self.numbers), "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            said = self.read_one()
            if said.get("id") == message["id"]:
                check("error" not in said, method, said.get("error"))
                return said["result"]
            self.note(said)

    def faults(self) -> list[str]:
        """what went wrong, up to now"""
        self.call("Runtime.evaluate", expression="0")  # what was said before has been noted then
        return [w for w in self.wrong if "net::ERR_" not in w or not any(url in w for url in self.ended)]

    # ---- what a test does ----

    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def js(self, expression: str):
        """the value of @expression in the page"""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        check("exceptionDetails" not in result, expression, result.get("exceptionDetails"))
        return result["result"].get("value")

    def text(self, selector: str) -> str:
        return self.js(f"(document.querySelector({json.dumps(selector)}) || {{}}).textContent || ''")

    def table(self, name: str) -> list[list[str]]:
        return self.js(f"[...document.querySelectorAll('#{name} tbody tr')]"
                       ".map(r => [...r.cells].map(c => c.textContent.trim()))")

    def key(self, name: str) -> None:
        extra = {"windowsVirtualKeyCode": KEYS[name]} if name in KEYS else {"text": name}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, **extra)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, **extra)

    def dark(self, on: bool) -> None:
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self, path: str, whole: bool = True) -> None:
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def wait(self, expression: str, what: str):
        return wait_until(lambda: self.js(expression), what)
