# SPDX-License-Identifier: Apache-2.0
"""Finds what the tests of the package find."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import build  # noqa: F401
