# SPDX-License-Identifier: Apache-2.0
"""Attention over pages equals attention over plain tensors, whatever the shape; free pages are full of NaN, in no order.

On the CPU the Triton kernels are interpreted, and the plain torch that takes their place there is tried as well.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import models  # noqa: E402

import swakv.attention  # noqa: E402
from swakv.torch import GroupTensors  # noqa: E402

LAYERS = 2
# What differs from: 2 query heads a K head, D 16, P 16, W 40, one token, lengths below, at and above the window, no extras.
CASES: dict[str, dict[str, Any]] = {
    "one-token": {},
    "several-tokens": dict(tokens=7),
    "a-prompt": dict(tokens=90, lengths=[0, 0]),
    "a-later-chunk": dict(tokens=70, lengths=[33, 130]),
    "full-attention": dict(window=None),
    "full-attention-several-tokens": dict(window=None, tokens=5),
    "window-below-a-page": dict(window=24, page_tokens=64, lengths=[150, 23]),
    "window-of-one": dict(window=1),
    "soft-cap": dict(softcap=3.0),
    "sinks": dict(sinks=True),
    "sinks-soft-cap-several-tokens": dict(sinks=True, softcap=3.0, tokens=4),
    "padding": dict(padding=[20, 0, 100, 3]),
    "padding-in-the-prompt": dict(padding=[20, 0], tokens=60, lengths=[0, 0], window=None),
    "nothing-but-padding": dict(padding=[1000, 0], lengths=[50, 50], sinks=True),
    "one-head-each": dict(group=1),
    "five-heads-share": dict(group=5),
    "odd-sizes": dict(dim=80, v_dim=24),
    "large-heads": dict(dim=128, v_dim=128, lengths=[300, 40], window=None),
}


class History:
    """K and V of some sequences, as plain tensors and in shuffled pages of a pool that is full of NaN."""

    def __init__(self, dtype: Any, form: str, case: dict[str, Any]) -> None:
        self.window, self.size = case.get("window", 40), case.get("page_tokens", 16)
        self.group, self.tokens = case.get("group", 2), case.get("tokens", 1)
        self.dim = case.get("dim", 16)
        self.v_dim = case.get("v_dim", self.dim)
        self.lengths = case.get("lengths", [0, 39, 40, 131])
        self.softcap, self.heads = case.get("softcap", 0.0), 3
        n, most = len(self.lengths), max(self.lengths) + self.tokens
        make = torch.Generator().manual_seed(5)

        def noise(*shape: int) -> Any:
            return torch.randn(shape, generator=make).to(dtype)

        self.k, self.v = noise(LAYERS, n, self.heads, most, self.dim), noise(LAYERS, n, self.heads, most, self.v_dim)
        self.q = noise(LAYERS, n, self.heads * self.group, self.tokens, self.dim)
        self.sinks = noise(self.heads * self.group) if case.get("sinks") else None
        self.padding = None
        if "padding" in case:
            self.padding = torch.arange(most) >= torch.tensor(case["padding"])[:, None]
        self.slots = random.Random(2).sample(range(6), n)
        self.pages = self._pages(dtype, form, most)

    def _pages(self, dtype: Any, form: str, most: int) -> GroupTensors:
        columns = -(-most // self.size)
        pages = columns * len(self.lengths) + 5
        shape = (pages, LAYERS, self.size, self.heads)
        k, v = torch.empty((*shape, self.dim), dtype=dtype), torch.empty((*shape, self.v_dim), dtype=dtype)
        if form == "joined":  # layer by layer, K and then V
            row = self.heads * self.size
            both = torch.empty((pages, LAYERS, row * (self.dim + self.v_dim)), dtype=dtype, device=models.DEVICE)
            k, v = (part.unflatten(2, shape[2:] + (-1,)) for part in both.split([row * self.dim, row * self.v_dim], 2))
        table = torch.full((6, 1 if form == "joined" else 2, columns), -1, dtype=torch.int32)
        k, v = k.fill_(float("nan")).to(models.DEVICE), v.fill_(float("nan")).to(models.DEVICE)
        free = random.Random(3).sample(range(pages), pages)
        for i, (slot, length) in enumerate(zip(self.slots, self.lengths, strict=True)):
            behind = 0 if self.window is None else max(0, length - self.window + 1)
            kept = 0 if self.window is None else max(0, length + self.tokens - self.window)
            for column in range(columns):
                begin, end = column * self.size, (column + 1) * self.size
                read = begin < length and end > behind
                if not read and not (begin < length + self.tokens and end > kept):
                    continue
                page = free.pop()
                table[slot, :, column] = page
                n = min(end, length) - begin
                if n > 0:
                    k[page, :, :n] = self.k[:, i, :, begin : begin + n].transpose(1, 2).to(k.device)
                    v[page, :, :n] = self.v[:, i, :, begin : begin + n].transpose(1, 2).to(k.device)
        layout: Any = types.SimpleNamespace(window=self.window)
        return GroupTensors(layout, k, v, k, None, table.to(models.DEVICE), table)

    def new(self, x: Any) -> Any:
        """The step's own tokens of @x, a layer of K or V."""
        return torch.stack([row[:, n : n + self.tokens] for row, n in zip(x, self.lengths, strict=True)])

    def expected(self, layer: int) -> Any:
        """Of plain tensors, in f64."""
        out = []
        for i, n in enumerate(self.lengths):
            k, v = (x[layer, i, :, : n + self.tokens].double().repeat_interleave(self.group, 0) for x in (self.k, self.v))
            score = self.q[layer, i].double() @ k.transpose(1, 2) * 0.3
            if self.softcap:
                score = self.softcap * torch.tanh(score / self.softcap)
            at, mine = torch.arange(n + self.tokens), torch.arange(n, n + self.tokens)[:, None]
            allowed = (at <= mine) & (at > mine - (self.window or n + self.tokens))
            if self.padding is not None:
                allowed &= self.padding[i, : n + self.tokens]
            weight = score.exp() * allowed
            total = weight.sum(2, keepdim=True)
            if self.sinks is not None:
                total += self.sinks.double().exp()[:, None, None]
            out.append((torch.where(total == 0, 0.0, weight / total) @ v).transpose(0, 1))
        return torch.stack(out)


