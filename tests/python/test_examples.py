# SPDX-License-Identifier: Apache-2.0
"""The examples run, and the README shows the first of them as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import processes

PACKAGE = Path(__file__).resolve().parents[2] / "client/python"


def run(name: str, broker: processes.Broker) -> str:
    env = dict(
        broker.env,
        PYTHONPATH=str(PACKAGE),
        SWAKV_BROKER=broker.name,
        SWAKV_LIBRARY=os.environ["SWAKV_LIBRARY"],
    )
    done = subprocess.run(
        [sys.executable, str(PACKAGE / "examples" / name)], env=env, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_first(broker: processes.Broker) -> None:
    assert re.fullmatch(r"token 1299 is in page \d+\n", run("first.py", broker))


def test_two_models_and_one_is_killed() -> None:
    with processes.Broker(size="512M") as broker:
        assert re.match(r"0 values were wrong; \d+ of \d+ pages", run("two_models.py", broker))


def test_a_block_pool_gives_what_another_asks_for(broker: processes.Broker) -> None:
    said = run("block_pool.py", broker)
    assert "the other one has 100 pages\n" in said
    found = re.search(r"^(\d+) of (\d+) cached pages were given$", said, flags=re.M)
    assert found
    assert 0 < int(found[1]) < int(found[2])


def test_the_readme_shows_the_first_example() -> None:
    text = (PACKAGE / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- examples/first.py -->\n```python\n(.*?)```", text, flags=re.S)
    assert shown
    assert (PACKAGE / "examples/first.py").read_text(encoding="utf-8").endswith(shown[1])
