# SPDX-License-Identifier: Apache-2.0
"""A session: this process at a broker (spec sections 1 and 2)."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _abi, errors
from .call import Calls, Ticket
from .layout import Layout
from .model import Model
from .pages import Pages
from .request import Request, Step
from .stream import Fence, Stream
from .turn import Begin, Turn
from .views import ELEMENTS, Leases, View, packed

TOKEN_BYTES = ctypes.sizeof(_abi.Token)
DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True)
class Update:
    """One entry of a table that changed: `page` moved in, `old_page` was there; -1 is empty. K ids."""

    stream: int
    group: int
    slot: int
    column: int
    page: int
    old_page: int


@dataclass(frozen=True)
class Info:
    """What the broker is, and where its pool lies in this process. Addresses are those that kernels use."""

    session_id: int
    generation: int
    boot_id: bytes
    cuda: bool
    device: str
    device_uuid: bytes
    pool_address: int
    pool_bytes: int
    n_groups: int
    n_streams: int
    near_cpus: str
    """CPUs beside the broker's ring thread, as of taskset -c: best for a thread that gives commands. "": it keeps to none."""


def attach(
    model: Model,
    broker: str | None = None,
    *,
    socket: str | None = None,
    pool: str | None = None,
    streams: int = 1,
    timeout: float = 30.0,
    wait: float = 0.0,
    spin: float = 50e-6,
    cuda_library: str | None = None,
    cuda_device: int = 0,
    on_updates: Callable[[list[Update]], None] | None = None,
    events: bool = False,
    joinable: bool = False,
    join: bytes | None = None,
) -> Session:
    """Attaches this process to a broker as one session.

    broker: instance name; None: $SWAKV_BROKER, else "default". socket: its path, instead of the name.
    pool: None: the broker's only one. streams: 1 to 64. timeout: seconds, of attach and of every call that waits.
    wait: seconds to wait for a broker that is not there yet. spin: seconds that a waiting call spins before it sleeps.
    cuda_device: index of the pool's GPU in this process, for the views.
    on_updates: called with the entries that a call changed, before they are enqueued; must not use the session.
    events: Session.fileno() is to give a descriptor for an event loop.
    joinable: further processes may join the session: Session.token().
    join: the token of a session that this process joins, with the same model and number of streams. It has the pool, the
    tables and the lines; commands (begin, take, ...) are Invalid: only the first process gives them. The session's pages
    return when all its processes have ended or closed it.

    Raises the errors of swakv_session_attach(3).
    """
    if not isinstance(model, Model):
        raise TypeError(f"the model is {model!r}; wanted: a swakv.Model(...)")
    flags = (_abi.ATTACH_EVENTS if events else 0) | (_abi.ATTACH_JOINABLE if joinable else 0)
    options = _abi.AttachOptions(
        broker=_abi.text(broker),
        socket=_abi.text(socket),
        pool=_abi.text(pool),
        cuda_library=_abi.text(cuda_library),
        n_streams=_abi.number("streams", streams),
        timeout_ms=_abi.milliseconds("timeout", timeout),
        wait_ms=_abi.milliseconds("wait", wait),
        spin_us=_abi.seconds("spin", spin, 4000, 1_000_000),
        flags=flags,
    )
    if join is not None:
        if len(join) != TOKEN_BYTES:
            raise ValueError(f"the token has {len(join)} bytes; wanted: the {TOKEN_BYTES} of Session.token()")
        options.join = ctypes.pointer(_abi.Token.from_buffer_copy(join))
    return Session(model, options, timeout or DEFAULT_TIMEOUT, cuda_device, on_updates)


