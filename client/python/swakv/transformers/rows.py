# SPDX-License-Identifier: Apache-2.0
"""K and V of sequences, gathered from their pages and written to them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .. import torch as swakv_torch


class Rows:
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
