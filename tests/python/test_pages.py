# SPDX-License-Identifier: Apache-2.0
"""Pages that a worker manages itself, in Python: take, give, pressure, waiting in an event loop."""

from __future__ import annotations

import dataclasses
import gc
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator

import admin
import processes
import pytest

import swakv

np = pytest.importorskip("numpy")

Attach = Callable[..., swakv.Session]
GROUP = swakv.Group(layers=1, kv_heads=1, head_dim=8, page_tokens=16, dtype="f32", form="joined")
POOL = 1 << 20


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "waited 60 s"
        time.sleep(0.005)


@pytest.fixture
def tiny() -> Iterator[Callable[..., swakv.Session]]:
    """Attaches to a broker of its own, whose pool has fewer pages than one take may have."""
    with processes.Broker(size=str(POOL)) as b:
        yield lambda name="taker", groups=(GROUP,), **more: swakv.attach(
            swakv.Model(name, list(groups), max_seq=16), socket=b.socket_path, **more
        )


def take_all(session: swakv.Session) -> list[int]:
    held: list[int] = []
    while True:
        try:
            held += session.pages().take(1, swakv.MAX_PAGES)
        except swakv.NoPages:
            return held


def test_pages_are_taken_and_given(tiny: Attach) -> None:
    with tiny() as session:
        pages, free = session.pages(), session.free_pages()
        mine = pages.take(3)
        assert len(set(mine)) == 3
        assert all(0 <= i < session.layouts[0].num_pages for i in mine)
        more = pages.take(1, 5)
        assert 1 <= len(more) <= 5 and not set(more) & set(mine)
        assert session.free_pages() == free - 3 - len(more)
        pages.give(mine)
        pages.give(more, session.stream().mark())
        until(lambda: session.free_pages() == free)


def test_what_is_not_the_callers_is_refused_with_its_id(tiny: Attach) -> None:
    with tiny() as session, tiny("other") as other:
        pages, mine = session.pages(), session.pages().take(2)
        theirs = other.pages().take(1)
        for wrong in ([*mine, *theirs], [mine[0], mine[0]], [*mine, 1 << 20]):
            with pytest.raises(swakv.Invalid, match=str(wrong[-1])):
                pages.give(wrong)
        pages.give(mine)  # they were still the caller's
        other.pages().give(theirs)


def test_wrong_counts_are_refused_in_a_sentence(tiny: Attach) -> None:
    with tiny() as session:
        pages = session.pages()
        for least, most in ((-1, None), (3, 2), (1, swakv.MAX_PAGES + 1)):
            with pytest.raises(ValueError, match="pages were asked for"):
                pages.take(least, most)
        with pytest.raises(swakv.Invalid):
            pages.take(0, 0)
        with pytest.raises(swakv.Invalid, match="stream 7"):
            pages.take(1, stream=7)
        with pytest.raises(swakv.Invalid, match="layer group 1"):
            session.pages(1)
        with pytest.raises(swakv.Invalid, match="-2"):
            pages.offer(-2)
        with pytest.raises(swakv.Invalid):
            pages.give([])