class Session:
    """Made by attach(). Close it, or use it as a context manager.

    It may be used by several threads: each call takes the session's lock. A finalizer never calls the library: what it
    would free is freed by the session's next call.
    """

    def __init__(
        self,
        model: Model,
        options: _abi.AttachOptions,
        timeout: float,
        cuda_device: int,
        on_updates: Callable[[list[Update]], None] | None,
    ) -> None:
        self._lib = _abi.library()
        self._handle: int | None = None
        self._lock = threading.RLock()
        self._orphans: deque[int] = deque()  # requests that nobody holds any more
        self._leases = Leases()
        self._callback_error: BaseException | None = None
        self._on_updates = on_updates
        self._callback = _abi.OnUpdates(self._updates) if on_updates else _abi.OnUpdates()
        options.on_updates = self._callback
        self.model = model
        self._handle = self._attach(options, model.to_c())
        self._calls = Calls(self, timeout)
        self._cuda_device = cuda_device

    def _attach(self, options: _abi.AttachOptions, model: _abi.Model) -> int:
        """In a thread of its own, so that Ctrl-C is answered while the broker is not."""
        handle, why = ctypes.c_void_p(), ctypes.create_string_buffer(1024)
        result: list[int] = []
        given_up = threading.Event()

        def run() -> None:
            result.append(
                self._lib.swakv_session_attach(ctypes.byref(options), ctypes.byref(model), ctypes.byref(handle), why, len(why))
            )
            if given_up.is_set() and handle.value:
                self._lib.swakv_session_close(handle)

        thread = threading.Thread(target=run, name="swakv-attach", daemon=True)
        thread.start()
        try:
            thread.join()
        except BaseException:
            given_up.set()
            raise
        if result[0]:
            raise errors.of(result[0], why.value.decode(errors="replace"))
        assert handle.value is not None
        return handle.value

    # ---- life ------------------------------------------------------------------------

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
            return
        with contextlib.suppress(errors.ViewsAlive):  # the traceback may hold them: the first error matters
            self.close()

    def close(self) -> None:
        """Ends the session. Waits for its streams. Again: does nothing.

        Raises ViewsAlive while views, or arrays and tensors made of them, are alive: their memory would be unmapped.
        """
        if self._handle is not None and len(self._leases):
            gc.collect()  # those that only a cycle holds are nobody's any more
        with self._lock:
            if self._handle is None:
                return
            if len(self._leases):
                raise errors.ViewsAlive(
                    f"{len(self._leases)} arrays or tensors still show the session's pool or tables; "
                    "delete them before you close it"
                )
            handle, self._handle = self._handle, None
            self._orphans.clear()
        self._uninterrupted(lambda: self._lib.swakv_session_close(handle))

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and not len(self._leases):
            self._handle = None
            self._lib.swakv_session_close(handle)

    @property
    def closed(self) -> bool:
        return self._handle is None

    def shutdown(self) -> None:
        """Retries failed completions. When it returns, pages have left quarantine and requests may begin again."""
        self.call(self._lib.swakv_session_shutdown)

    @staticmethod
    def _uninterrupted(run: Callable[[], Any]) -> None:
        """Runs @run beside the main thread, which answers Ctrl-C meanwhile; @run goes on to its end."""
        if threading.current_thread() is not threading.main_thread():
            run()
            return
        thread = threading.Thread(target=run, name="swakv-close")
        thread.start()
        thread.join()

    # ---- calls -----------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """The handle of the session, for the length of one call of the library."""
        with self._lock:
            yield self._enter()
            if self._callback_error is not None:
                self._raise_callback_error()

    def _enter(self) -> int:
        """The first lines of a call, under the lock."""
        if self._handle is None:
            raise errors.Gone("the session has been closed")
        while self._orphans:
            self._lib.swakv_request_free(self._orphans.popleft())
        if self._calls.forgotten:
            self._calls.collect_forgotten(self._handle)
        return self._handle

    def _raise_callback_error(self) -> None:
        error, self._callback_error = self._callback_error, None
        if error is not None:
            raise error

    def call(self, function: Callable[..., int], *arguments: Any) -> None:
        """One call of the library that takes the session first; raises what it refuses."""
        with self.locked() as handle:
            self.check(function(handle, *arguments))

    def check(self, result: int) -> None:
        """Raises the error of the call that has just returned @result. Under the lock."""
        if result:
            text = self._lib.swakv_session_error(self._handle).decode(errors="replace")
            raise errors.of(result, text or self._lib.swakv_error_text(result).decode())

    def _updates(self, _: Any, stream: int, group: int, updates: Any, n: int) -> None:
        try:
            assert self._on_updates is not None
            self._on_updates(
                [Update(stream, group, u.slot, u.column, u.page, u.old_page) for u in updates[:n]]
            )  # fmt: skip
        except BaseException as e:
            self._callback_error = e

    def ping(self) -> None:
        """One command there and back that does nothing."""
        self._calls.start(self._lib.swakv_session_ping).wait()

    # ---- what the broker decided -----------------------------------------------------------

    @functools.cached_property
    def info(self) -> Info:
        c = _abi.SessionInfo()
        self.call(self._lib.swakv_session_get_info, ctypes.byref(c))
        return Info(
            c.session_id, c.generation, bytes(c.boot_id), bool(c.cuda), (c.device or b"").decode(), bytes(c.device_uuid),
            c.pool_device, c.pool_bytes, c.n_groups, c.n_streams, (c.near_cpus or b"").decode(),
        )  # fmt: skip

    @functools.cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """One for each layer group of the model, in its order."""
        out = []
        for group in range(self.info.n_groups):
            c = _abi.Layout()
            self.call(self._lib.swakv_session_get_layout, group, ctypes.byref(c))
            out.append(Layout(self, group, c))
        return tuple(out)

    @property
    def pool(self) -> View:
        """All bytes of the pool, those of other sessions too."""
        return self.view(self.info.pool_address, (self.info.pool_bytes,), None, "u8")

    def view(
        self,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        dtype: str,
        *,
        host: bool = False,
        readonly: bool = False,
    ) -> View:
        """Of memory that the session has mapped. @host: of this process's own memory, also when the pool is on a GPU."""
        device = None if host or not self.info.cuda else self._cuda_device
        strides = strides or packed(shape, ELEMENTS[dtype].bytes)
        return View(self._lease, address, shape, strides, dtype, device, readonly)

    def _lease(self) -> Any:
        with self._lock:
            if self._handle is None:
                raise errors.Gone("the session has been closed: its pool and tables are unmapped")
            return self._leases.new(self)

    def free_pages(self, group: int = 0) -> int:
        """Pages of a group's class that could be admitted now, limits of models aside."""
        n = ctypes.c_int64()
        self.call(self._lib.swakv_session_group_free_pages, group, ctypes.byref(n))
        return n.value

    # ---- several processes, an event loop ----------------------------------------------------

    def token(self) -> bytes:
        """What further processes join the session with: attach(model, join=token). Of a session attached with joinable=True.

        Whoever has it may join: give it to them by a pipe, never by a command line or a file that others read.
        """
        c = _abi.Token()
        self.call(self._lib.swakv_session_get_token, ctypes.byref(c))
        return bytes(c)

    def fileno(self) -> int:
        """A descriptor for select() or an event loop, of a session attached with events=True. Waited for, never read.

        Readable while an answer can be collected by poll(), while one is there that nobody took (collect()), while the session
        is asked for more pages than Pages.wanted has told, from the first look at it on, and for good once the session has
        ended. Level-triggered; the session's own until it is closed.
        """
        with self.locked() as handle:
            fd = self._lib.swakv_session_fd(handle)
            self.check(min(fd, 0))
        return int(fd)

    def collect(self) -> None:
        """Takes the answers that are there, whosever they are, and never sleeps; tickets can then be polled."""
        self.call(self._lib.swakv_session_take)

    # ---- streams, requests and pages ---------------------------------------------------------------

    def stream(self, index: int = 0) -> Stream:
        """Stream @index, below `streams` of attach()."""
        return Stream(self, index)

    def pages(self, group: int = 0) -> Pages:
        """Pages of layer group @group that the caller manages itself."""
        if not 0 <= group < self.info.n_groups:
            raise errors.Invalid(f"layer group {group} is outside 0 to {self.info.n_groups - 1}")
        return Pages(self, group)

    def begin(self, slots: Sequence[int], *, max_tokens: int = 0, stream: int = 0, wait: float = 0.0) -> Request:
        """Admits a batch of sequences: all its pages in all groups, or nothing.

        slots: one for each sequence, unique, below max_batch. max_tokens: what no sequence will exceed; 0: max_seq.
        wait: seconds to wait for pages or slots that are not free; Ctrl-C ends the wait and withdraws the begin.
        Raises the errors of swakv_request_begin(3): NoPages, Never, Pending, Busy, ...
        """
        return Request.begin(self, slots, max_tokens, stream, wait)

    def prepare(self, entries: Sequence[tuple[Request, int | Sequence[int]]]) -> list[Step]:
        """Prepares one step of many requests in one command: (request, tokens of each sequence, or of all) each.

        Returns a Step for each entry; Step.error is set where an entry was refused. Raises when all were refused.
        """
        return Step.prepare_many(self, entries)

    def complete(self, steps: Sequence[Step], fence: Fence | None = None) -> None:
        """Completes steps of many requests in one command. fence: None: marks the stream of each."""
        Step.complete_many(self, steps, fence)

    def turn(
        self,
        *,
        complete: Sequence[Step | tuple[Step, Sequence[int]]] = (),
        prepare: Sequence[tuple[Request, int | Sequence[int]]] = (),
        finish: Sequence[Request] = (),
        begin: Sequence[Begin] = (),
        fence: Fence | None = None,
    ) -> Turn:
        """The end of one step and the beginning of the next, of many requests, in one command; Turn says what came of it.

        complete: steps whose work has been enqueued, with what is accepted if that is not all. prepare: as of prepare().
        finish: requests that are through, whose last step may stand in `complete`. begin: they do not wait.
        fence: of the steps; None: marks the stream of each. First all steps are completed, then requests finish, then begin,
        then steps are prepared. Where a step cannot be completed, its request is neither finished nor prepared: WrongPhase.
        Raises when all was refused.
        """
        return self.start_turn(complete=complete, prepare=prepare, finish=finish, begin=begin, fence=fence).wait()

    def start_turn(
        self,
        *,
        complete: Sequence[Step | tuple[Step, Sequence[int]]] = (),
        prepare: Sequence[tuple[Request, int | Sequence[int]]] = (),
        finish: Sequence[Request] = (),
        begin: Sequence[Begin] = (),
        fence: Fence | None = None,
    ) -> Turn:
        """As turn(), without waiting: wait() for the Turn before the work of the next steps is enqueued."""
        turn = Turn(self)
        turn._ask(complete, prepare, finish, begin, fence)
        turn._send()
        return turn


__all__ = ["Info", "Session", "Ticket", "Update", "attach"]
