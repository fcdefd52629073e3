# SPDX-License-Identifier: Apache-2.0
"""A transformers cache whose K and V live in swakv pages and nowhere else.

One request of a session is one cache: each row of the batch is a sequence, each forward pass a step. The first layer
that is updated in a pass prepares the step, the last completes it. What `update` returns is gathered from the pages, so
attention itself needs no change.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache as TransformersCache
from transformers.cache_utils import CacheLayerMixin

from .. import errors
from .. import torch as swakv_torch
from ..request import Request, Step
from ..session import Session
from ..turn import Ahead
from .config import Placement, placement_of

_slots: weakref.WeakKeyDictionary[Session, set[int]] = weakref.WeakKeyDictionary()  # in use by caches


def _take_slots(session: Session, n: int) -> list[int]:
    used = _slots.setdefault(session, set())
    free = [i for i in range(session.model.max_batch) if i not in used][:n]
    if len(free) < n:
        raise errors.Busy(
            f"a batch of {n} needs {n} slots, and {len(free)} of {session.model.max_batch} are free; "
            "close another cache, or attach with a larger max_batch"
        )
    used.update(free)
    return free


def _return_slots(session: Session, slots: Sequence[int]) -> None:
    _slots.get(session, set()).difference_update(slots)


class _Rows:
    """The pages of one layer group under the sequences of a request, as index tensors."""

    def __init__(self, tensors: swakv_torch.GroupTensors, slots: Sequence[int]) -> None:
        self.t = tensors
        self._indices: dict[tuple[int, int, bool], tuple[torch.Tensor, torch.Tensor]] = {}
        self.slots = torch.tensor(list(slots), dtype=torch.long, device=tensors.table.device)
        host = tensors.host_table[torch.tensor(list(slots), dtype=torch.long), 0]
        self._bound = (host >= 0).all(dim=0)
        columns = self._bound.nonzero().flatten().tolist()
        # The last run of columns is what the window will hold. Before it may lie a gap, of a chunk's tokens that have left
        # it already, and before that what the window holds until the step is complete.
        run = [c for i, c in enumerate(columns) if columns[-1] - c == len(columns) - 1 - i]
        self.first = run[0] * tensors.layout.page_tokens if run else 0

    def _index(self, begin: int, end: int, v: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Page and place in it of positions [begin, end) of each sequence: the same in every layer of a pass."""
        if (begin, end, v) not in self._indices:
            self._indices[begin, end, v] = self._look_up(begin, end, v)
        return self._indices[begin, end, v]

    def _look_up(self, begin: int, end: int, v: bool) -> tuple[torch.Tensor, torch.Tensor]:
        columns = self._bound[begin // self.t.layout.page_tokens : (end - 1) // self.t.layout.page_tokens + 1]
        assert columns.all(), f"tokens {begin} to {end - 1} are not all in pages of slots {self.slots.tolist()}"
        position = torch.arange(begin, end, device=self.slots.device)
        own_row = v and not self.t.layout.joined  # K and V of a joined page have one id
        page = self.t.table[self.slots, int(own_row)][:, position // self.t.layout.page_tokens].long()
        if own_row:
            page = page - self.t.layout.num_pages
        return page, (position % self.t.layout.page_tokens).expand_as(page)

    def read(self, layer: int, begin: int, end: int, v: bool) -> torch.Tensor:
        """[batch, heads, end - begin, head_dim] of positions [begin, end), all of them bound."""
        page, offset = self._index(begin, end, v)
        pages = self.t.v if v else self.t.k
        return pages[:, layer][page, offset].transpose(1, 2)

    def write(self, layer: int, begin: int, values: torch.Tensor, v: bool) -> None:
        """The reverse: @values [batch, heads, n, head_dim] to positions from @begin on."""
        page, offset = self._index(begin, begin + values.shape[2], v)
        pages = self.t.v if v else self.t.k
        pages[:, layer][page, offset] = values.transpose(1, 2).to(pages.dtype)


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

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Pages are there already."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
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
        self._tensors = [swakv_torch.group(layout) for layout in session.layouts]
        self._request: Request | None = None
        self._step: Step | None = None
        self._turns_ahead = ahead
        self._ahead: Ahead | None = None  # the next step, when it has been prepared before anybody asked for it
        self._rows: list[_Rows] = []
        self._updated: set[int] = set()
        self._length = 0  # tokens of each sequence, those of the step under way not included
        self._chunk = 0  # tokens of the step under way
        self._slots: list[int] = []
        layers: list[Any] = []
        for index, place in enumerate(placement.layers):
            if place is None:
                layers.append(_dummy_layer())
            else:
                group, layer = place
                layers.append(_Layer(self, index, group, layer, session.layouts[group].window))
        self._own = sum(isinstance(layer, _Layer) for layer in layers)
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

    def _prepare(self, batch: int, tokens: int) -> None:
        if self._request is None:
            self._slots = _take_slots(self.session, batch)
            try:
                self._request = self.session.begin(self._slots, max_tokens=self._max_tokens, stream=self._stream, wait=self._wait)
            except BaseException:
                _return_slots(self.session, self._slots)
                raise
            self._step = self._request.prefill(tokens)
        else:
            if batch != len(self._slots):
                raise ValueError(f"the cache holds {len(self._slots)} sequences, and the pass has {batch}")
            self._step = self._take_ahead(self._request, tokens) or self._request.step(tokens)
        self._chunk = tokens
        self._rows = [_Rows(t, self._slots) for t in self._tensors]

    def _complete(self) -> None:
        assert self._step is not None
        step, self._step = self._step, None
        self._length += self._chunk
        if self._turns_ahead and self._chunk == 1 and self._length < (self._max_tokens or self.session.model.max_seq):
            self._ahead = Ahead.of(self._ahead, step.request)
            self._ahead.turn()
        else:
            step.complete()
        self._chunk = 0
        self._rows = []
        self._updated.clear()

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

    def _copy_rows(self, source: Sequence[_Rows], target: Sequence[_Rows], order: torch.Tensor) -> None:
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
        ahead, self._ahead = self._ahead, None
        if self._step is not None or (ahead is not None and ahead.under_way) or not request.valid:
            request.free()
        else:
            request.finish()
            request.free()
        _return_slots(self.session, self._slots)
        self._step, self._length, self._chunk, self._slots = None, 0, 0, []
        self._updated.clear()

    def close(self) -> None:
        """Gives the pages back, and drops the tensors over the pool, so that the session can be closed."""
        self.reset()
        self._tensors, self._rows = [], []

    def __del__(self) -> None:
        if getattr(self, "_request", None) is not None:
            _return_slots(self.session, self._slots)  # the request's own finalizer abandons it

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
        _return_slots(self.session, set(self._slots) - set(request.slots))
        self._slots = request.slots

    def _copy_within(self, request: Request, order: torch.Tensor) -> None:
        # A compaction that changes nothing gives the copy a completion point: pages that are read or written here go to
        # nobody else before it has run.
        with request.compact(range(len(self._slots))):
            rows = [_Rows(t, self._slots) for t in self._tensors]
            self._copy_rows(rows, rows, order)

    def _grow(self, old: Request, wanted: list[int]) -> None:
        """A larger batch is a new request, which gets a copy of what the old one holds."""
        slots = _take_slots(self.session, len(wanted))
        try:
            new = self.session.begin(slots, max_tokens=self._max_tokens, stream=self._stream, wait=self._wait)
            with old.compact(range(len(self._slots))), new.prefill(self._length):
                source = [_Rows(t, self._slots) for t in self._tensors]
                target = [_Rows(t, slots) for t in self._tensors]
                self._copy_rows(source, target, torch.tensor(wanted))
        except BaseException:
            _return_slots(self.session, slots)
            raise
        old.finish()
        old.free()
        _return_slots(self.session, self._slots)
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
