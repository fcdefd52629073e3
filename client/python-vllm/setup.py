# SPDX-License-Identifier: Apache-2.0
"""The version, which the changelog of the whole source has; all else is in pyproject.toml."""
import email.parser
import pathlib
import subprocess

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "tools/version"
PACKED = HERE / "PKG-INFO"  # of a source archive, which has nothing above it


def version() -> str:
    if SCRIPT.exists():
        return subprocess.run([SCRIPT], check=True, capture_output=True, text=True).stdout.strip()
    if PACKED.exists():
        return email.parser.Parser().parsestr(PACKED.read_text(encoding="utf-8"))["Version"]
    raise SystemExit(f"{SCRIPT}, which says the version, is not there: install from the whole source of swakv")


setup(version=version())
