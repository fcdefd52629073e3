# SPDX-License-Identifier: Apache-2.0
"""Finds what the tests of the package find, and the plug-in as tests/vllm/run has installed it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
sys.path.append(os.environ["SWAKV_PLUGIN"])

import build  # noqa: F401
