# SPDX-License-Identifier: Apache-2.0
"""The version, which the changelog of the whole source has; all else is in pyproject.toml."""
import pathlib
import subprocess

from setuptools import setup

SOURCE = pathlib.Path(__file__).resolve().parents[2]

setup(version=subprocess.run([SOURCE / "tools/version"], check=True, capture_output=True, text=True).stdout.strip())
