# SPDX-License-Identifier: Apache-2.0
"""swakv: KV-cache pages from a broker that several worker processes share.

A worker attaches, declares its model, and moves batches of sequences through their life::

    import swakv

    model = swakv.Model("first", [swakv.Group(layers=4, kv_heads=2, head_dim=64, window=512, dtype="f32")])
    with swakv.attach(model) as session, session.begin(slots=[0]) as request:
        with request.prefill(1000):
            ...  # kernels of the prompt; they read the table at session.layouts[0].table
        for _ in range(300):
            with request.step():
                ...  # kernels of one token

Lengths count tokens, sizes count bytes, times count seconds. Errors are exceptions below swakv.Error.
"""

from importlib import metadata as _metadata

from .errors import (
    Busy,
    Denied,
    DeviceFailed,
    Error,
    Forked,
    Gone,
    Invalid,
    LengthLimit,
    Never,
    NoPages,
    OutOfMemory,
    Pending,
    Poisoned,
    SystemFailure,
    TimedOut,
    Unsupported,
    ViewsAlive,
    WrongPhase,
    WrongVersion,
)  # fmt: skip
from .layout import Layout
from .model import Group, Model
from .pages import MAX_PAGES, Limits, Pages, Take, Want
from .request import Request, Step
from .session import Info, Session, Ticket, Update, attach
from .state import RequestState, SequenceState
from .stream import DONE, FAILED, Fence, Stream
from .turn import Begin, Turn
from .views import View

try:
    __version__ = _metadata.version("swakv")
except _metadata.PackageNotFoundError:  # a source tree, which nobody has installed
    __version__ = "source"

__all__ = [
    "DONE", "FAILED", "MAX_PAGES", "Begin", "Busy", "Denied", "DeviceFailed", "Error", "Fence", "Forked", "Gone", "Group", "Info",
    "Invalid", "Layout", "LengthLimit", "Limits", "Model", "Never", "NoPages", "OutOfMemory", "Pages", "Pending", "Poisoned",
    "Request", "RequestState", "SequenceState", "Session", "Step", "Stream", "SystemFailure", "Take", "Ticket", "TimedOut",
    "Turn", "Unsupported", "Update", "View", "ViewsAlive", "Want", "WrongPhase", "WrongVersion", "__version__", "attach",
]  # fmt: skip
