# SPDX-License-Identifier: Apache-2.0
"""A model on swakv pages beside others: no second copy of K and V, two models on one broker, a neighbour that dies."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import models  # noqa: E402
import processes  # noqa: E402

import swakv.torch  # noqa: E402
import swakv.transformers  # noqa: E402

NEIGHBOUR = """
import sys
sys.path[:0] = sys.argv[1].split(":")
import models, torch, types
models.DEVICE = sys.argv[2]
model = models.make("gpt_oss", torch.float32, 40)
session = models.attach(types.SimpleNamespace(socket_path=sys.argv[3]), model, form="joined")
print("attached", flush=True)
seed = 0
while True:
    cache = models.swakv.transformers.Cache(session, model.config)
    models.passes(model, cache, [models.ids(4, 60, seed), *torch.split(models.ids(4, 40, seed), 1, dim=1)])
    cache.close()
    seed += 1
    print("round", seed, flush=True)
"""


def outside_the_pool(session: Any) -> dict[int, int]:
    """Bytes of each storage that is alive and no view of the pool or of its tables: by address."""
    gc.collect()
    begin, end = session.info.pool_address, session.info.pool_address + session.info.pool_bytes
    found = {}
    for thing in gc.get_objects():
        if isinstance(thing, torch.Tensor) and thing.layout == torch.strided:
            storage = thing.untyped_storage()
            if not begin <= storage.data_ptr() < end:
                found[storage.data_ptr()] = storage.nbytes()
    return found


@pytest.mark.parametrize("form", ["split", "joined"])
@pytest.mark.parametrize("kind", models.SHAPES)
def test_no_second_copy_of_k_and_v_exists(pool: processes.Broker, kind: str, form: str) -> None:
    model = models.make(kind, torch.float32)
    with models.attach(pool, model, form=form, max_rewind=0) as session:
        free = [session.free_pages(g) for g in range(len(session.layouts))]
        cache = swakv.transformers.Cache(session, model.config)
        models.passes(model, cache, [models.ids(4, 10)])
        before = outside_the_pool(session)
        on_gpu = torch.cuda.memory_allocated() if models.DEVICE == "cuda" else 0
        models.passes(model, cache, [models.ids(4, 400), models.ids(4, 1)])
        after = outside_the_pool(session)
        new = sum(n for at, n in after.items() if at not in before)
        layer = 4 * models.WINDOW * 2 * 16 * 4  # bytes of K of one window of one layer
        assert new < layer, f"{new} bytes outlived the pass, K of one layer has {layer}"
        if models.DEVICE == "cuda":
            assert torch.cuda.memory_allocated() - on_gpu < layer
        held = [a - session.free_pages(g) for g, a in enumerate(free)]
        assert all(n >= 4 for n in held), "K and V are in pages"
        cache.close()


def test_two_models_on_one_broker_and_one_is_killed(pool: processes.Broker) -> None:
    here = str(Path(__file__).parent)
    model = models.make("gemma3_text", torch.float32)
    inputs = dict(
        input_ids=models.ids(2, 40).to(models.DEVICE),
        attention_mask=torch.ones(2, 40, dtype=torch.long, device=models.DEVICE),
        do_sample=False,
    )
    expected = model.generate(**inputs, max_new_tokens=150)
    path = f"{here}:{os.pathsep.join(sys.path)}"
    env = dict(os.environ, OMP_NUM_THREADS="1")
    neighbour = subprocess.Popen(
        [sys.executable, "-c", NEIGHBOUR, path, models.DEVICE, pool.socket_path], stdout=subprocess.PIPE, text=True, env=env
    )
    pool.workers.append(neighbour)
    assert neighbour.stdout is not None
    assert neighbour.stdout.readline() == "attached\n"
    assert neighbour.stdout.readline() == "round 1\n"
    with models.attach(pool, model) as session:

        def generate(tokens: int, after_pass: Any = None) -> None:
            cache = swakv.transformers.Cache(session, model.config)
            hook = model.register_forward_hook(lambda *_: after_pass(cache)) if after_pass else None
            got = model.generate(**inputs, past_key_values=cache, max_new_tokens=tokens)
            assert torch.equal(got, expected[:, : 40 + tokens])
            cache.close()
            if hook is not None:
                hook.remove()

        def kill_in_the_middle(cache: Any) -> None:
            if cache.get_seq_length() == 90:
                neighbour.kill()
                neighbour.wait()

        generate(50)
        generate(150, kill_in_the_middle)
        assert neighbour.returncode is not None
        generate(150)


@pytest.mark.parametrize("form", ["split", "joined"])
def test_tensors_of_a_group_are_the_pool(pool: processes.Broker, form: str) -> None:
    model = models.make("mistral", torch.bfloat16)
    with models.attach(pool, model, form=form) as session:
        t, layout = swakv.torch.group(session.layouts[0]), session.layouts[0]
        assert t.k.shape == t.v.shape == (layout.num_pages, 4, 16, 2, 16)
        assert t.extras.shape == (layout.num_pages, 4, 0)
        page = session.pages().take(1)[0]
        t.k[page, 3], t.v[page, 3] = 1.0, 2.0
        assert t.k[:, 3][page].data_ptr() == layout.k_first + page * layout.page_stride + 3 * layout.layer_stride
        assert t.v[:, 3][page].data_ptr() == layout.v_first + page * layout.page_stride + 3 * layout.layer_stride
        assert (t.pages is None) == (form == "split")
        if t.pages is not None:
            assert t.pages.shape == (layout.num_pages, layout.page_stride)
            whole = swakv.torch.tensor(layout.typed("bf16", (4, 2, 16, 2, 16)))  # layers, K and V, tokens, heads, elements
            assert (whole[page, 3, 0] == 1).all() and (whole[page, 3, 1] == 2).all() and (whole[page, :3] == 0).all()
            del whole
        with pytest.raises(swakv.ViewsAlive):
            session.close()
        del t


def test_the_example_gives_the_same_tokens(pool: processes.Broker) -> None:
    if models.DEVICE != "cpu":
        pytest.skip("the example attaches to a pool on the host")
    example = Path(__file__).resolve().parents[2] / "client/python/examples/generate.py"
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), SWAKV_BROKER=pool.name, XDG_RUNTIME_DIR=str(pool.folder))
    said = subprocess.run([sys.executable, str(example)], env=env, capture_output=True, text=True, check=False)
    assert said.stdout == "0 of 500 tokens differ\n", said.stderr
