# SPDX-License-Identifier: Apache-2.0
"""What the broker knows of a request (spec section 4)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _abi, errors

if TYPE_CHECKING:
    from .session import Session

PHASES = ("none", "admitted", "executing", "finishing")
TRANSITIONS = ("none", "prefill", "decode", "compact", "extend")


@dataclass(frozen=True)
class RequestState:
    """phase: of PHASES. transition: whose device work is pending, of TRANSITIONS.

    open_points: completed steps whose fence is not reached. pending_batch: of a pending compaction, -1: none.
    """

    phase: str
    transition: str
    stream: int
    batch: int
    open_points: int
    pending_batch: int


@dataclass(frozen=True)
class SequenceState:
    """One sequence in one layer group; lengths in tokens, pages as K ids.

    bindings, new_bindings, retiring: logical page to page, in order. reserved: ready to be bound, next first.
    staged: behind open completion points.
    """

    slot: int
    generation: int
    window: int | None
    page_tokens: int
    endpoint: int
    pending_endpoint: int
    retained_begin: int
    retained_end: int
    input_length: int
    pending_map: int
    bindings: dict[int, int]
    new_bindings: dict[int, int]
    retiring: dict[int, int]
    reserved: tuple[int, ...]
    staged: tuple[int, ...]


def read_request(session: Session, handle: int) -> RequestState:
    c = _abi.RequestState()
    with session.locked():
        session.check(session._lib.swakv_request_get_state(handle or None, ctypes.byref(c)))
    return RequestState(PHASES[c.phase], TRANSITIONS[c.transition], c.stream, c.batch, c.open_points, c.pending_batch)


def read_sequence(session: Session, handle: int, index: int, group: int) -> SequenceState:
    lib, c = session._lib, _abi.SequenceState()
    if not 0 <= index < 1 << 32:
        raise errors.Invalid(f"there is no sequence {index}")
    with session.locked():
        session.check(lib.swakv_sequence_get_group_state(handle or None, index, group, ctypes.byref(c)))

        def bound(pages: Any, n: int) -> dict[int, int]:
            return {b.logical_page: b.page for b in pages[:n]} if n else {}

        try:
            return SequenceState(
                c.slot, c.generation, c.window or None, c.page_tokens, c.endpoint, c.pending_endpoint, c.retained_begin,
                c.retained_end, c.input_length, c.pending_map, bound(c.bindings, c.n_bindings),
                bound(c.new_bindings, c.n_new), bound(c.retiring, c.n_retiring),
                tuple(c.reserved[: c.n_reserved]) if c.n_reserved else (),
                tuple(c.staged[: c.n_staged]) if c.n_staged else (),
            )  # fmt: skip
        finally:
            lib.swakv_sequence_state_clear(ctypes.byref(c))
