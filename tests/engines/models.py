# SPDX-License-Identifier: Apache-2.0
"""Small models with random weights, and passes over them whose logits can be compared bit by bit."""

from __future__ import annotations

import functools
from typing import Any

import torch
import transformers

import swakv
import swakv.transformers

WINDOW = 32
DEVICE = "cpu"  # conftest.py sets it
SMALL = dict(
    vocab_size=128,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    max_position_embeddings=2048,
    bos_token_id=1,
    eos_token_id=None,
    pad_token_id=0,
)
MIXED = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
SHAPES: dict[str, dict[str, Any]] = {
    "mistral": {},
    # Untied, or the last token is the likeliest next one whatever K and V hold.
    "gemma3_text": dict(layer_types=MIXED, tie_word_embeddings=False),
    "gpt_oss": dict(num_local_experts=4, num_experts_per_tok=2, layer_types=MIXED[2:] * 2),
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


@functools.cache
def make(kind: str, dtype: torch.dtype, window: int = WINDOW) -> Any:
    config = transformers.AutoConfig.for_model(kind, **SMALL, **SHAPES[kind], sliding_window=window)
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    with torch.no_grad():  # large enough that outputs differ
        for p in model.parameters():
            if p.dim() > 1:
                p.normal_(0, 0.12)
    return model.to(DEVICE)


def attach(pool: Any, model: Any, **more: Any) -> swakv.Session:
    declared = dict(max_batch=16, max_seq=1024, dtype=model.dtype, page_tokens=16, max_rewind=24) | more
    return swakv.transformers.attach(model.config, socket=pool.socket_path, **declared)


def stock(model: Any) -> Any:
    return transformers.DynamicCache(config=model.config)


def passes(model: Any, cache: Any, chunks: list[Any], mask: Any = None, seen: int = 0) -> list[Any]:
    """Logits of each pass over a chunk of token ids [batch, n], behind @seen tokens. mask: of all that are seen, or more."""
    out = []
    for chunk in chunks:
        seen += chunk.shape[1]
        with torch.no_grad():
            out.append(
                model(
                    input_ids=chunk.to(DEVICE),
                    past_key_values=cache,
                    use_cache=True,
                    attention_mask=None if mask is None else mask[:, :seen].to(DEVICE),
                ).logits.cpu()
            )
    return out


def ids(batch: int, n: int, seed: int = 0) -> Any:
    return torch.randint(2, 128, (batch, n), generator=torch.Generator().manual_seed(seed))


def equal(mine: list[Any], theirs: list[Any]) -> None:
    for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        assert torch.equal(a, b), f"pass {i}: {(a != b).sum()} of {a.numel()} logits differ, by {(a - b).abs().max()}"
