# SPDX-License-Identifier: Apache-2.0
"""Tiny models with random but real weights, saved once: outputs depend on every position, so that a wrong page shows."""

from __future__ import annotations

import sys
from pathlib import Path

VOCABULARY = 2048
WINDOW = 128
MAX_LENGTH = 1024

# Shape: what transformers' configuration is given, and the deviation of all matrices.
SHAPES = {
    "mistral": (
        "mistral",
        dict(num_hidden_layers=4, num_key_value_heads=2, num_attention_heads=4, head_dim=32, hidden_size=128,
             intermediate_size=256, sliding_window=WINDOW),
        0.12,
    ),
    "gemma3": (
        "gemma3_text",
        dict(num_hidden_layers=6, num_key_value_heads=2, num_attention_heads=4, head_dim=32, hidden_size=128,
             intermediate_size=256, sliding_window=WINDOW, query_pre_attn_scalar=32,
             layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2),
        0.4,
    ),
}  # fmt: skip


def edition() -> str:
    """Changes with whatever the models are made of, so that no older one is taken."""
    import hashlib

    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]


def save(shape: str, folder: Path, scale: float | None = None) -> Path:
    """The model of @shape in @folder, made when it is not there."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    if (folder / "config.json").exists():
        return folder
    kind, options, deviation = SHAPES[shape]
    deviation = scale or deviation
    config = AutoConfig.for_model(
        kind, vocab_size=VOCABULARY, max_position_embeddings=MAX_LENGTH, tie_word_embeddings=False,
        bos_token_id=1, eos_token_id=2, pad_token_id=0, **options,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    generator = torch.Generator().manual_seed(20)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, deviation, generator=generator)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    return folder


if __name__ == "__main__":
    save(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else None)
