# SPDX-License-Identifier: Apache-2.0
"""A transformers cache whose K and V live in swakv pages and nowhere else.

One request of a session is one cache: each row of the batch is a sequence, each forward pass a step. The first layer
that is updated in a pass prepares the step, the last completes it. What `update` returns is gathered from the pages, so
attention itself needs no change; unless it is "swakv" (attention.py), which reads the pages.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache as TransformersCache
from transformers.cache_utils import CacheLayerMixin

from .. import errors
from .. import torch as swakv_torch
from .._abi import CU_STREAM_LEGACY
from ..attention import Sequences, write
from ..call import Ticket
from ..request import Request, Step
from ..session import Session
from ..turn import Ahead
from . import attention
from .config import Placement, placement_of
from .rows import Rows
from .slots import return_slots, take_slots


class _Layer(CacheLayerMixin):
    """One layer of the model. All that concerns the batch goes to the cache, once for all layers."""

    is_compileable = False
    is_croppable = True

    def __init__(self, cache: Cache, index: int, group: int, layer: int, window: int | None) -> None:
        super().__init__()
        self._cache = weakref.ref(cache)
        self.index, self.group, self.layer, self.window = index, group, layer, window
        self.is_sliding = window is not None
        self.is_initialized = True
        if window is not None:
            self.sliding_window = window

    @property
    def cache(self) -> Cache:
        cache = self._cache()
        assert cache is not None
        return cache

    @property
    def pages(self) -> swakv_torch.GroupTensors:
        return self.cache._tensors[self.group]

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Pages are there already."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.cache.in_place:
            return self.cache._write(self, key_states, value_states)
        return self.cache._update(self, key_states, value_states)

    def get_seq_length(self) -> int:
        return self.cache._seen(self)

    def get_max_length(self) -> int:
        return -1 if self.window is None else self.window

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        seen = self.get_seq_length()
        if self.window is None:
            return seen + query_length, 0
        if seen >= self.window:
            return self.window - 1 + query_length, seen - self.window + 1
        return seen + query_length, 0

    def offload(self) -> None:
        """K and V stay in the pool."""

    def prefetch(self) -> None:
        """K and V are in the pool."""

    def reset(self) -> None:
        self.cache.reset()

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        self.cache.reorder_cache(beam_idx)

    def crop(self, tokens_to_remove: int) -> None:
        self.cache.crop(tokens_to_remove)

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.cache.batch_repeat_interleave(repeats)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        self.cache.batch_select_indices(indices)


class Cache(TransformersCache):
    """K and V of a batch, in the pages of @session, which was attached with the model of @config.

    stream: of the session. wait: seconds to wait for pages when the batch begins. max_tokens: what no sequence will
    exceed, 0: max_seq of the model; fewer pages are reserved.

    ahead: behind a pass of one token a message ends its step and prepares the next one of one token, and the next pass takes
    the answer: nothing waits for the broker. If something else comes, that step is taken back, for which the model needs a
    max_rewind of 1 at least; crop() then has one token less.

    Close it, or drop it, to give the pages back. crop() takes back at most max_rewind tokens. Beam search and
    batch_repeat_interleave() copy K and V within the pool: no page is shared.
    """

    def __init__(
        self,
        session: Session,
        config: Any,
        *,
        stream: int = 0,
        wait: float = 0.0,
        max_tokens: int = 0,
        ahead: bool = False,
    ) -> None:
        if ahead and session.model.max_rewind < 1:
            raise ValueError("ahead=True takes steps back that were prepared in vain: attach with max_rewind=1 or more")
        dtype = swakv_torch.DTYPES[session.layouts[0].dtype]
        placement = placement_of(config, dtype, session.layouts[0].page_tokens)
        _check_groups(session, placement)
        self.session, self._stream, self._wait, self._max_tokens = session, stream, wait, max_tokens
        self._config = config.get_text_config(decoder=True)
        self._tensors = [swakv_torch.group(layout) for layout in session.layouts]
        self._request: Request | None = None
        self._step: Step | None = None
        self._turns_ahead = ahead
        self._ahead: Ahead | None = None  # the next step, when it has been prepared before anybody asked for it
        self._rows: list[Rows] = []
        self._updated: set[int] = set()
        self._length = 0  # tokens of each sequence, those of the step under way not included
        self._chunk = 0  # tokens of the step under way
        self._slots: list[int] = []
        self._sequences: Sequences | None = None
        # Slots and length that _sequences holds, when what is enqueued has run
        self._told_slots: list[int] | None = None
        self._told_length = -1
        self._most = max_tokens or session.model.max_seq
        self._cuda_stream = 0  # the CUDA stream, once it is known
        self._last: Ticket | None = None  # of a complete that nobody has waited for
        self._capturing = False
        layers: list[Any] = []
        for index, place in enumerate(placement.layers):
            if place is None:
                layers.append(_dummy_layer())
            else:
                group, layer = place
                layers.append(_Layer(self, index, group, layer, session.layouts[group].window))
        self._own = sum(isinstance(layer, _Layer) for layer in layers)
        # Layers without K and V of their own may read those of others until the pass ends.
        self._borrowers = self._own < max(len(layers), self._config.num_hidden_layers)
        super().__init__(layers=layers)

    # ---- a forward pass --------------------------------------------------------------------

    def _seen(self, layer: _Layer) -> int:
        return self._length + (self._chunk if layer.index in self._updated else 0)

    def _update(self, layer: _Layer, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self._step is not None and layer.index in self._updated:
            self._complete()  # a pass that left layers out
        if self._step is None:
            self._prepare(k.shape[0], k.shape[2])
        rows, start = self._rows[layer.group], self._length
        behind = 0 if layer.window is None else max(0, start - layer.window + 1)
        out = []
        for values, is_v in ((k, False), (v, True)):
            new = max(start, rows.first)  # before it lie tokens of the chunk that have left the window already
            rows.write(layer.layer, new, values[:, :, new - start :], is_v)
            parts = [values[:, :, : new - start], rows.read(layer.layer, new, start + self._chunk, is_v)]
            if behind < start:
                parts.insert(0, rows.read(layer.layer, behind, start, is_v))
            out.append(torch.cat([p for p in parts if p.shape[2]], dim=2))
        self._updated.add(layer.index)
        if len(self._updated) == self._own:
            self._complete()
        return out[0], out[1]

    @property
    def in_place(self) -> bool:
        """True when the model's attention reads the pages, and nothing is gathered."""
        return attention.chosen(self._config)

    @property
    def sequences(self) -> Sequences:
        """Slots and lengths on the device; the same tensors as long as the batch has the same size."""
        n = len(self._slots)
        if self._sequences is None or len(self._sequences.slots) != n:
            device = self._tensors[0].table.device
            self._sequences = Sequences(*(torch.zeros(n, dtype=torch.int32, device=device) for _ in range(2)))
            self._told_slots, self._told_length = None, -1
        return self._sequences

    @property
    def _device_knows(self) -> bool:
        return self._told_slots is self._slots and self._told_length == self._length  # a batch that changes has a new list

    def _tell_device(self) -> None:
        if self._device_knows:
            return
        sequences = self.sequences
        if self._told_slots is not self._slots:
            sequences.slots.copy_(torch.tensor(self._slots, dtype=torch.int32))
        if self._told_length != self._length:
            sequences.lengths.fill_(self._length)
        self._told_slots, self._told_length = self._slots, self._length

    def _write(self, layer: _Layer, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """As _update(), for attention in place. A capture prepares nothing: each replay is a step."""
        if not self._capturing:
            if self._step is not None and layer.index in self._updated:
                self._complete()
            if self._step is None:
                self._prepare(k.shape[0], k.shape[2])
        write(layer.pages, layer.layer, self.sequences, k, v)
        self._updated.add(layer.index)
        return attention.hand_over(k, layer), v

    def attended(self, layer: _Layer) -> None:
        """@layer's attention has been enqueued: behind the last one's the step is complete."""
        if len(self._updated) == self._own and not self._borrowers and not self._capturing:
            self._complete()

    def _prepare(self, batch: int, tokens: int) -> None:
        self._check_stream()
        self._collect()
        if self._request is None:
            self._slots = take_slots(self.session, batch)
            try:
                self._request = self.session.begin(self._slots, max_tokens=self._max_tokens, stream=self._stream, wait=self._wait)
            except BaseException:
                return_slots(self.session, self._slots)
                raise
            self._step = self._request.prefill(tokens)
        else:
            if batch != len(self._slots):
                raise ValueError(f"the cache holds {len(self._slots)} sequences, and the pass has {batch}")
            self._step = self._take_ahead(self._request, tokens) or self._request.step(tokens)
        self._chunk = tokens
        if self.in_place:
            self._tell_device()
        else:
            self._rows = [Rows(t, self._slots) for t in self._tensors]

    def _complete(self) -> None:
        assert self._step is not None
        step, self._step = self._step, None
        self._length += self._chunk
        if self._chunk == 1 and self._goes_ahead:
            self._ahead = Ahead.of(self._ahead, step.request)
            self._ahead.turn()
        else:
            step.complete()
        self._chunk = 0
        self._rows = []
        self._updated.clear()

    @property
    def _goes_ahead(self) -> bool:
        return self._turns_ahead and self._length < self._most

    def _take_ahead(self, request: Request, tokens: int) -> Step | None:
        """The step that was prepared ahead, if it has @tokens tokens; another is taken back."""
        if self._ahead is None or not self._ahead.under_way:
            return None
        step = self._ahead.collect()
        if step is not None and tokens != 1:
            step.complete()
            request.rewind(1)
            return None
        return step

    def _check_stream(self) -> None:
        if not self.session.info.cuda:
            return
        if not self._cuda_stream:
            self._cuda_stream = self.session.stream(self._stream).cuda_stream
        bound, current = self._cuda_stream, torch.cuda.current_stream().cuda_stream
        if bound != (current or CU_STREAM_LEGACY):
            raise ValueError(
                f"the pass runs on CUDA stream {current:#x}, and stream {self._stream} of the session is {bound:#x}: "
                "enclose it in `with torch.cuda.stream(swakv.torch.stream(session)):`"
            )

    # ---- steps from a CUDA graph (graph.py) ------------------------------------------------------

    @contextlib.contextmanager
    def _captured(self) -> Iterator[Request]:
        """Within the block passes of one token are captured: they prepare nothing, and complete nothing."""
        request = self._settle()
        if request is None:
            raise ValueError("the cache is empty: a graph is captured behind the prompt")
        self._capturing, self._chunk = True, 1
        try:
            yield request
        finally:
            self._capturing, self._chunk = False, 0
            self._updated.clear()

    def _replay(self, graph_exec: int) -> None:
        """One step by a captured graph, which counts the lengths on."""
        ahead = self._ahead
        if (
            ahead is not None and ahead.under_way and self._length + 1 < self._most and self._device_knows
            and ahead.replay(graph_exec)
        ):  # fmt: skip
            self._length += 1
            self._told_length += 1
        else:
            self._replay_by_parts(graph_exec)

    def _replay_by_parts(self, graph_exec: int) -> None:
        """The first step, the last one, and one that was refused."""
        if self._step is not None:
            self._complete()
        self._collect()
        request = self._request
        if request is None:
            raise ValueError("the cache has been closed or reset: capture a new graph behind the next prompt")
        self._tell_device()
        stream = request.stream
        stream.set_replay(True)
        try:
            step = self._take_ahead(request, 1) or request.step()
            fence = stream.replay(graph_exec)
            self._length += 1
            self._told_length += 1
            if self._goes_ahead:
                self._ahead = Ahead.of(self._ahead, request)
                self._ahead.turn(fence)
            else:
                self._last = step.start_complete(fence)
        finally:
            stream.set_replay(False)

    def _collect(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.wait()

    def _copy_rows(self, source: Sequence[Rows], target: Sequence[Rows], order: torch.Tensor) -> None:
        """Sequence i of @target gets what sequence order[i] of @source holds. Only where a mark follows."""
        for s, t in zip(source, target, strict=True):
            begin = max(s.first, t.first)
            for layer in range(s.t.layout.layers):
                for is_v in (False, True):
                    values = s.read(layer, begin, self._length, is_v)
                    t.write(layer, begin, values[order.to(values.device)], is_v)

    # ---- what moves or ends the batch ---------------------------------------------------------

    def _settle(self) -> Request | None:
        """The request between two steps, all layers of the last pass seen or not."""
        if self._step is not None:
            self._complete()
        self._collect()
        if self._request is not None:
            self._take_ahead(self._request, 0)
        return self._request

    def crop(self, tokens_to_remove: int) -> None:
        """Takes the last -@tokens_to_remove tokens back. Positive (until transformers 5.17): the length that stays."""
        request = self._settle()
        n = -tokens_to_remove if tokens_to_remove <= 0 else max(0, self._length - tokens_to_remove)
        if request is None or n == 0:
            return
        request.rewind(n)
        self._length -= n

    def reset(self) -> None:
        """Gives all pages back; the cache is as new."""
        if self._request is None:
            return
        request, self._request = self._request, None
        with contextlib.suppress(errors.Error):
            self._collect()
            if self._step is not None and len(self._updated) == self._own:
                self._complete()
        ahead, self._ahead = self._ahead, None
        if self._step is not None or (ahead is not None and ahead.under_way) or not request.valid:
            request.free()
        else:
            request.finish()
            request.free()
        return_slots(self.session, self._slots)
        self._step, self._length, self._chunk, self._slots = None, 0, 0, []
        self._updated.clear()

    def close(self) -> None:
        """Gives the pages back, and drops the tensors over the pool, so that the session can be closed."""
        self.reset()
        self._tensors, self._rows = [], []

    def __del__(self) -> None:
        if getattr(self, "_request", None) is not None:
            return_slots(self.session, self._slots)  # the request's own finalizer abandons it

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        self._select(beam_idx)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        if indices.dtype == torch.bool:
            indices = indices.nonzero().flatten()
        self._select(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        self._select(torch.arange(len(self._slots)).repeat_interleave(repeats))

    def _select(self, indices: torch.Tensor) -> None:
        """Sequence i becomes what sequence indices[i] is."""
        request = self._settle()
        wanted = [int(i) for i in indices]
        if request is None or wanted == list(range(len(self._slots))):
            return
        if len(set(wanted)) == len(wanted):
            self._compact(request, wanted)
        elif len(wanted) <= len(self._slots):
            if len(wanted) < len(self._slots):
                # Which rows stay does not matter, each gets what belongs there: keep those that are named.
                named = set(wanted)
                keep = sorted(named) + [i for i in range(len(self._slots)) if i not in named]
                keep = keep[: len(wanted)]
                self._compact(request, keep)
                wanted = [keep.index(i) for i in wanted]
            self._copy_within(request, torch.tensor(wanted))
        else:
            self._grow(request, wanted)

    def _compact(self, request: Request, wanted: list[int]) -> None:
        mapping = [-1] * len(self._slots)
        for new, old in enumerate(wanted):
            mapping[old] = new
        request.compact(mapping).complete()
        return_slots(self.session, set(self._slots) - set(request.slots))
        self._slots = request.slots

    def _copy_within(self, request: Request, order: torch.Tensor) -> None:
        # A compaction that changes nothing gives the copy a completion point: pages that are read or written here go to
        # nobody else before it has run.
        with request.compact(range(len(self._slots))):
            rows = [Rows(t, self._slots) for t in self._tensors]
            self._copy_rows(rows, rows, order)

    def _grow(self, old: Request, wanted: list[int]) -> None:
        """A larger batch is a new request, which gets a copy of what the old one holds."""
        slots = take_slots(self.session, len(wanted))
        try:
            new = self.session.begin(slots, max_tokens=self._max_tokens, stream=self._stream, wait=self._wait)
            with old.compact(range(len(self._slots))), new.prefill(self._length):
                source = [Rows(t, self._slots) for t in self._tensors]
                target = [Rows(t, slots) for t in self._tensors]
                self._copy_rows(source, target, torch.tensor(wanted))
        except BaseException:
            return_slots(self.session, slots)
            raise
        old.finish()
        old.free()
        return_slots(self.session, self._slots)
        self._request, self._slots = new, slots


def _check_groups(session: Session, placement: Placement) -> None:
    mine = [(g.window, g.layers, g.kv_heads, g.head_dim) for g in placement.groups]
    theirs = [(x.window, x.layers, x.kv_heads, x.head_dim) for x in session.layouts]
    if mine != theirs:
        raise ValueError(
            f"the session was attached with layer groups (window, layers, heads, head size) {theirs}, "
            f"and the configuration has {mine}; attach with swakv.transformers.attach(config, ...)"
        )


def _dummy_layer() -> Any:
    from transformers import cache_utils

    if not hasattr(cache_utils, "DummyLayer"):
        raise ValueError("a layer of this model keeps no K and V, which this version of transformers cannot say")
    return cache_utils.DummyLayer()
