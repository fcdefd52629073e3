# SPDX-License-Identifier: Apache-2.0
"""Which slots of a session its caches use: several share one."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from .. import errors
from ..session import Session

_slots: weakref.WeakKeyDictionary[Session, set[int]] = weakref.WeakKeyDictionary()


def take_slots(session: Session, n: int) -> list[int]:
    """`n` slots that no cache has; `errors.Busy` when there are fewer."""
    used = _slots.setdefault(session, set())
    free = [i for i in range(session.model.max_batch) if i not in used][:n]
    if len(free) < n:
        raise errors.Busy(
            f"a batch of {n} needs {n} slots, and {len(free)} of {session.model.max_batch} are free; "
            "close another cache, or attach with a larger max_batch"
        )
    used.update(free)
    return free


def return_slots(session: Session, slots: Sequence[int]) -> None:
    """They are free again."""
    _slots.get(session, set()).difference_update(slots)
