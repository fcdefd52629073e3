# SPDX-License-Identifier: Apache-2.0
"""tap - stands between a broker and those who come to it, passes on what is said, and notes it

What workers and broker say in the rings it reads along in the session's memory, whose descriptor comes with the welcome.
"""
import contextlib
import os
import pathlib
import select
import socket
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fault"))

import wire

MOST_COMMANDS, MOST_SLOTS = 120, 255
SETTLED_S = 0.0005  # a lone message lies in its slot soon after its position has been published
LINE_BYTES = 64


class Ring:
    """What comes in one ring of @worker, message by message."""

    def __init__(self, worker, control, slots):
        self.worker, self.control, self.slots, self.seen, self.lost = worker, control, slots, 0, False

    def take(self):
        tail = self.worker.get32(self.control)
        messages = []
        if tail == self.seen or self.lost:
            return messages
        time.sleep(SETTLED_S)
        while self.seen != tail and not self.lost:
            data = self._slot(self.seen)
            n = struct.unpack_from("<H", data, 2)[0]
            data = b"".join(self._slot(self.seen + i) for i in range(n))
            self.seen = (self.seen + n) & 0xFFFFFFFF
            # Written over in the meantime, or more than has come.
            overrun = (self.worker.get32(self.control) - self.seen + n) & 0xFFFFFFFF
            self.lost = not 1 <= n <= MOST_SLOTS or overrun > self.worker.n_slots - self.worker.max_slots
            if not self.lost:
                messages.append(data)
        return messages

    def _slot(self, number):
        at = self.slots + number % self.worker.n_slots * wire.SLOT
        return self.worker.mem[at:at + wire.SLOT]


class Session:
    """A worker's life: its hello, its welcome, its commands with its lines, and what it was answered."""

    def __init__(self, hello):
        self.hello, self.welcome = hello, b""
        self.commands, self.replies = [], []  # ("line", n, armed, word) or bytes; bytes
        self.ended = threading.Event()
        self.thread = None

    def begin(self, welcome, fds):
        self.welcome = welcome
        worker = wire.Worker.__new__(wire.Worker)
        worker.fds = [os.dup(fd) for fd in fds]
        try:
            worker._parse(welcome)
        except wire.Refused:
            return
        self.thread = threading.Thread(target=self._read_along, args=(worker,), daemon=True)
        self.thread.start()

    def _read_along(self, worker):
        commands = Ring(worker, worker.c_control, worker.c_slots)
        replies = Ring(worker, worker.r_control, worker.r_slots)
        n_streams = struct.unpack_from("<I", self.hello, 8 + 4 + 2 * 2 + 4 * 2 + 4 * 2)[0]
        lines = [(0, 0)] * n_streams
        while not self.ended.is_set() and sum(isinstance(c, bytes) for c in self.commands) < MOST_COMMANDS:
            got = commands.take()
            # The word first, then what was armed: it is never behind the word, nor behind what these commands name.
            now = [(worker.get64(worker.lines + i * LINE_BYTES), worker.get64(worker.lines + i * LINE_BYTES + 8))
                   for i in range(n_streams)]
            if got:
                self.commands += [("line", i, armed, word) for i, (word, armed) in enumerate(now) if now[i] != lines[i]]
                lines = now
            self.commands += got
            self.replies += replies.take()
            if commands.lost or replies.lost:
                break
        for fd in worker.fds:
            os.close(fd)

    def recorded(self):
        """As fuzz_session.c plays it."""
        out = self.hello
        for command in self.commands:
            if isinstance(command, bytes):
                out += bytes([len(command) // wire.SLOT]) + command
            else:
                _, number, armed, word = command
                out += struct.pack("<BBII", 0, number, armed & 0xFFFFFFFF, word & 0xFFFFFFFF)
        return out


class Tap:
    """Sockets in a folder of its own, with the names that @broker's have. What administrators and broker say is in
    @asked and @answered: bytes of a request; of a greeting and a reply."""

    def __init__(self, broker):
        self.broker, self.sessions, self.asked, self.answered = broker, [], [], []

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="swakv-tap.")
        self.env = dict(self.broker.env, XDG_RUNTIME_DIR=self.folder.name)
        os.mkdir(f"{self.folder.name}/swakv", 0o700)
        for ending in ("", ".ctl"):
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            listener.bind(f"{self.folder.name}/swakv/{self.broker.name}.sock{ending}")
            listener.listen(16)
            threading.Thread(target=self._accept, args=(listener, ending), daemon=True).start()
        return self

    def __exit__(self, *_):
        for session in self.sessions:
            session.ended.set()
            if session.thread:
                session.thread.join()
        self.folder.cleanup()

    def _accept(self, listener, ending):
        while True:
            worker, _ = listener.accept()
            threading.Thread(target=self._pass_on, args=(worker, ending), daemon=True).start()

    def _pass_on(self, worker, ending):
        broker = wire.connect(self.broker.socket_path + ending)
        said = {worker: [], broker: []}
        other = {worker: broker, broker: worker}
        session = None
        while True:
            for one in select.select(list(said), [], [])[0]:
                data, fds = b"", []
                with contextlib.suppress(ConnectionResetError):
                    data, fds, _flags, _address = socket.recv_fds(one, 1 << 20, 8)
                if not data:
                    self._end(session, said[worker], said[broker], ending)
                    worker.close()
                    broker.close()
                    return
                said[one].append(data)
                if not ending and one is worker and not session:
                    session = Session(data)
                    self.sessions.append(session)
                    fds_of_tap = [wire.own_pidfd()]
                    wire.say(broker, data, fds_of_tap)
                    continue
                if session and one is broker and not session.welcome:
                    session.begin(data, fds)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    socket.send_fds(other[one], [data], fds)
                for fd in fds:
                    os.close(fd)

    def _end(self, session, asked, answered, ending):
        if session:
            session.ended.set()
        elif ending:
            self.asked += asked
            self.answered.append(b"".join(answered))
