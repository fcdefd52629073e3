# SPDX-License-Identifier: Apache-2.0
"""Streams, and proof that device work has ended (spec section 6)."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _abi, errors
from .call import SLICE_MS

if TYPE_CHECKING:
    from .session import Session


@dataclass(frozen=True)
class Fence:
    """A point of a stream. Stream.mark() makes one; DONE and FAILED say what is known already."""

    kind: int
    line: int = 0
    value: int = 0

    def to_c(self) -> _abi.Fence:
        return _abi.Fence(self.kind, self.line, self.value)


DONE = Fence(_abi.FENCE_DONE)
"""The caller has waited for the step's work."""
FAILED = Fence(_abi.FENCE_FAILED)
"""The step's work failed: its pages go to quarantine."""


class Stream:
    """Work of one session that runs in order. Bound once: to a CUDA stream, or to the host."""

    def __init__(self, session: Session, index: int) -> None:
        self.session, self.index = session, index

    def bind_host(self, threaded: bool = False) -> Stream:
        """Host backend: work runs in order on a thread of the library, or at once in the caller."""
        self.session.call(self.session._lib.swakv_stream_bind_host, self.index, threaded)
        return self

    def bind_cuda(self, stream: int | Any = 0, *, graph_steps: int = 0) -> Stream:
        """To a CUDA stream: an address (0: the library makes one), or an object with `cuda_stream`, as torch's.

        graph_steps: not 0: steps may be replayed from a CUDA graph, so many in flight.
        """
        # An object that says 0 means the default stream, which the driver also knows by a handle of its own.
        address = stream if isinstance(stream, int) else stream.cuda_stream or _abi.CU_STREAM_LEGACY
        options = _abi.CudaOptions(
            cu_stream=address or None,
            writer=_abi.WRITER_COUNTER if graph_steps else _abi.WRITER_AUTO,
            graph_steps=graph_steps,
        )
        self.session.call(self.session._lib.swakv_stream_bind_cuda2, self.index, ctypes.byref(options))
        return self

    def set_unordered(self, unordered: bool = True) -> None:
        """Work of a step may run beside that of the step before it. Costs pages."""
        self.session.call(self.session._lib.swakv_stream_set_unordered, self.index, unordered)

    @property
    def cuda_stream(self) -> int:
        """The CUstream, as torch.cuda.ExternalStream() takes it; 0: none."""
        with self.session.locked() as handle:
            return self.session._lib.swakv_stream_cuda(handle, self.index) or 0

    def mark(self) -> Fence:
        """A fence behind all work given to the stream so far."""
        c = _abi.Fence()
        self.session.call(self.session._lib.swakv_stream_mark, self.index, ctypes.byref(c))
        return Fence(c.kind, c.line, c.value)

    def reached(self, fence: Fence) -> bool:
        """True when the work before @fence has ended. Reads one word."""
        with self.session.locked() as handle:
            return bool(self.session._lib.swakv_fence_reached(handle, fence.to_c()))

    def wait(self, fence: Fence, timeout: float | None = None) -> None:
        """Waits for @fence, at most @timeout seconds (None: for ever); raises TimedOut. Ctrl-C ends it."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            rest = SLICE_MS if until is None else min(SLICE_MS, max(0, int((until - time.monotonic()) * 1000)))
            with self.session.locked() as handle:
                result = self.session._lib.swakv_fence_wait(handle, fence.to_c(), rest)
                if result != errors.TimedOut.code or (until is not None and time.monotonic() >= until):
                    self.session.check(result)
                    return

    def synchronize(self) -> None:
        """Waits until everything given to the stream has ended."""
        self.session.call(self.session._lib.swakv_stream_synchronize, self.index)

    # ---- steps from a CUDA graph ------------------------------------------------------

    def capture_begin(self) -> None:
        """Within a capture: the table entries of the step go here, ahead of its kernels."""
        self.session.call(self.session._lib.swakv_stream_capture_begin, self.index)

    def capture_end(self) -> None:
        """Within a capture: the step's mark, behind its kernels."""
        self.session.call(self.session._lib.swakv_stream_capture_end, self.index)

    def set_replay(self, on: bool) -> None:
        """From now on the entries of a prepare wait for the next replay()."""
        self.session.call(self.session._lib.swakv_stream_set_replay, self.index, on)

    def replay(self, graph_exec: int) -> Fence:
        """Launches a CUgraphExec that holds one capture_begin() and one capture_end(); returns the step's fence."""
        c = _abi.Fence()
        self.session.call(self.session._lib.swakv_stream_replay, self.index, graph_exec, ctypes.byref(c))
        return Fence(c.kind, c.line, c.value)
