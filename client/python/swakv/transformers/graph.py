# SPDX-License-Identifier: Apache-2.0
"""Decoding from a CUDA graph: one launch a token, whatever pages it needs.

::

    session = swakv.transformers.attach(model.config, ..., graph_steps=2)
    model.set_attn_implementation("swakv")
    with torch.cuda.stream(swakv.torch.stream(session)):
        cache = swakv.transformers.Cache(session, model.config)
        tokens = model(prompt, past_key_values=cache).logits[:, -1].argmax(-1)
        decode = swakv.transformers.Graph(model, cache)
        for _ in range(n):
            tokens = decode(tokens).argmax(-1)
"""

from __future__ import annotations

from typing import Any

import torch

from .. import torch as swakv_torch
from .cache import Cache


class Graph:
    """Steps of one token for each sequence of @cache, whose prompt it holds already, by @model with attention "swakv".

    The session was attached with graph_steps, and its stream is torch's current one. padding: the attention mask of the
    prompt, [batch, tokens]; None: all tokens are read. What the model does must be capturable: no value of a tensor may be
    asked for. Eager passes and crop() may come in between; a batch that has changed wants a new Graph.
    """

    def __init__(self, model: Any, cache: Cache, padding: torch.Tensor | None = None) -> None:
        if not cache.in_place:
            raise ValueError("a graph needs attention that reads the pages: model.set_attn_implementation('swakv')")
        if not cache.session.info.cuda:
            raise ValueError("the pool is on the host, where there are no CUDA graphs")
        self._model, self._cache = model, cache
        self._slots, self._sequences = cache._slots, cache.sequences
        batch, device = len(self._slots), cache.sequences.slots.device
        self._tokens = torch.zeros((batch, 1), dtype=torch.long, device=device)
        self._padded = torch.zeros((batch, 1), dtype=torch.long, device=device)
        self._mask: torch.Tensor | None = None
        if padding is not None:
            padding = padding.to(device=device, dtype=torch.bool)
            self._padded += (~padding).sum(1, keepdim=True)
            self._mask = torch.ones((batch, cache.session.model.max_seq), dtype=torch.bool, device=device)
            self._mask[:, : padding.shape[1]] = padding
        self._graph: Any = None
        self._graph_exec = 0
        self._logits: torch.Tensor | None = None

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits [batch, vocabulary] behind @tokens, [batch] or [batch, 1]. The next call overwrites them."""
        slots = self._cache._slots
        if self._cache._sequences is not self._sequences or (slots is not self._slots and slots != self._slots):
            raise ValueError("the cache's batch has changed since the graph was made: make a new one")
        self._tokens.copy_(tokens.view_as(self._tokens))
        if self._graph is None:
            logits = self._forward()  # which also compiles and loads the kernels
            self._capture()
            return logits
        self._cache._replay(self._graph_exec)
        assert self._logits is not None
        return self._logits

    def _forward(self) -> torch.Tensor:
        cache = self._cache
        positions = cache.sequences.lengths[:, None].long() - self._padded
        if not cache._capturing:  # the lengths are what the last step began with
            positions = torch.full_like(self._padded, cache.get_seq_length()) - self._padded
        with torch.no_grad():
            out = self._model(
                input_ids=self._tokens, position_ids=positions, past_key_values=cache, attention_mask=self._mask, use_cache=True
            )
        return out.logits[:, -1]

    def _capture(self) -> None:
        session, index = self._cache.session, self._cache._stream
        stream = session.stream(index)
        graph = torch.cuda.CUDAGraph()
        how = dict(stream=swakv_torch.stream(session, index), capture_error_mode="thread_local")
        with self._cache._captured(), torch.cuda.graph(graph, **how):
            stream.capture_begin()
            self._logits = self._forward()
            self._sequences.lengths.add_(1)
            stream.capture_end()
        self._graph, self._graph_exec = graph, graph.raw_cuda_graph_exec()
