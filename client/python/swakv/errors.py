# SPDX-License-Identifier: Apache-2.0
"""What a refused call raises: one class for each code of <swakv/error.h>."""

from __future__ import annotations


class Error(Exception):
    """A call was refused. It changed nothing, unless its documentation says otherwise.

    code: the negative code of <swakv/error.h>; name: its short name.
    """

    code = 0
    name = "unknown"


class Denied(Error):
    """This user may not use this broker, or this call; or an administrator drains the broker or the model."""

    code, name = -1, "denied"


class Gone(Error):
    """The session or the broker has ended. Attach again; the pages' content is lost."""

    code, name = -2, "gone"


class Poisoned(Error):
    """Device work of a step failed. Its pages are in quarantine: see Session.shutdown()."""

    code, name = -3, "poisoned"


class WrongPhase(Error):
    """The right call at the wrong moment of the request's life."""

    code, name = -4, "phase"


class Invalid(Error, ValueError):
    """An argument is wrong."""

    code, name = -5, "invalid"


class Busy(Error):
    """The slot, or whatever else was named, is in use."""

    code, name = -6, "busy"


class Pending(Error):
    """The pages wait for device work of this session. Try again when it has ended."""

    code, name = -7, "pending"


class Never(Error):
    """This cannot fit the pool, whoever ends."""

    code, name = -8, "never"


class NoPages(Error):
    """There are no pages now. Another request must end first, or wait for them."""

    code, name = -9, "nopages"


class LengthLimit(Error):
    """A sequence has reached its length. The request is finishing."""

    code, name = -10, "limit"


class OutOfMemory(Error, MemoryError):
    """This process is out of memory."""

    code, name = -11, "nomem"


class SystemFailure(Error):
    """A system call failed. The text says which."""

    code, name = -12, "system"


class WrongVersion(Error):
    """Library and broker speak different versions. Install both from one source."""

    code, name = -13, "version"


class Forked(Error):
    """Called in a child of the process that attached. Start workers with the method "spawn"."""

    code, name = -14, "forked"


class TimedOut(Error, TimeoutError):
    """The broker did not answer in time. What the call did is not known."""

    code, name = -15, "timedout"


class DeviceFailed(Error):
    """The GPU driver, or the callback of a stream, failed."""

    code, name = -16, "device"


class Unsupported(Error):
    """Not supported by this build, or by this broker."""

    code, name = -18, "unsupported"


class ViewsAlive(Error, BufferError):
    """The pool cannot be unmapped while arrays or tensors still show it."""

    name = "views"


CLASSES: dict[int, type[Error]] = {
    c.code: c
    for c in (
        Denied, Gone, Poisoned, WrongPhase, Invalid, Busy, Pending, Never, NoPages, LengthLimit, OutOfMemory,
        SystemFailure, WrongVersion, Forked, TimedOut, DeviceFailed, Unsupported,
    )
}  # fmt: skip


def of(code: int, text: str) -> Error:
    """The exception for @code, with the library's sentence."""
    e = CLASSES.get(code, Error)(text)
    e.code = code
    return e
