# SPDX-License-Identifier: Apache-2.0
"""A worker's life in Python: attach, requests, states, errors, threads, processes."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import swakv
from swakv import _abi
from swakv.call import Ticket

Attach = Callable[..., swakv.Session]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "waited 60 s"
        time.sleep(0.01)


def test_info_says_where_the_pool_is(session: swakv.Session) -> None:
    assert not session.info.cuda
    assert session.info.pool_bytes == 64 << 20
    assert session.info.n_groups == len(session.layouts) == 1
    layout = session.layouts[0]
    assert (layout.page_tokens, layout.layers, layout.kv_heads, layout.head_dim, layout.dtype) == (16, 2, 2, 8, "f32")
    assert layout.window == 128


def test_a_request_from_begin_to_end(session: swakv.Session) -> None:
    free = session.free_pages()
    with session.begin(slots=[3, 5]) as request:
        assert (len(request), request.slots, request.valid) == (2, [3, 5], True)
        assert session.free_pages() < free
        with request.prefill([100, 20]):
            assert request.state.transition == "prefill"
        for _ in range(50):
            with request.step():
                pass
        assert request.sequence(0).endpoint == 150
        assert request.sequence(1).endpoint == 70
        assert request.sequence(0).retained_begin == (150 - 127 - 16) // 16, "max_rewind tokens more than the window"
        request.rewind([3, 0])
        assert request.sequence(0).endpoint == 147
        step = request.step([4, 1])
        step.complete(accepted=[2, 1])
        assert request.sequence(0).endpoint == 149
        request.compact([-1, 0]).complete()
        assert (len(request), request.slots) == (1, [5])
        assert request.sequence(0).endpoint == 71
    until(lambda: session.free_pages() == free)


def test_the_table_names_the_bound_pages(session: swakv.Session) -> None:
    layout = session.layouts[0]
    with session.begin(slots=[2]) as request:
        with request.prefill(40):
            pass
        n = session.model.max_batch * 2 * layout.width
        ids = list(layout.table.buffer().cast("i"))
        host = list(layout.host_table.buffer().cast("i"))
        assert len(ids) == n
        assert ids == host
        row = ids[2 * 2 * layout.width :][: 2 * layout.width]
        bindings = request.sequence(0).bindings
        assert {c: p for c, p in enumerate(row[: layout.width]) if p >= 0} == bindings
        assert [p - layout.num_pages for p in row[layout.width :] if p >= 0] == list(bindings.values())


def test_updates_of_a_call_are_told(attach: Attach, model: swakv.Model) -> None:
    seen: list[swakv.Update] = []
    with attach(model, on_updates=seen.extend) as session, session.begin(slots=[1]) as request:
        with request.prefill(40):
            pass
        assert {(u.slot, u.column) for u in seen if u.page >= 0} == {(1, 0), (1, 1), (1, 2)}
        assert {u.column: u.page for u in seen if u.page >= 0} == request.sequence(0).bindings


def test_an_exception_of_on_updates_reaches_the_caller(attach: Attach, model: swakv.Model) -> None:
    def fails(_: list[swakv.Update]) -> None:
        raise ZeroDivisionError("from the callback")

    with attach(model, on_updates=fails) as session:
        request = session.begin(slots=[1])
        with pytest.raises(ZeroDivisionError, match="from the callback"):
            request.prefill(40)
        request.abandon()


def test_many_requests_in_one_command(session: swakv.Session) -> None:
    requests = [session.begin(slots=[i]) for i in range(4)]
    for i, request in enumerate(requests):
        with request.prefill(10 + i):
            pass
    steps = session.prepare([(request, 1 + i) for i, request in enumerate(requests)])
    assert [s.error for s in steps] == [None] * 4
    session.complete(steps)
    assert [r.sequence(0).endpoint for r in requests] == [11, 13, 15, 17]
    requests[2].finish()
    steps = session.prepare([(request, 1) for request in requests])
    assert [type(s.error) for s in steps] == [type(None), type(None), swakv.Invalid, type(None)]
    session.complete([s for s in steps if s.error is None])
    for request in requests:
        request.free()


def test_errors_are_classes_with_the_sentence_of_the_library(session: swakv.Session) -> None:
    with pytest.raises(swakv.Invalid, match="99") as e:
        session.begin(slots=[99])
    assert (e.value.code, e.value.name) == (-5, "invalid")
    with session.begin(slots=[0]) as request:
        with pytest.raises(swakv.WrongPhase):
            request.step()
        with pytest.raises(swakv.Busy):
            session.begin(slots=[0])
        with request.prefill(16):
            pass
        with pytest.raises(swakv.Invalid, match="17"):
            request.rewind(17)
    with pytest.raises(swakv.Invalid):
        request.step()


def test_wrong_python_values_are_refused_before_the_library_sees_them(session: swakv.Session) -> None:
    with pytest.raises(ValueError, match="4294967296"):
        session.begin(slots=[1 << 32])
    with pytest.raises(ValueError, match="f64"):
        swakv.Group(layers=1, kv_heads=1, head_dim=8, dtype="f64").to_c()  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="-1"):
        session.begin(slots=[0], wait=-1)


def test_a_broker_that_is_not_there() -> None:
    with pytest.raises(swakv.Error, match="no-such-broker"):
        swakv.attach(swakv.Model("m", [swakv.Group(layers=1, kv_heads=1, head_dim=8)]), "no-such-broker")


def test_a_request_that_is_dropped_gives_its_pages_back(session: swakv.Session) -> None:
    free = session.free_pages()
    request = session.begin(slots=[0])
    with request.prefill(100):
        pass
    del request
    gc.collect()
    until(lambda: session.free_pages() == free)


def test_a_block_that_raises_abandons_the_request(session: swakv.Session) -> None:
    free = session.free_pages()
    request = session.begin(slots=[0])
    with pytest.raises(ZeroDivisionError), request.prefill(100):
        raise ZeroDivisionError
    assert not request.valid
    until(lambda: session.free_pages() == free)


def test_a_closed_session_says_so(attach: Attach, model: swakv.Model) -> None:
    session = attach(model)
    request = session.begin(slots=[0])
    session.close()
    session.close()
    assert session.closed
    with pytest.raises(swakv.Gone, match="closed"):
        session.ping()
    with pytest.raises(swakv.Gone, match="closed"):
        request.step()
    del request


def fill(session: swakv.Session) -> list[swakv.Request]:
    """Requests until there are no pages for another."""
    held = []
    with pytest.raises(swakv.NoPages):
        for slot in range(session.model.max_batch):
            held.append(session.begin(slots=[slot]))
    return held


def test_begin_waits_and_others_go_on_meanwhile(small: swakv.Session) -> None:
    held = fill(small)
    got: list[swakv.Request] = []
    waiter = threading.Thread(target=lambda: got.append(small.begin(slots=[7], wait=60)))
    waiter.start()
    for _ in range(20):
        small.ping()  # the waiter holds no lock
    assert not got
    held[0].finish()
    waiter.join(60)
    assert len(got) == 1


def test_threads_may_share_a_session(session: swakv.Session) -> None:
    failed: list[BaseException] = []

    def run(slot: int) -> None:
        try:
            for _ in range(30):
                with session.begin(slots=[slot]) as request:
                    with request.prefill(20):
                        pass
                    for _ in range(5):
                        with request.step():
                            pass
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_fences_are_waited_for(session: swakv.Session) -> None:
    stream = session.stream()
    with session.begin(slots=[0]) as request:
        step = request.prefill(20)
        fence = stream.mark()
        step.complete(fence)
        stream.wait(fence, 60)
        assert stream.reached(fence)
        assert stream.reached(swakv.DONE)


def test_the_default_stream_of_torch_is_bound_and_not_one_of_the_librarys() -> None:
    class Default:  # as torch.cuda.default_stream()
        cuda_stream = 0

    class Recorder:
        _lib = _abi.library()
        bound: list[int | None] = []

        def call(self, function: object, index: int, options: object) -> None:
            self.bound.append(options._obj.cu_stream)  # type: ignore[attr-defined]

    for stream in (0, Default(), 0x7000):
        swakv.Stream(Recorder(), 0).bind_cuda(stream)  # type: ignore[arg-type]
    assert Recorder.bound == [None, _abi.CU_STREAM_LEGACY, 0x7000]


CHILD = """
import swakv, sys, time
model = swakv.Model("child", [swakv.Group(layers=1, kv_heads=1, head_dim=8, window=64, page_tokens=16, dtype="f32")])
"""


def child(code: str, socket: str) -> subprocess.Popen[str]:
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), SOCKET=socket)
    return subprocess.Popen(
        [sys.executable, "-c", CHILD + code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_ctrl_c_ends_a_wait_for_pages_and_withdraws_the_begin(small: swakv.Session) -> None:
    held = fill(small)
    free = small.free_pages()
    main = threading.get_ident()

    def waits() -> bool:
        frame = sys._current_frames().get(main)
        while frame is not None and frame.f_code is not Ticket.wait.__code__:
            frame = frame.f_back
        return frame is not None

    def interrupt() -> None:
        until(waits)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        small.begin(slots=[7], wait=600)
    held[0].finish()
    until(lambda: small.free_pages() > free)  # nobody waits for these
    small.begin(slots=[7]).finish()


def test_ctrl_c_ends_an_attach_that_waits_for_a_broker() -> None:
    run = child(
        """
