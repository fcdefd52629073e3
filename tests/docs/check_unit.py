#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_unit.py - the systemd units are correct, as closed as their READMEs say, and say why of each permission that they keep

usage: check_unit.py ROOT BUILD

systemd-analyze verifies services and socket, and rates the services. Of each of its checks that is not met a comment in the
unit says why; there is none of one that is met.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Folder of the program, its name, kinds of units, README that states the rating. The second is there where it was built.
PROGRAMS = (("broker", "swakvd", ("service", "socket"), "broker/README.md"),
            ("tools/exporter", "swakv-exporter", ("service",), "tools/README.md"))


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def units(build: pathlib.Path, folder: pathlib.Path, room: str, name: str, kinds: tuple[str, ...]) -> list[str]:
    """Those of a program of the build, with the program where it is now. Their paths."""
    paths = []
    for kind in kinds:
        text = (build / room / f"{name}@.{kind}.example").read_text()
        path = folder / f"{name}@.{kind}"
        path.write_text(re.sub(rf"^ExecStart=\S+/{name} ", f"ExecStart={build}/{room}/{name} ", text, flags=re.M))
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


def rating(unit: str) -> str | None:
    said = re.search(r"exposure level for \S+: ([\d.]+)", analyze("security", "--offline=yes", "--no-pager", unit).stdout)
    return said and said[1]


def main() -> int:
    root, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    if not shutil.which("systemd-analyze"):
        print("skipped: no systemd-analyze here")
        return 77
    wrong, rated = [], {}
    with tempfile.TemporaryDirectory() as folder:
        found = {name: (units(build, pathlib.Path(folder), room, name, kinds), readme) for room, name, kinds, readme in PROGRAMS
                 if (build / room / name).exists()}
        verified = analyze("verify", "--man=no", *(path for paths, _readme in found.values() for path in paths))
        wrong += verified.stderr.splitlines() if verified.returncode or verified.stderr else []
        for name, (paths, readme) in found.items():
            wrong += [f"{name}: {reason}" for reason in open_doors(paths[0], pathlib.Path(paths[0]).read_text())]
            rated[name] = rating(paths[0])
            stated = re.search(rf"{name}@\.service.*?rates it ([\d.]+)", (root / readme).read_text(), flags=re.S)
            if not rated[name] or not stated or rated[name] != stated[1]:
                wrong.append(f"systemd-analyze rates {name} {rated[name]}, and {readme} says {stated and stated[1]}")
    print("\n".join(wrong) or f"verified; exposure levels {rated}")
    return 1 if wrong or "swakvd" not in found else 0


sys.exit(main())
