# SPDX-License-Identifier: Apache-2.0
"""clean_root.py - a Debian of its own in a folder, made by mmdebstrap, and what runs in it

Nothing is needed but chroot() and Debian's registry: where mounts are not allowed, /proc is empty in there.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import tempfile
import urllib.request

# What a user's own program is compiled with, and what the test does in there.
BASE = "gcc,libc6-dev,pkg-config,python3-minimal"
# Some containers forbid mounts; mmdebstrap sees most of them by itself.
WAYS = [["--mode=root"], ["--mode=root", "--skip=chroot/mount"]]


def registry() -> str | None:
    """Where this machine has Debian from, if that can be reached."""
    told = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(LABEL)", "Identifier: Packages"],
                          check=False, capture_output=True, text=True).stdout
    mirrors = [line.split()[0] for line in told.splitlines() if line.split()[1:] == ["bookworm", "Debian"]]
    for uri in [*mirrors, "http://deb.debian.org/debian/"]:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{uri.rstrip('/')}/dists/bookworm/InRelease", timeout=60):
            return uri
    return None


def apt_options() -> str:
    """How this machine's apt reaches the registry: proxies and the like."""
    lines = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout.splitlines()
    wanted = ("Acquire::http", "Acquire::https", "Acquire::Check", "Acquire::Retries")
    return "".join(line + "\n" for line in lines if line.startswith(wanted) and '""' not in line)


class CleanRoot:
    def __init__(self, folder: pathlib.Path, uri: str) -> None:
        self.folder, self.uri = folder, uri

    def make(self) -> None:
        """Takes half a minute and more. Raises CalledProcessError when no way worked."""
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as apt:
            apt.write(apt_options())
            apt.flush()
            for i, way in enumerate(WAYS):
                command = ["mmdebstrap", *way, "--variant=apt", f"--include={BASE}", f"--aptopt={apt.name}",
                           "--dpkgopt=force-unsafe-io", "--skip=cleanup/apt/lists", "bookworm", str(self.folder), self.uri]
                done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL)
                if done.returncode == 0:
                    return
                if i == len(WAYS) - 1:
                    done.check_returncode()
                subprocess.run(["rm", "-rf", "--one-file-system", str(self.folder)], check=True)

    def command(self, *words: str) -> list[str]:
        """The command that runs @words in there, with /proc where that can be mounted. Its process is the one of @words."""
        script = 'mount -t proc proc "$0/proc" 2>/dev/null; exec chroot "$0" "$@"'
        inner = ["sh", "-c", script, str(self.folder), *words]
        return ["unshare", "--mount", *inner] if may_mount() else ["chroot", str(self.folder), *words]

    def run(self, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
        """What @words printed, both streams together. Raises AssertionError if they fail."""
        done = self.attempt(*words, **options)
        assert done.returncode == 0, f"{' '.join(words)}: exit code {done.returncode}:\n{done.stdout}"
        return done

    def attempt(self, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*words), check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT, timeout=600, **options)  # type: ignore[call-overload]

    def path(self, name: str) -> pathlib.Path:
        return self.folder / name.lstrip("/")

    def write(self, name: str, text: str) -> None:
        self.path(name).write_text(text, encoding="utf-8")


ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root",
               "DEBIAN_FRONTEND": "noninteractive",
               **{k: v for k, v in os.environ.items() if k.lower().endswith("_proxy")}}


def may_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(["unshare", "--mount", "mount", "-t", "proc", "proc", folder], check=False,
                              stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
