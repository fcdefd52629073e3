# SPDX-License-Identifier: Apache-2.0
"""A worker in a few lines: speaks shared/wire.h by socket, mmap and struct, so that it can also lie."""
import array
import contextlib
import ctypes
import mmap
import os
import socket
import struct
import time

from processes import PATIENCE

MAGIC = 0x31766B6177736B76
HELLO_BYTES = 8 + 4 + 2 * 2 + 4 * 2 + 4 * 4 + 8 * 2 + 4 * 2 + 32 + 128 + 8 * 6 + 8 * 128
SLOT = 64
TEXT_BYTES = 320
CODES = ["ok", "denied", "gone", "poisoned", "phase", "invalid", "busy", "pending", "never", "nopages", "limit",
         "nomem", "system", "version", "forked", "timedout", "device", "again", "unsupported"]
OPS = ["", "nop", "begin", "prefill_prepare", "prefill_complete", "step_prepare", "step_complete", "compact_begin",
       "compact_complete", "finish", "abandon", "shutdown", "close", "query_pages", "query_request", "query_state",
       "rewind", "reserve", "withdraw", "take", "give", "step-turn", "pin", "unpin"]
OP = {name: number for number, name in enumerate(OPS)}
DONE, LINE, FAILED, POINT = range(4)
PIDFDS = {}


def code_name(code):
    return CODES[-code]


def hello(**change):
    """The bytes of a valid hello, with fields changed by name."""
    f = dict(magic=MAGIC, size=HELLO_BYTES, version_min=2, version_max=2, size_welcome=WELCOME_BYTES, size_command=32,
             size_reply=32, size_ring_control=256, flags=0, n_groups=1, n_streams=1, max_batch=4, max_seq=4096,
             max_advance=0, in_flight=0, max_rewind=0, pool=b"", model=b"test", key=b"", join=0,
             join_generation=0, reserved=0, kind=1, page_tokens=16,
             window=64, layers=1, kv_heads=1, head_dim=64, v_head_dim=64, dtype=1, k_bytes=0, v_bytes=0, extra_bytes=0, align=0,
             form=0, order=0, tag=b"", group_flags=0, group_reserved=0)
    for key in change:
        assert key in f, key
    f.update(change)
    out = struct.pack("<QIHHHHHHIIIIqqII32s128s16s2I3Q", f["magic"], f["size"], f["version_min"], f["version_max"],
                      f["size_welcome"], f["size_command"], f["size_reply"], f["size_ring_control"], f["flags"],
                      f["n_groups"], f["n_streams"], f["max_batch"], f["max_seq"], f["max_advance"], f["in_flight"],
                      f["max_rewind"], f["pool"], f["model"], f["key"], f["join"], f["join_generation"], f["reserved"], 0, 0)
    out += struct.pack("<IIqIIIII6I32s9I", f["kind"], f["page_tokens"], f["window"], f["layers"], f["kv_heads"],
                       f["head_dim"], f["v_head_dim"], f["dtype"], f["k_bytes"], f["v_bytes"], f["extra_bytes"],
                       f["align"], f["form"], f["order"], f["tag"], f["group_flags"], f["group_reserved"], 0, 0, 0, 0, 0,
                       0, 0)
    return out.ljust(HELLO_BYTES, b"\0")


POOL = struct.Struct("<32sII16s64sQQQiI64s")
LAYOUT = struct.Struct("<Iiii12Q")
TABLE = struct.Struct("<IIQQQ")
RING = struct.Struct("<QQII")
HEAD = struct.Struct("<QIHHiIII16s")
FAULT = struct.Struct("<iIiiqq")
WELCOME_BYTES = (HEAD.size + FAULT.size + TEXT_BYTES + 16 + 32 + 2 * RING.size + 4 * POOL.size + 8 * LAYOUT.size +
                 8 * TABLE.size + 8 + 56)


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__("%s: %s" % (code_name(code), text))
        self.code = code_name(code)
        self.text = text


class Gone(Exception):
    pass


