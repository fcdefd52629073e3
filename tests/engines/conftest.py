# SPDX-License-Identifier: Apache-2.0
"""Finds what the tests of the package find; brokers on the device that is asked for; how much of the matrix is run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import build  # noqa: F401
import models
import processes

sys.path.remove(str(Path(processes.__file__).parent))  # it has a cuda.py, and torch may look for a package of that name


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--device", default="cpu", choices=["cpu", "cuda"], help="where models and pool are")
    parser.addoption("--whole", action="store_true", help="every combination of the matrix, not each pair of values once")


def pytest_configure(config: Any) -> None:
    models.DEVICE = config.getoption("--device")
    if models.DEVICE == "cuda":
        models.torch.use_deterministic_algorithms(True, warn_only=True)


def broker_of(size: str) -> processes.Broker:
    return processes.Broker(size=size, arguments=() if models.DEVICE == "cpu" else ("--backend", "cuda"))


@pytest.fixture(scope="module")
def pool(request: Any) -> Iterator[processes.Broker]:
    with broker_of(getattr(request.module, "POOL", "32M")) as b:
        yield b