def test_a_page_of_another_session_reads_zeroes_and_an_overwriter_gets_its_own_back(tiny: Attach) -> None:
    with tiny() as session, tiny("other") as other:
        mine = take_all(session)
        content = np.asarray(session.layouts[0].pages)
        content[mine] = 7
        session.pages().give(mine)
        until(lambda: session.pages().takeable >= len(mine) // 2)
        again = session.pages().take(4, overwrites=True)
        assert (content[again] == 7).all(), "this session had them last"
        theirs = other.pages().take(4)
        assert (np.asarray(other.layouts[0].pages)[theirs] == 0).all()
        later = session.pages().take(4)
        assert (content[later] == 0).all(), "who may read before he writes gets zeroes"
        del content
        gc.collect()


def test_a_take_waits_until_others_give(tiny: Attach) -> None:
    with tiny() as session, tiny("other") as other:
        held = take_all(other)
        with pytest.raises(swakv.NoPages):
            session.pages().take(1)
        got: list[list[int]] = []
        waiter = threading.Thread(target=lambda: got.append(session.pages().take(2, wait=60)))
        waiter.start()
        until(lambda: other.pages().wanted.pages == 2)  # it waits, and the broker asks who has pages
        want = other.pages().wanted
        assert want and 0 < want.since <= time.monotonic()
        for _ in range(20):
            session.ping()  # the waiter keeps nobody from the session
        assert not got
        other.pages().give(held[:2])
        waiter.join(60)
        assert len(got[0]) == 2
        until(lambda: not other.pages().wanted)
        assert other.pages().wanted == swakv.Want(0, 0.0)


def test_who_keeps_the_space_of_larger_pages_is_told_which_help_most(tiny: Attach) -> None:
    large = dataclasses.replace(GROUP, page_tokens=256)
    with tiny() as small, tiny("large", groups=[large]) as other:
        held = take_all(small)
        assert small.pages().wanted_ranges() == []
        small.pages().give([i for i in held if i % 8])  # one of eight neighbours is left
        left = {i for i in held if i % 8 == 0}
        take_all(other)
        taking = other.pages().start_take(1, wait=60)
        until(lambda: bool(small.pages().wanted_ranges()))
        told = {i for r in small.pages().wanted_ranges() for i in r}
        given = sorted(told & left)
        assert 0 < len(given) < len(left), "not all of them are in its way"
        small.pages().give(given)
        assert len(taking.wait()) == 1, "and those were"
        until(lambda: small.pages().wanted_ranges() == [])


def test_pages_of_a_movable_group_move_with_a_step() -> None:
    group = dataclasses.replace(GROUP, window=16, movable=True)
    model = swakv.Model("moves", [group], max_batch=16, max_seq=4096)
    large = swakv.Model("large", [dataclasses.replace(GROUP, page_tokens=256)], max_seq=256)
    with processes.Broker(size=str(POOL)) as b, swakv.attach(model, socket=b.socket_path) as session:
        content, held, requests = np.asarray(session.layouts[0].pages), [], []
        for slot in range(16):  # one here and one there
            held += session.pages().take(session.layouts[0].num_pages // 20)
            requests.append(session.begin(slots=[slot]))
            with requests[-1].prefill(1):
                pass
        session.pages().give(held)
        with swakv.attach(large, socket=b.socket_path) as other:
            take_all(other)
            taking, moved = other.pages().start_take(1, wait=60), 0
            end = time.monotonic() + 60
            while not taking.poll():
                assert time.monotonic() < end, "waited 60 s"
                time.sleep(0.01)  # 4,096 tokens are more than a minute's
                before = [r.sequence(0).bindings for r in requests]
                for i, bound in enumerate(before):
                    content[list(bound.values())] = i + 1
                for step in session.prepare([(r, 1) for r in requests]):
                    step.complete()
                for i, r in enumerate(requests):
                    now = r.sequence(0).bindings
                    both = [(before[i][c], now[c]) for c in before[i] if c in now]
                    assert all((content[new] == i + 1).all() for _, new in both), "all of a page comes along"
                    moved += sum(old != new for old, new in both)
            assert len(taking.wait()) == 1
            assert moved, "nothing else made room"
        for r in requests:
            r.finish()
        del content
        gc.collect()


def test_what_is_offered_is_asked_for_first(tiny: Attach) -> None:
    with tiny() as session, tiny("rich") as rich, tiny("richer") as richer:
        some = rich.pages().take(100)
        rest = take_all(richer)
        rich.pages().offer(len(some))
        taking = session.pages().start_take(3, wait=60)
        until(lambda: rich.pages().wanted.pages == 3)  # more at first: what filled the pool was refused, too
        assert not richer.pages().wanted
        rich.pages().give(some[:3])
        assert len(taking.wait()) == 3
        assert len(rest) > 100


def test_takeable_is_about_what_could_be_taken(tiny: Attach) -> None:
    with tiny() as session:
        free = session.free_pages()
        until(lambda: session.pages().takeable == free)
        mine = session.pages().take(10)
        until(lambda: session.pages().takeable == free - 10)
        session.pages().give(mine)


def test_a_take_is_waited_for_in_an_event_loop(tiny: Attach) -> None:
    with tiny(events=True) as session, tiny("other") as other:
        held = take_all(other)
        taking = session.pages().start_take(2, wait=60)
        until(lambda: bool(other.pages().wanted))
        assert not taking.poll()
        assert taking.ids == []
        other.pages().give(held[:2])
        while not taking.poll():
            assert select.select([session], [], [], 60)[0]
        assert len(taking.ids) == 2


def test_a_want_is_waited_for_in_an_event_loop(tiny: Attach) -> None:
    with tiny(events=True) as session, tiny("other") as other:
        mine = take_all(session)
        assert not session.pages().wanted  # from this look on the descriptor tells of more
        taking = other.pages().start_take(2, wait=60)
        while not session.pages().wanted:
            assert select.select([session], [], [], 60)[0]
        session.pages().give(mine[:2])
        assert len(taking.wait()) == 2


def test_a_take_is_withdrawn(tiny: Attach) -> None:
    with tiny() as session, tiny("other") as other:
        held = take_all(other)
        taking = session.pages().start_take(2, wait=600)
        until(lambda: bool(other.pages().wanted))
        taking.withdraw()
        until(lambda: not other.pages().wanted or other.pages().wanted.since == 0)
        other.pages().give(held)
        until(lambda: other.free_pages() == len(held))
        assert session.pages().take(len(held) // 2)


def test_ctrl_c_ends_a_take_and_withdraws_it(tiny: Attach) -> None:
    with tiny() as session, tiny("other") as other:
        held = take_all(other)
        main = threading.get_ident()

        def interrupt() -> None:
            until(lambda: bool(other.pages().wanted))
            signal.pthread_kill(main, signal.SIGINT)

        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            session.pages().take(1, wait=600)
        other.pages().give(held)
        until(lambda: other.free_pages() == len(held))  # nobody was given one of them


def test_a_take_that_is_dropped_gives_its_pages_back(tiny: Attach) -> None:
    with tiny() as session:
        free = session.free_pages()
        taking = session.pages().start_take(5)
        until(lambda: session.free_pages() == free - 5)
        del taking
        gc.collect()
        until(lambda: session.free_pages() == free)  # each look is a call of the session


def test_managed_pages_live_beside_requests(tiny: Attach) -> None:
    with tiny() as session:
        mine = session.pages().take(5)
        with session.begin(slots=[0]) as request:
            with request.prefill(10):
                pass
            assert not set(request.sequence(0).bindings.values()) & set(mine)
        session.pages().give(mine)


def test_pages_of_a_closed_session_come_back(tiny: Attach) -> None:
    with tiny("other") as other:
        free = other.free_pages()
        session = tiny()
        session.pages().take(20)
        assert other.free_pages() == free - 20
        pages = session.pages()
        session.close()
        until(lambda: other.free_pages() == free)
        with pytest.raises(swakv.Gone, match="closed"):
            pages.take(1)


def test_limits_of_the_model_are_read_in_pages() -> None:
    page = 2 * GROUP.kv_heads * GROUP.head_dim * 4 * GROUP.page_tokens
    with processes.Broker(size=str(POOL)) as b:

        def limit(*change: str) -> None:
            admin.ctl(b, "limit", "taker", *change)

        limit("--floor", str(10 * page + 1), "--ceiling", str(21 * page - 1))
        with swakv.attach(swakv.Model("taker", [GROUP], max_seq=16), socket=b.socket_path) as session:
            limits = session.pages().limits()
            assert 10 <= limits.floor < 100 and limits.ceiling == 20, limits
            limit("--floor", "0", "--ceiling", "none")
            until(lambda: session.pages().limits() == swakv.Limits(0, session.layouts[0].num_pages))
            with pytest.raises(swakv.Invalid):
                swakv.Pages(session, 1).limits()
