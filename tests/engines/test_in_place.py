# SPDX-License-Identifier: Apache-2.0
"""Models whose attention reads the pages: the stock cache's tokens and, within rounding, its logits, with and without a graph.

On the CPU plain torch takes the kernels' place, for time; test_interpreted_kernels is the exception.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import free_pages  # noqa: E402
import models  # noqa: E402
import processes  # noqa: E402
import test_matrix  # noqa: E402

import swakv.attention  # noqa: E402
import swakv.transformers  # noqa: E402

POOL = test_matrix.POOL
STEPS = 500
PROMPT, BATCH, PADDED = 45, 3, 17
# Of the largest logit. bf16 has 8 bits: each layer rounds what it hands on, and sums come in another order here.
ROUNDING = {"f32": 1e-4, "bf16": 2**-5}


@pytest.fixture(autouse=True)
def plain_torch_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    if models.DEVICE == "cpu":
        monkeypatch.setattr(swakv.attention, "_kernels", lambda device: None)


@contextlib.contextmanager
def in_place(model: Any) -> Iterator[None]:
    before = model.config._attn_implementation
    model.set_attn_implementation("swakv")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextlib.contextmanager
def cache_of(
    pool: processes.Broker, model: Any, graph: bool = False, watched: bool = True, ahead: bool = False, **declared: Any
) -> Iterator[Any]:
    """A cache of a session on whose stream the block runs; free pages are in no order and, if @watched, always full of NaN."""
    declared = dict(max_rewind=int(ahead)) | declared
    with models.attach(pool, model, graph_steps=2 if graph else 0, **declared) as session:
        held = free_pages.shuffle(session)
        current = torch.cuda.stream(swakv.torch.stream(session)) if graph else contextlib.nullcontext()
        with current, in_place(model):
            cache: Any
            if watched:
                cache = free_pages.Watched(session, model.config)
            else:
                cache = swakv.transformers.Cache(session, model.config, ahead=ahead)
            try:
                yield cache
            finally:
                cache.close()
                gc.collect()  # interpreted kernels leave their arguments in cycles
                for group, pages in held.items():
                    session.pages(group).give(pages)


def mask_of(batch: int = BATCH) -> Any:
    mask = torch.ones((batch, PROMPT), dtype=torch.long)
    mask[0, :PADDED] = 0
    return mask


def close(mine: Any, theirs: Any, dtype: str) -> None:
    bound = ROUNDING[dtype] * theirs.abs().max()
    assert (mine - theirs).abs().max() <= bound, f"{(mine - theirs).abs().max()} where {bound} is rounding"


def decode(model: Any, cache: Any, steps: int, *, fed: Any = None, graph: bool = False) -> tuple[Any, Any]:
    """Tokens [batch, steps] and the logits that chose them. fed: what is fed instead of what was chosen."""
    mask = mask_of().to(models.DEVICE)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    chosen, logits = [], []
    with torch.no_grad():
        last = model(
            models.ids(BATCH, PROMPT).to(models.DEVICE), past_key_values=cache, attention_mask=mask, position_ids=positions
        ).logits[:, -1]
    step = swakv.transformers.Graph(model, cache, mask) if graph else None
    for i in range(steps):
        logits.append(last.float().cpu().clone())
        chosen.append(last.argmax(-1))
        token = (chosen[-1] if fed is None else fed[:, i].to(models.DEVICE))[:, None]
        if step is not None:
            last = step(token)
            continue
        mask = torch.nn.functional.pad(mask, (0, 1), value=1)
        with torch.no_grad():
            last = model(
                token, past_key_values=cache, attention_mask=mask, position_ids=mask.sum(1, keepdim=True) - 1
            ).logits[:, -1]
    return torch.stack(chosen, 1).cpu(), torch.stack(logits, 1)


@functools.cache
def model_of(kind: str, dtype: str) -> Any:
    model = copy.deepcopy(models.make(kind, models.DTYPES[dtype]))
    if kind == "gpt_oss":
        model.set_experts_implementation("batched_mm")  # the default asks for values of tensors, which no capture can hold
        for layer in model.model.layers:  # all of them: which ones are best is not to hang on rounding
            layer.mlp.router.top_k = model.config.num_local_experts
    return model


@functools.cache
def stock(kind: str, dtype: str) -> tuple[Any, Any]:
    model = model_of(kind, dtype)
    tokens, logits = decode(model, models.stock(model), STEPS)
    assert min(len(set(row.tolist())) for row in tokens) > 20, "the outputs are worth comparing"
    return tokens, logits


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize(
    ("kind", "dtype", "form"),
    [
        ("mistral", "f32", "split"), ("mistral", "bf16", "joined"), ("gemma3_text", "f32", "joined"),
        ("gemma3_text", "bf16", "split"), ("gpt_oss", "f32", "split"), ("gpt_oss", "bf16", "joined"),
    ],
)  # fmt: skip
def test_500_steps(pool: processes.Broker, kind: str, dtype: str, form: str, graph: bool) -> None:
    if graph and models.DEVICE == "cpu":
        pytest.skip("graphs need a GPU")
    model, (tokens, logits) = model_of(kind, dtype), stock(kind, dtype)
    with cache_of(pool, model, graph, watched=False, ahead=form == "joined", form=form) as cache:
        # In bf16 the two best logits are often one step of rounding apart, and then either may be chosen.
        mine, got = decode(model, cache, STEPS, graph=graph, fed=None if dtype == "f32" else tokens)
        assert cache.get_seq_length() == PROMPT + STEPS
    close(got, logits, dtype)
    if dtype == "f32":
        assert torch.equal(mine, tokens)
    best = logits.gather(2, mine[:, :, None])[:, :, 0]
    assert (best >= logits.max(2).values - ROUNDING[dtype] * logits.abs().max()).all()
    assert (mine == tokens).float().mean() > 0.9


@pytest.mark.parametrize("kind", models.SHAPES)
def test_interpreted_kernels(pool: processes.Broker, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if models.DEVICE != "cpu":
        pytest.skip("on a GPU nothing is interpreted")
    monkeypatch.undo()
    model, (tokens, logits) = model_of(kind, "f32"), stock(kind, "f32")
    with cache_of(pool, model) as cache:
        mine, got = decode(model, cache, 40)
    close(got, logits[:, :40], "f32")
    assert torch.equal(mine, tokens[:, :40])


@pytest.mark.parametrize(
    ("kind", "prompt", "batch"),
    [(k, p, (1, 4)[(i + j) % 2]) for i, k in enumerate(models.SHAPES) for j, p in enumerate(test_matrix.AXES["prompt"])],
)
def test_prompts_chunks_padding_and_crop(pool: processes.Broker, kind: str, prompt: str, batch: int) -> None:
    """As the matrix, within rounding."""
    form, (window, page_tokens) = ("split", (37, 16)) if batch == 1 else ("joined", (24, 64))
    model = models.make(kind, torch.float32, window)
    chunks, mask, theirs = test_matrix.expected(kind, "f32", window, prompt, batch)
    rewind = test_matrix.CROP if prompt == "cropped" else 0
    with cache_of(pool, model, form=form, page_tokens=page_tokens, max_rewind=rewind) as cache:
        at = len(chunks) // 2 if rewind else len(chunks)
        seen = sum(chunk.shape[1] for chunk in chunks[:at])
        mine = models.passes(model, cache, chunks[:at], mask)
        if rewind:
            wrong = list(torch.split(models.ids(batch, rewind, seed=9), 1, dim=1))
            longer = None if mask is None else torch.nn.functional.pad(mask, (0, rewind), value=1)
            models.passes(model, cache, wrong, longer, seen)
            cache.crop(-rewind)
        mine += models.passes(model, cache, chunks[at:], mask, seen)
    real = torch.ones_like(torch.cat(chunks, 1)) if mask is None else mask
    close(torch.cat(mine, 1)[real.bool()], torch.cat(theirs, 1)[real.bool()], "f32")


@pytest.mark.parametrize("how", [dict(do_sample=False), dict(num_beams=3)], ids=["greedy", "beams"])
@pytest.mark.parametrize("kind", models.SHAPES)
def test_generate_gives_the_same_tokens(pool: processes.Broker, kind: str, how: dict[str, Any]) -> None:
    model = models.make(kind, torch.float32)
    inputs = dict(input_ids=models.ids(2, 40).to(models.DEVICE), max_new_tokens=60)
    expected = model.generate(**inputs, **how)
    with cache_of(pool, model) as cache:
        assert torch.equal(model.generate(**inputs, **how, past_key_values=cache), expected)


def test_a_batch_that_gets_smaller_and_another_order(pool: processes.Broker) -> None:
    model = models.make("gemma3_text", torch.float32)
    tokens, after = models.ids(3, 50), [models.ids(2, 1, seed=i) for i in range(40)]
    theirs = models.stock(model)
    models.passes(model, theirs, [tokens])
    theirs.batch_select_indices(torch.tensor([2, 0]))
    expected = models.passes(model, theirs, after)
    with cache_of(pool, model) as cache:
        models.passes(model, cache, [tokens])
        cache.batch_select_indices(torch.tensor([2, 0]))
        close(torch.cat(models.passes(model, cache, after)), torch.cat(expected), "f32")


def test_one_cache_gathers_and_is_read_in_place_in_turn(pool: processes.Broker) -> None:
    model = models.make("gpt_oss", torch.float32)
    chunks = list(torch.split(models.ids(2, 120), [60, *[1] * 60], dim=1))
    expected = models.passes(model, models.stock(model), chunks)
    with cache_of(pool, model) as cache:
        mine = models.passes(model, cache, chunks[:20])
        model.set_attn_implementation("eager")
        mine += models.passes(model, cache, chunks[20:40], seen=79)
        model.set_attn_implementation("swakv")
        mine += models.passes(model, cache, chunks[40:], seen=99)
    close(torch.cat(mine, 1), torch.cat(expected, 1), "f32")


def test_what_has_no_place_is_refused(pool: processes.Broker) -> None:
    model = models.make("mistral", torch.float32)
    with in_place(model), pytest.raises(ValueError, match="past_key_values=swakv.transformers.Cache"):
        models.passes(model, models.stock(model), [models.ids(1, 10)])
    with cache_of(pool, model) as cache:
        with pytest.raises(ValueError, match=r"mask \[batch, tokens\] of padding"), torch.no_grad():
            model(
                models.ids(1, 10).to(models.DEVICE), past_key_values=cache,
                attention_mask=torch.zeros(1, 1, 10, 10, device=models.DEVICE),
            )  # fmt: skip
        cache.reset()
        if models.DEVICE == "cpu":
            with pytest.raises(ValueError, match="the pool is on the host"):
                swakv.transformers.Graph(model, cache)
        model.set_attn_implementation("sdpa")
        with pytest.raises(ValueError, match="set_attn_implementation"):
            swakv.transformers.Graph(model, cache)