def run(h: History, layer: int) -> Any:
    """Writes the step's tokens, and attends."""

    def there(x: Any) -> Any:
        return None if x is None else x.to(models.DEVICE)

    where = swakv.attention.Sequences(*(there(torch.tensor(x, dtype=torch.int32)) for x in (h.slots, h.lengths)))
    k, v = there(h.new(h.k[layer])), there(h.new(h.v[layer]))
    swakv.attention.write(h.pages, layer, where, k, v)
    out = swakv.attention.attend(
        h.pages, layer, where, there(h.q[layer]), k, v,
        scale=0.3, softcap=h.softcap, sinks=there(h.sinks), padding=there(h.padding),
    )  # fmt: skip
    return out.cpu()


@pytest.fixture(params=["kernels", "plain-torch"])
def how(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    if models.DEVICE == "cuda" and request.param == "plain-torch":
        pytest.skip("on a GPU there are kernels")
    if models.DEVICE == "cpu":
        assert os.environ.get("TRITON_INTERPRET") == "1", "tests/engines/run sets it"
    if request.param == "plain-torch":
        monkeypatch.setattr(swakv.attention, "_kernels", lambda device: None)
    return str(request.param)


@pytest.mark.parametrize("form", ["split", "joined"])
@pytest.mark.parametrize("dtype", list(models.DTYPES))
@pytest.mark.parametrize("case", CASES)
def test_pages_are_read_where_they_lie(how: str, case: str, dtype: str, form: str) -> None:
    h = History(models.DTYPES[dtype], form, CASES[case])
    got, expected = run(h, 1), h.expected(1)
    exact = dict(rtol=1e-5, atol=1e-5) if dtype == "f32" else dict(rtol=2**-7, atol=2**-7)
    torch.testing.assert_close(got.double(), expected, **exact)


@pytest.mark.parametrize("form", ["split", "joined"])
@pytest.mark.parametrize("case", ["several-tokens", "a-later-chunk", "window-below-a-page"])
def test_what_is_written_is_what_the_pages_hold_and_nothing_else_is(how: str, case: str, form: str) -> None:
    h = History(torch.float32, form, CASES[case])
    before = [x.clone() for x in (h.pages.k, h.pages.v)]
    run(h, 1)
    for i, (slot, n) in enumerate(zip(h.slots, h.lengths, strict=True)):
        for position in range(n, n + h.tokens):
            page = int(h.pages.host_table[slot, 0, position // h.size])
            for got, new, plain in zip((h.pages.k, h.pages.v), before, (h.k, h.v), strict=True):
                if page >= 0:
                    assert torch.equal(got[page, 1, position % h.size].cpu(), plain[1, i, :, position])
                    new[page, 1, position % h.size] = got[page, 1, position % h.size]
    for got, new in zip((h.pages.k, h.pages.v), before, strict=True):
        assert torch.equal(got.nan_to_num(7.0), new.nan_to_num(7.0))


@pytest.mark.parametrize("case", ["one-token", "a-later-chunk", "full-attention"])
def test_a_page_that_is_missing_within_the_window_shows(how: str, case: str) -> None:
    h = History(torch.float32, "split", CASES[case])
    slot, n = h.slots[1], h.lengths[1]
    h.pages.table[slot, :, (n - 1) // h.size] = -1
    got = run(h, 0)
    assert got[1, 0].isnan().all()
    assert not got[0].isnan().any()


def test_kernels_compile_for_a_gpu() -> None:
    if models.DEVICE != "cpu":
        pytest.skip("the tests above compile them for this one")
    cases = ["full-attention", "sinks-soft-cap-several-tokens", "padding", "window-of-one", "large-heads"]
    command = [sys.executable, "-B", str(Path(__file__).with_name("compile_kernels.py")), *cases]
    done = subprocess.run(
        command, env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("_attend") == 2 * len(cases)
