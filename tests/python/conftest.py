# SPDX-License-Identifier: Apache-2.0
"""Brokers for the tests of the Python package: real ones, on the host backend, from the build folder $SWAKV_BUILD."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import build  # noqa: F401 - finds the two below
import processes
import pytest

import swakv


@pytest.fixture(scope="session")
def broker() -> Iterator[processes.Broker]:
    with processes.Broker(size="64M") as b:
        yield b


@pytest.fixture
def model() -> swakv.Model:
    """Window 128, pages of 16 tokens: small enough that pages come and go within a test."""
    return swakv.Model(
        "python",
        [swakv.Group(layers=2, kv_heads=2, head_dim=8, window=128, page_tokens=16, dtype="f32")],
        max_batch=8,
        max_seq=4096,
        max_rewind=16,
        chunk="mapped",
    )


@pytest.fixture
def attach(broker: processes.Broker) -> Callable[..., swakv.Session]:
    def run(model: swakv.Model, **options: object) -> swakv.Session:
        return swakv.attach(model, socket=broker.socket_path, **options)

    return run


@pytest.fixture
def session(attach: Callable[..., swakv.Session], model: swakv.Model) -> Iterator[swakv.Session]:
    with attach(model) as s:
        yield s


@pytest.fixture
def small() -> Iterator[swakv.Session]:
    """Of a broker of its own, whose pool holds a few requests."""
    group = swakv.Group(layers=1, kv_heads=1, head_dim=8, page_tokens=16, dtype="f32")
    with processes.Broker(size="1M") as b:
        model = swakv.Model("small", [group], max_batch=8, max_seq=3000)
        with swakv.attach(model, socket=b.socket_path) as s:
            yield s
