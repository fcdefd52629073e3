# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/decode_time, which prints times: that it runs, says swakv's share, and gives no time to what is wrong."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import build  # noqa: E402
import models  # noqa: E402

SCRIPT = build.ROOT / "tests/gpu/decode_time"
SMALL = ("--cpu", "--prompt", "40", "--steps", "3", "--repeat", "1", "--batch", "2")


@pytest.mark.parametrize("shape", ["llama", "gemma3_text"])
def test_it_says_the_share_of_swakv(shape: str) -> None:
    if models.DEVICE != "cpu":
        pytest.skip("on a GPU it is run for itself")
    env = dict(os.environ, SWAKV_BUILD=str(build.BUILD))
    command = [sys.executable, "-B", SCRIPT, *SMALL, "--shape", shape]
    out = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stdout + out.stderr
    assert re.search(r"^static cache, eager .* us a token", out.stdout, re.M), out.stdout
    assert re.search(r"^swakv pages, eager .* us a token .*; swakv's calls [0-9.]+ us = [0-9.]+%$", out.stdout, re.M), out.stdout


def test_what_is_wrong_gets_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    loader = importlib.machinery.SourceFileLoader("decode_time", str(SCRIPT))
    script: Any = importlib.util.module_from_spec(importlib.util.spec_from_loader("decode_time", loader))
    loader.exec_module(script)
    options = script.Options(cpu=True, batch=2, prompt=4, steps=2, repeat=1)
    right = torch.rand(script.CHECKED, 2, 9)

    class Steps:
        """The right logits, but of one step."""

        def __init__(self, wrong_at: int | None) -> None:
            self.n, self.wrong_at = 0, wrong_at

        def __call__(self, tokens: Any) -> Any:
            self.n += 1
            return right[(self.n - 1) % len(right)] * (float("nan") if self.n - 1 == self.wrong_at else 1.0)

    report = script.Report(options, right, 1e-4)
    report.add("right", Steps(None))
    report.add("wrong", Steps(5))
    said = capsys.readouterr().out.splitlines()
    assert "us a token" in said[0]
    assert "no time: its logits are wrong from step 5 on" in said[1]
    assert "us a token" not in said[1]
    assert report.wrong == 1