try:
    print("waiting", flush=True)
    swakv.attach(model, socket="/nonexistent/swakv.sock", wait=600)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    __import__("os")._exit(0)
""",
        "",
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "waiting\n"
    time.sleep(0.3)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert out == "interrupted\n", err


def test_after_fork_the_child_is_refused(session: swakv.Session) -> None:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            session.ping()
            os.write(write, b"worked")
        except swakv.Forked:
            os.write(write, b"refused")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 64) == b"refused"
    os.close(read)
    os.close(write)
    session.ping()


def test_a_spawned_process_attaches_by_itself(broker: object) -> None:
    run = child(
        """
import multiprocessing, os
def work(socket):
    with swakv.attach(model, socket=socket) as s, s.begin(slots=[0]) as r, r.prefill(100):
        pass
    os._exit(7)
if __name__ == "__main__":
    pass
import runpy
with swakv.attach(model, socket=os.environ["SOCKET"]):
    import subprocess
    code = (
        "import os, swakv; m = swakv.Model('child', [swakv.Group(layers=1, kv_heads=1, head_dim=8, window=64, "
        "page_tokens=16, dtype='f32')])\\n"
        "with swakv.attach(m, socket=os.environ['SOCKET']) as s, s.begin(slots=[0]) as r:\\n"
        "    r.prefill(100).complete()\\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
print("done")
""",
        broker.socket_path,  # type: ignore[attr-defined]
    )
    out, err = run.communicate(timeout=60)
    assert out == "done\n", err


def test_struct_sizes_are_the_librarys() -> None:
    lib = _abi.library()
    for name, mine in _abi.STRUCTS.items():
        assert lib.swakv_struct_size(name.encode()) == ctypes.sizeof(mine), name
    assert lib.swakv_struct_size(b"swakv_nothing") == 0


def test_a_library_of_another_shape_is_refused_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(_abi._Struct):
        _fields_ = [("size", ctypes.c_uint32), ("more", ctypes.c_uint8 * 4096)]

    monkeypatch.setitem(_abi.STRUCTS, "swakv_layout", Short)
    with pytest.raises(ImportError, match="struct swakv_layout has .* bytes"):
        _abi._declare(ctypes.CDLL(_abi.candidates()[0]), "a library")


def test_a_library_that_is_not_there_is_named() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import swakv; swakv.attach(swakv.Model('m', []))"],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), SWAKV_LIBRARY="/nonexistent/lib.so"),
        capture_output=True,
        check=False,
        text=True,
    )
    assert "/nonexistent/lib.so" in run.stderr
    assert "SWAKV_LIBRARY" in run.stderr


GROUP = dict(layers=1, kv_heads=1, head_dim=8)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (dict(groups=swakv.Group(**GROUP)), "wanted: a list of swakv.Group"),
        (dict(groups=[GROUP]), "wanted: a list of swakv.Group"),
        (dict(groups=[swakv.Group(**GROUP | {"layers": -1})]), "layers of a group is -1; wanted: 0 or more"),
        (dict(groups=[swakv.Group(**GROUP | {"layers": 1 << 33})]), "layers of a group is 8589934592"),
        (dict(groups=[swakv.Group(**GROUP | {"head_dim": 8.5})]), "head_dim of a group is 8.5; wanted: a whole number"),
        (dict(groups=[swakv.Group(**GROUP | {"window": "512"})]), "window of a group is '512'"),
        (dict(groups=[swakv.Group(**GROUP | {"dtype": "float32"})]), "dtype is 'float32'; known: f16, bf16"),
        (dict(max_batch="8"), "max_batch is '8'"),
        (dict(name=5), "name of the model is 5; wanted: a str"),
    ],
)  # fmt: skip
def test_a_model_that_cannot_be_meant_names_the_value(attach: Attach, what: dict[str, Any], sentence: str) -> None:
    model = swakv.Model(**dict(name="wrong", groups=[swakv.Group(**GROUP)]) | what)
    with pytest.raises((ValueError, TypeError), match=re.escape(sentence)):
        attach(model)


def test_arguments_that_cannot_be_meant_are_named(session: swakv.Session) -> None:
    request = session.begin(slots=[0])
    for call, sentence in (
        (lambda: session.begin(slots=3), "slots is 3; wanted: a list"),  # type: ignore[arg-type]
        (lambda: session.begin(slots="3"), "slots is '3'; wanted: a list"),  # type: ignore[arg-type]
        (lambda: session.begin(slots=[1.0]), "number 0 of slots is 1.0"),  # type: ignore[list-item]
        (lambda: session.begin(slots=[1], max_tokens=-1), "max_tokens is -1"),
        (lambda: session.begin(slots=[1], wait="5"), "wait is '5'; wanted: seconds"),  # type: ignore[arg-type]
        (lambda: request.prefill(5.0), "tokens is 5.0"),  # type: ignore[arg-type]
        (lambda: request.prefill(None), "tokens is None"),  # type: ignore[arg-type]
        (lambda: session.turn(prepare=[request]), "wanted: (request, tokens)"),  # type: ignore[list-item]
        (lambda: session.prepare([request]), "wanted: (request, tokens)"),  # type: ignore[list-item]
        (lambda: session.turn(complete=[request]), "wanted: a Step"),  # type: ignore[list-item]
        (lambda: session.turn(finish=[None]), "None is to finish; wanted: a Request"),  # type: ignore[list-item]
        (lambda: session.pages().take("3"), "least is '3'"),  # type: ignore[arg-type]
        (lambda: swakv.attach(None), "the model is None; wanted: a swakv.Model"),  # type: ignore[arg-type]
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=re.escape(sentence)):
            call()
    step = request.prefill(5)
    with pytest.raises(TypeError, match="fence is 'x'; wanted: what Stream.mark"):
        step.complete(fence="x")  # type: ignore[arg-type]
    step.complete()
