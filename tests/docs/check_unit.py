#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_unit.py - the systemd unit is correct, as closed as broker/README.md says, and says why of each permission that it keeps

usage: check_unit.py ROOT BUILD

systemd-analyze verifies service and socket, and rates the service. Of each of its checks that is not met a comment in the
unit says why; there is none of one that is met.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

KINDS = ("service", "socket")


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def units(build: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """Those of the build, with the broker where it is now. Their paths."""
    paths = []
    for kind in KINDS:
        text = (build / f"broker/swakvd@.{kind}.example").read_text()
        path = folder / f"swakvd@.{kind}"
        path.write_text(re.sub(r"^ExecStart=\S+/swakvd ", f"ExecStart={build}/broker/swakvd ", text, flags=re.M))
        paths.append(str(path))
    return paths


def open_doors(unit: str, text: str) -> list[str]:
    """what is wrong with the reasons of what the unit keeps"""
    checks = json.loads(analyze("security", "--offline=yes", "--json=short", unit).stdout)
    kept = {c["name"] for c in checks if c["exposure"]}
    if not kept:
        return ["systemd-analyze security names no check"]
    reasons = set(re.findall(r"^# (\S+=\S*): \S", text, flags=re.M))
    return [f"the unit does not say why it keeps {name}" for name in sorted(kept - reasons)] + [
        f"the unit says why it keeps {name}, and does not keep it" for name in sorted(reasons - kept)]


def main() -> int:
    root, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    if not shutil.which("systemd-analyze"):
        print("skipped: no systemd-analyze here")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        paths = units(build, pathlib.Path(folder))
        verified = analyze("verify", "--man=no", *paths)
        wrong = verified.stderr.splitlines() if verified.returncode or verified.stderr else []
        wrong += open_doors(paths[0], pathlib.Path(paths[0]).read_text())
        said = re.search(r"exposure level for \S+: ([\d.]+)", analyze("security", "--offline=yes", "--no-pager", paths[0]).stdout)
        stated = re.search(r"rates it ([\d.]+)", (root / "broker/README.md").read_text())
    if not said or not stated or said[1] != stated[1]:
        wrong.append(f"systemd-analyze rates the unit {said and said[1]}, and broker/README.md says {stated and stated[1]}")
    print("\n".join(wrong) or f"verified; exposure level {said and said[1]}")
    return 1 if wrong else 0


sys.exit(main())
