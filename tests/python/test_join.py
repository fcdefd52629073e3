# SPDX-License-Identifier: Apache-2.0
"""A session of several processes, in Python: one plans, another works on its pages."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import processes
import pytest

import swakv

np = pytest.importorskip("numpy")

Attach = Callable[..., swakv.Session]
MODEL = 'swakv.Model("several", [swakv.Group(layers=2, kv_heads=1, head_dim=8, page_tokens=16, dtype="f32", form="joined")])'

FIRST = f"""
import sys, swakv
session = swakv.attach({MODEL}, socket=sys.argv[1], joinable=True)
mine = session.pages().take(4)
print(session.token().hex(), *mine, flush=True)
sys.stdin.read()
"""
MEMBER = f"""
import sys, numpy, swakv
session = swakv.attach({MODEL}, socket=sys.argv[1], join=bytes.fromhex(sys.stdin.readline()))
pages = numpy.asarray(session.layouts[0].pages)
for page in map(int, sys.stdin.readline().split()):
    pages[page] = 7
print("joined", flush=True)
sys.stdin.readline()
del pages
session.close()
print("left", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def pool() -> Iterator[processes.Broker]:
    with processes.Broker(size="1M") as b:
        yield b


def start(code: str, pool: processes.Broker) -> subprocess.Popen[str]:
    run = subprocess.Popen(
        [sys.executable, "-c", code, pool.socket_path],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pool.workers.append(run)
    return run


def say(run: subprocess.Popen[str], *lines: str) -> None:
    assert run.stdin is not None
    run.stdin.write("".join(line + "\n" for line in lines))
    run.stdin.flush()


def hear(run: subprocess.Popen[str]) -> str:
    assert run.stdout is not None
    return run.stdout.readline().strip()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "waited 60 s"
        time.sleep(0.005)


def model() -> swakv.Model:
    return eval(MODEL)  # as the processes have it


def test_a_member_works_on_the_pages_of_the_first(pool: processes.Broker) -> None:
    with swakv.attach(model(), socket=pool.socket_path, joinable=True) as session:
        mine = session.pages().take(3)
        member = start(MEMBER, pool)
        say(member, session.token().hex(), " ".join(map(str, mine)))
        assert hear(member) == "joined"
        content = np.asarray(session.layouts[0].pages)
        assert (content[mine] == 7).all()
        assert content.sum() == 7 * content[mine].size
        del content


def test_a_member_gives_no_commands_and_has_the_tables(pool: processes.Broker) -> None:
    # In one process, which the broker does not mind: a member is whoever has the token.
    with swakv.attach(model(), socket=pool.socket_path, joinable=True) as session, session.begin(slots=[0]) as request:
        with request.prefill(20):
            pass
        with swakv.attach(model(), socket=pool.socket_path, join=session.token()) as member:
            assert member.info.session_id == session.info.session_id
            assert np.asarray(member.layouts[0].host_table)[0, 0, 0] == request.sequence(0).bindings[0]
            for command in (member.ping, lambda: member.pages().take(1), lambda: member.begin(slots=[1])):
                with pytest.raises(swakv.Invalid, match="first"):
                    command()
            with pytest.raises(swakv.Invalid):
                member.token()
        with request.step():
            pass


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "is-killed"])
def test_pages_wait_for_the_member_when_the_first_is_killed(pool: processes.Broker, leaves: bool) -> None:
    with swakv.attach(model(), socket=pool.socket_path) as watch:
        free = watch.free_pages()
        first = start(FIRST, pool)
        token, *mine = hear(first).split()
        member = start(MEMBER, pool)
        say(member, token, " ".join(mine))
        assert hear(member) == "joined"
        first.kill()
        first.wait()
        until(lambda: not can_join(pool, token))  # the broker has seen it
        assert watch.free_pages() == free - len(mine)
        if leaves:
            say(member, "")
            assert hear(member) == "left"
        else:
            member.kill()
        until(lambda: watch.free_pages() == free)


def can_join(pool: processes.Broker, token: str) -> bool:
    try:
        swakv.attach(model(), socket=pool.socket_path, join=bytes.fromhex(token)).close()
    except swakv.Gone:
        return False
    return True


def test_who_may_not_join_is_told(pool: processes.Broker) -> None:
    with swakv.attach(model(), socket=pool.socket_path) as session:
        with pytest.raises(swakv.Invalid, match="SWAKV_ATTACH_JOINABLE|joinable"):
            session.token()
        with pytest.raises(swakv.Gone):
            swakv.attach(model(), socket=pool.socket_path, join=bytes(32))
        with pytest.raises(ValueError, match="7 bytes"):
            swakv.attach(model(), socket=pool.socket_path, join=bytes(7))
