# SPDX-License-Identifier: Apache-2.0
"""Where the package, the library of the build folder $SWAKV_BUILD and what starts brokers are: import it first."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SWAKV_BUILD", ROOT / "build-tests")).resolve()
os.environ.setdefault("SWAKV_LIBRARY", str(BUILD / "client" / "libswakv-client.so.1"))
sys.path[:0] = [str(ROOT / "client/python"), str(ROOT / "tests/fault")]