def connect(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(path)  # waits for a place in the queue, which one with a time-out does not
    s.settimeout(PATIENCE)
    return s


def receive_welcome(s):
    """(bytes, fds); b"" when the broker has hung up."""
    data, ancillary, _flags, _address = s.recvmsg(65536, socket.CMSG_SPACE(8 * 4))
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[:len(payload) // 4 * 4])
    return data, list(fds)


def own_pidfd():
    """Of this process, opened once in each: what a kernel before 6.5 wants in a hello."""
    if os.getpid() not in PIDFDS:
        PIDFDS[os.getpid()] = os.pidfd_open(os.getpid())
    return PIDFDS[os.getpid()]


def say(s, message, fds):
    """Sends @message, and @fds where the broker lets descriptors come: it does on kernels that it needs one on."""
    try:
        socket.send_fds(s, [message], fds)
    except PermissionError:
        s.send(message)


class Worker:
    """An attached session. A hello carries this process's pidfd unless @fds says what else it carries."""

    def __init__(self, path, message=None, fds=None, **change):
        self.socket = connect(path)
        message = message if message is not None else hello(**change)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before: the answer lies there
            say(self.socket, message, [own_pidfd()] if fds is None else list(fds))
        data, self.fds = receive_welcome(self.socket)
        if not data:
            raise Gone("no welcome")
        assert len(data) == WELCOME_BYTES, (len(data), WELCOME_BYTES)
        self._parse(data)

    def _parse(self, data):
        head = HEAD.unpack_from(data, 0)
        code, self.id, self.generation, self.max_slots = head[4:8]
        at = HEAD.size
        if code:
            text = data[at + FAULT.size:at + FAULT.size + TEXT_BYTES].split(b"\0")[0].decode()
            raise Refused(code, text)
        at += FAULT.size + TEXT_BYTES
        at += 16
        session_bytes, tables_bytes, self.lines, self.wait = struct.unpack_from("<QQQQ", data, at)
        at += 32
        self.c_control, self.c_slots, self.n_slots, _ = RING.unpack_from(data, at)
        self.r_control, self.r_slots, _, _ = RING.unpack_from(data, at + RING.size)
        at += 2 * RING.size
        self.pool = POOL.unpack_from(data, at)
        self.layout = LAYOUT.unpack_from(data, at + 4 * POOL.size)
        self.table = TABLE.unpack_from(data, at + 4 * POOL.size + 8 * LAYOUT.size)
        self.num_pages, self.private_pages, self.width = self.layout[1:4]
        self.mem = mmap.mmap(self.fds[0], session_bytes)
        self.tables_bytes = tables_bytes
        self.doorbell = self.fds[2]
        self.tail = 0
        self.head = 0
        self.next_id = 1
        self.early = {}

    # ---- words ----
    # Shared words move whole, as ctypes does it: struct goes byte by byte, and the broker would see half a number.
    def get32(self, at):
        return ctypes.c_uint32.from_buffer(self.mem, at).value

    def put32(self, at, value):
        ctypes.c_uint32.from_buffer(self.mem, at).value = value & 0xFFFFFFFF

    def get64(self, at):
        return ctypes.c_uint64.from_buffer(self.mem, at).value

    def put64(self, at, value):
        ctypes.c_uint64.from_buffer(self.mem, at).value = value

    def arm(self, value, line=0):
        self.put64(self.lines + line * 64 + 8, value)

    def word(self, value, line=0):
        self.put64(self.lines + line * 64, value)

    # ---- rings ----
    def ring_doorbell(self):
        os.write(self.doorbell, struct.pack("<Q", 1))

    def publish(self, data, slots=None):
        """Writes @data at the tail and publishes @slots (all of it by default)."""
        n = (len(data) + SLOT - 1) // SLOT
        data = data.ljust(n * SLOT, b"\0")
        for i in range(n):
            at = self.c_slots + ((self.tail + i) % self.n_slots) * SLOT
            self.mem[at:at + SLOT] = data[i * SLOT:(i + 1) * SLOT]
        self.tail = (self.tail + (n if slots is None else slots)) & 0xFFFFFFFF
        self.put32(self.c_control, self.tail)
        self.ring_doorbell()

    def command(self, op, payload=b"", n=0, request=0, user=None, n_slots=None):
        if user is None:
            user = self.next_id
            self.next_id += 1
        if n_slots is None:
            n_slots = (32 + len(payload) + SLOT - 1) // SLOT
        number = OP[op] if isinstance(op, str) else op
        return struct.pack("<HHIQQQ", number, n_slots, n, user, request, 0) + payload, user

    def first_slot(self):
        """Of the next reply. A lone one lies beside the position, and its slot may not be written yet (ring.h)."""
        tail = self.get32(self.r_control)
        if tail == (self.head + 1) & 0xFFFFFFFF:
            express = self.mem[self.r_control + 8:self.r_control + SLOT]
            if self.get64(self.r_control) == tail | tail << 32:
                return express + bytes(SLOT - len(express))
        at = self.r_slots + (self.head % self.n_slots) * SLOT
        return self.mem[at:at + SLOT]

    def take_reply(self):
        """The next reply (op, code, user, value, n, payload), None when there is none."""
        if self.get32(self.r_control) == self.head:
            return None
        data = self.first_slot()
        op, n_slots, code, user, value, n, _ = struct.unpack_from("<HHiQQII", data)
        data += b"".join(self.mem[self.r_slots + ((self.head + i) % self.n_slots) * SLOT:][:SLOT]
                         for i in range(1, n_slots))
        self.head = (self.head + n_slots) & 0xFFFFFFFF
        self.put32(self.r_control + 64, self.head)
        if self.get32(self.r_control + 192):
            self.put32(self.r_control + 192, 0)
            self.ring_doorbell()
        return op, code, user, value, n, data[32:]

    def wait_reply(self, user, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while user not in self.early:
            gone = self.hung_up()  # asked first: an answer may come between a look for it and the end
            r = self.take_reply()
            if r:
                self.early[r[2]] = r
            elif gone:
                raise Gone("the broker ended the session")
            elif time.monotonic() > deadline:
                raise TimeoutError("no answer to command %d" % user)
            else:
                time.sleep(0.0005)
        return self.early.pop(user)

    def call(self, op, payload=b"", n=0, request=0):
        data, user = self.command(op, payload, n, request)
        self.publish(data)
        return self.result(user)

    def result(self, user, seconds=PATIENCE):
        _op, code, _user, value, n, payload = self.wait_reply(user, seconds)
        if code:
            raise Refused(code, "reason %d got %d want %d" % (FAULT.unpack_from(payload)[1],
                                                              FAULT.unpack_from(payload)[4],
                                                              FAULT.unpack_from(payload)[5]))
        return value, n, payload

    def hung_up(self):
        self.socket.setblocking(False)
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    # ---- lifecycle ----
    def begin(self, slots, stream=0, max_tokens=0):
        return self.begun(self.ask_begin(slots, stream, max_tokens))

    def ask_begin(self, slots, stream=0, max_tokens=0, wait_ms=0):
        """A begin whose answer is begun()'s."""
        payload = struct.pack("<IIqII", stream, 0, max_tokens, wait_ms, 0) + struct.pack("<%di" % len(slots), *slots)
        data, user = self.command("begin", payload, len(slots))
        self.publish(data)
        return user

    def begun(self, user, seconds=PATIENCE):
        return self.result(user, seconds)[0]

    def prefill(self, request, lengths, fence=(DONE, 0, 0)):
        self.call("prefill_prepare", struct.pack("<%di" % len(lengths), *lengths), len(lengths), request)
        self.call("prefill_complete", struct.pack("<IIQ", *fence), 0, request)

    def step(self, op, request, fence=(DONE, 0, 0)):
        return self.call(op, struct.pack("<QiiIIQ", request, 1, 0, *fence), 1)

    def decode(self, request, fence=(DONE, 0, 0)):
        self.step("step_prepare", request)
        self.step("step_complete", request, fence)

    def finish(self, request, fence=(POINT, 0, 0)):
        self.call("finish", struct.pack("<IIQ", *fence), 0, request)

    def free_pages(self):
        return self.call("query_pages")[0]

    def drop(self):
        """Ends the connection and nothing else: the process lives on with its mappings."""
        self.socket.close()

    def close(self):
        self.call("close")
        self.socket.close()
        self.mem.close()
        for fd in self.fds:
            os.close(fd)
