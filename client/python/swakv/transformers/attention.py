# SPDX-License-Identifier: Apache-2.0
"""Attention "swakv" of transformers: `model.set_attn_implementation("swakv")`, and the passes of a swakv.transformers.Cache
read K and V in their pages instead of gathering them. Registered when this module is imported.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface

from .. import attention

NAME = "swakv"
_LAYER = "_swakv_layer"


def chosen(config: Any) -> bool:
    """True when the model of @config, a text configuration, has this attention."""
    return getattr(config, "_attn_implementation", None) == NAME


def hand_over(key: torch.Tensor, layer: Any) -> torch.Tensor:
    """@key as attend() wants it: it names the layer whose pages hold what came before."""
    key = key.view_as(key)
    setattr(key, _LAYER, layer)
    return key


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls. query, key, value: [batch, heads, tokens, head_dim]; attention_mask: what _padding() gave."""
    layer = getattr(key, _LAYER, None)
    if layer is None:
        raise ValueError(f"attention '{NAME}' needs past_key_values=swakv.transformers.Cache(...), in which its K and V are")
    if dropout or not getattr(module, "is_causal", True):
        raise ValueError(f"attention '{NAME}' is causal, without dropout; choose another with model.set_attn_implementation()")
    if attention_mask is not None and attention_mask.dim() != 2:
        raise ValueError(f"attention '{NAME}' takes a mask [batch, tokens] of padding, and got {list(attention_mask.shape)}")
    out = attention.attend(
        layer.pages, layer.layer, layer.cache.sequences, query, key, value,
        scale=query.shape[-1] ** -0.5 if scaling is None else scaling,
        softcap=softcap or 0.0, sinks=s_aux, padding=attention_mask,
    )  # fmt: skip
    layer.cache.attended(layer)
    return out, None


def _padding(*_: Any, attention_mask: torch.Tensor | None = None, use_vmap: bool = False, **__: Any) -> torch.Tensor | None:
    """The mask interface: attention knows what is causal and what the window is, so padding is all that it must be told."""
    if use_vmap:
        raise ValueError(f"attention '{NAME}' is causal, and the model asks for more; choose another one")
    return attention_mask


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, _padding)
