# SPDX-License-Identifier: Apache-2.0
"""Models with random weights on swakv pages: every logit equals that of the library's own dynamic cache."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import processes  # noqa: E402
from models import SHAPES, attach, equal, ids, make, passes, stock  # noqa: E402

import swakv  # noqa: E402
import swakv.transformers  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(
    "lengths",
    [
        pytest.param([1] * 5, id="from-nothing"),
        pytest.param([20, *[1] * 60], id="across-the-window"),
        pytest.param([100, *[1] * 40], id="prompt-longer-than-the-window"),
        pytest.param([31, 1, 1, 1, 64, 5, 1, 1], id="to-the-edge"),
        pytest.param([40, 50, 60, 3, 2, *[1] * 20], id="chunked-prompt"),
    ],
)
def test_every_logit_is_equal(pool: processes.Broker, kind: str, dtype: torch.dtype, lengths: list[int]) -> None:
    model = make(kind, dtype)
    tokens = ids(2, sum(lengths))
    chunks = list(torch.split(tokens, lengths, dim=1))
    expected = passes(model, stock(model), chunks)
    with attach(pool, model) as session:
        cache = swakv.transformers.Cache(session, model.config)
        equal(passes(model, cache, chunks), expected)
        cache.close()


@pytest.mark.parametrize("kind", SHAPES)
def test_left_padding(pool: processes.Broker, kind: str) -> None:
    model = make(kind, torch.float32)
    lengths = [50, *[1] * 30]
    tokens = ids(3, sum(lengths))
    mask = torch.ones_like(tokens)
    mask[0, :17], mask[2, :40] = 0, 0
    chunks = list(torch.split(tokens, lengths, dim=1))
    with attach(pool, model) as session:
        cache = swakv.transformers.Cache(session, model.config)
        equal(passes(model, cache, chunks, mask), passes(model, stock(model), chunks, mask))
        cache.close()


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(
    "how", [dict(do_sample=False), dict(num_beams=3), dict(do_sample=True), dict(num_beams=2, num_return_sequences=2)],
    ids=["greedy", "beams", "sampled", "beams-returned"],
)  # fmt: skip
def test_generate_gives_the_same_tokens(pool: processes.Broker, kind: str, how: dict[str, Any]) -> None:
    model = make(kind, torch.float32)
    inputs = dict(input_ids=ids(2, 40), attention_mask=torch.ones(2, 40, dtype=torch.long), max_new_tokens=40)
    transformers.set_seed(3)
    expected = model.generate(**inputs, **how)
    with attach(pool, model) as session:
        cache = swakv.transformers.Cache(session, model.config)
        transformers.set_seed(3)
        assert torch.equal(model.generate(**inputs, **how, past_key_values=cache), expected)
        cache.close()


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("back", [1, 5, 24])
def test_crop_is_a_rewind(pool: processes.Broker, kind: str, back: int) -> None:
    model = make(kind, torch.float32)
    first, again = ids(2, 70), ids(2, 30, seed=1)
    steps = [first[:, :60], *torch.split(first[:, 60:], 1, dim=1)]
    rest = list(torch.split(again, [3, 7, *[1] * 20], dim=1))
    whole = [torch.cat([first[:, : 70 - back], again[:, :3]], dim=1), *rest[1:]]
    expected = passes(model, stock(model), whole)
    with attach(pool, model) as session:
        cache = swakv.transformers.Cache(session, model.config)
        passes(model, cache, steps)
        cache.crop(-back)
        assert cache.get_seq_length() == 70 - back
        got = passes(model, cache, rest)
        torch.testing.assert_close(got[0], expected[0][:, -3:])  # other chunks, so not bit by bit
        for a, b in itertools.zip_longest(got[1:], expected[1:]):
            torch.testing.assert_close(a, b)
        cache.close()


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("back", [0, 1, 5, 23])
def test_steps_that_were_prepared_ahead_are_used_or_taken_back(pool: processes.Broker, kind: str, back: int) -> None:
    model = make(kind, torch.float32)
    first, again = ids(2, 90), ids(2, 40, seed=1)
    steps = [*torch.split(first, [50, *[1] * 20, 3, 1, 1, 5, *[1] * 10], dim=1)]
    rest = list(torch.split(again, [3, 7, *[1] * 30], dim=1))
    with attach(pool, model) as session:
        plain = swakv.transformers.Cache(session, model.config)
        ahead = swakv.transformers.Cache(session, model.config, ahead=True)
        equal(passes(model, ahead, steps), passes(model, plain, steps))
        for cache in plain, ahead:
            cache.crop(-back)
            assert cache.get_seq_length() == 90 - back
        equal(passes(model, ahead, rest), passes(model, plain, rest))
        for cache in plain, ahead:
            cache.batch_select_indices(torch.tensor([1]))
        one = list(torch.split(again[:1], 1, dim=1))
        equal(passes(model, ahead, one), passes(model, plain, one))
        ahead.reset()  # with a step that was prepared ahead
        assert ahead.get_seq_length() == 0
        plain.reset()
        equal(passes(model, ahead, steps), passes(model, plain, steps))
        plain.close()
        ahead.close()


@pytest.mark.parametrize("how", [dict(do_sample=False), dict(num_beams=3)], ids=["greedy", "beams"])
def test_generate_gives_the_same_tokens_with_steps_prepared_ahead(pool: processes.Broker, how: dict[str, Any]) -> None:
    model = make("gemma3_text", torch.float32)
    inputs = dict(input_ids=ids(2, 40), attention_mask=torch.ones(2, 40, dtype=torch.long), max_new_tokens=40)
    expected = model.generate(**inputs, **how)
    with attach(pool, model, max_seq=80) as session:  # no longer than that: the last step has none ahead of it
        cache = swakv.transformers.Cache(session, model.config, ahead=True)
        assert torch.equal(model.generate(**inputs, **how, past_key_values=cache), expected)
        cache.close()


def test_without_rewind_nothing_is_prepared_ahead(pool: processes.Broker) -> None:
    model = make("mistral", torch.float32)
    with attach(pool, model, max_rewind=0) as session, pytest.raises(ValueError, match="max_rewind"):
        swakv.transformers.Cache(session, model.config, ahead=True)


def test_crop_beyond_max_rewind_is_refused(pool: processes.Broker) -> None:
    model = make("mistral", torch.float32)
    with attach(pool, model, max_rewind=4) as session:
        cache = swakv.transformers.Cache(session, model.config)
        passes(model, cache, [ids(1, 60)])
        with pytest.raises(swakv.Error, match="5"):
            cache.crop(-5)
        assert cache.get_seq_length() == 60
        cache.close()


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(
    "select", [[2, 0, 1], [1], [2, 1], [0, 0, 2], [1, 1], [0, 0, 1, 1, 2, 2]], ids=lambda s: "".join(map(str, s))
)
def test_rows_are_selected_reordered_and_repeated(pool: processes.Broker, kind: str, select: list[int]) -> None:
    model = make(kind, torch.float32)
    tokens = ids(3, 50)
    after = [ids(len(select), 1, seed=i) for i in range(40)]
    theirs = stock(model)
    chunks = [tokens[:, :45], *torch.split(tokens[:, 45:], 1, dim=1)]
    passes(model, theirs, chunks)
    with attach(pool, model) as session:
        mine = swakv.transformers.Cache(session, model.config)
        passes(model, mine, chunks)
        for cache in (mine, theirs):
            cache.batch_select_indices(torch.tensor(select))
        equal(passes(model, mine, after), passes(model, theirs, after))
        mine.close()


def test_pages_come_back(pool: processes.Broker) -> None:
    model = make("gpt_oss", torch.float32)
    with attach(pool, model) as session:
        free = [session.free_pages(g) for g in range(2)]
        for how in ("close", "reset", "drop"):
            cache = swakv.transformers.Cache(session, model.config)
            passes(model, cache, [ids(4, 100), ids(4, 1)])
            assert session.free_pages(0) < free[0]
            if how == "drop":
                del cache
            else:
                getattr(cache, how)()
            assert [session.free_pages(g) for g in range(2)] == free, how


def test_a_session_of_another_model_is_refused(pool: processes.Broker) -> None:
    with attach(pool, make("mistral", torch.float32)) as session, pytest.raises(ValueError, match="layer groups"):
        swakv.transformers.Cache(session, make("gpt_oss", torch.float32).config)
