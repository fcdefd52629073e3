# SPDX-License-Identifier: Apache-2.0
"""From a transformers configuration to a swakv model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .. import torch as swakv_torch
from ..model import Form, Group, Model
from ..session import Session
from ..session import attach as attach_session

_SLIDING = "sliding_attention"
_FULL = "full_attention"
_DUMMY = "dummy"  # reads another layer's cache, or has no attention


@dataclass(frozen=True)
class Placement:
    """Where the K and V of a model's layers go: the group of each layer and its number there; None: it keeps none."""

    groups: tuple[Group, ...]
    layers: tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class _Layer:
    """What a configuration says of one layer's cache. kind: of transformers' layer types; heads: of K and V."""

    kind: str
    window: int | None
    heads: int
    head_dim: int


def _layers_of(config: Any) -> list[_Layer]:
    """The layers that have a cache of their own, in order, and _DUMMY ones that transformers 5.24 keeps between them."""
    from transformers.cache_utils import get_layer_types_and_kwargs

    types, kwargs = get_layer_types_and_kwargs(config)
    # Until 5.17 one configuration and one set of arguments is for all, and layers without a cache are left out.
    configs = getattr(config, "per_layer_config", None) or [config] * len(types)
    each = [kwargs] * len(types) if isinstance(kwargs, dict) else kwargs
    out = []
    for kind, extra, layer in zip(types, each, configs, strict=True):
        heads = getattr(layer, "num_key_value_heads", None) or layer.num_attention_heads
        head_dim = getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads
        out.append(_Layer(kind, extra.get("sliding_window") if kind == _SLIDING else None, heads, head_dim))
    return out


def placement_of(config: Any, dtype: torch.dtype, page_tokens: int, form: Form = "split") -> Placement:
    """Layers of one kind, window, head count and head size share a group, in the order in which they first appear."""
    config = config.get_text_config(decoder=True)
    if dtype not in swakv_torch.NAMES:
        raise ValueError(f"K and V of type {dtype} have no place in a pool; known: {', '.join(map(str, swakv_torch.NAMES))}")
    shapes: list[tuple[int | None, int, int]] = []
    counts: list[int] = []
    layers: list[tuple[int, int] | None] = []
    for layer in _layers_of(config):
        if layer.kind == _DUMMY:
            layers.append(None)
            continue
        if layer.kind not in (_SLIDING, _FULL):
            raise ValueError(f"layer {len(layers)} is of type '{layer.kind}'; known: {_SLIDING}, {_FULL}")
        shape = (layer.window, layer.heads, layer.head_dim)
        if shape not in shapes:
            shapes.append(shape)
            counts.append(0)
        group = shapes.index(shape)
        layers.append((group, counts[group]))
        counts[group] += 1
    name = swakv_torch.NAMES[dtype]
    groups = tuple(
        Group(layers=n, kv_heads=heads, head_dim=dim, window=window, page_tokens=page_tokens, dtype=name, form=form)
        for n, (window, heads, dim) in zip(counts, shapes, strict=True)
    )
    return Placement(groups, tuple(layers))


def model_of(
    config: Any,
    *,
    name: str | None = None,
    max_batch: int,
    max_seq: int,
    dtype: torch.dtype = torch.bfloat16,
    page_tokens: int = 64,
    max_rewind: int = 0,
    max_advance: int = 0,
    form: Form = "split",
) -> Model:
    """What a worker declares for the model of @config, a transformers configuration.

    name: None: the configuration's model_type. max_rewind: how many tokens crop() may take back. form: of the pages.
    """
    placement = placement_of(config, dtype, page_tokens, form)
    return Model(
        name or config.get_text_config(decoder=True).model_type,
        placement.groups,
        max_batch=max_batch,
        max_seq=max_seq,
        max_rewind=max_rewind,
        max_advance=max_advance,
    )


def attach(
    config: Any,
    broker: str | None = None,
    *,
    socket: str | None = None,
    wait: float = 0.0,
    graph_steps: int = 0,
    **model: Any,
) -> Session:
    """Attaches with the model of @config, and binds stream 0. Arguments: those of model_of().

    graph_steps: not 0, for a Graph: to a CUDA stream of its own, with so many steps in flight; see swakv.torch.bind().
    """
    session = attach_session(model_of(config, **model), broker, socket=socket, wait=wait)
    swakv_torch.bind(session, graph_steps=graph_steps)
    return session
