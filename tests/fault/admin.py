# SPDX-License-Identifier: Apache-2.0
"""admin - swakv-ctl, and shared/admin_wire.h by hand, so that a test can also lie"""
import json
import struct
import subprocess

import wire
from processes import check, program

MAGIC = 0x316C7463766B7773
PING, LIST, LIMIT, DRAIN, DISCONNECT, KILL, STOP, STATUS = range(1, 9)
GREETING_BYTES, REQUEST_BYTES, REPLY_BYTES, SESSION_BYTES = 288, 224, 640, 208
DONE, REFUSED, USAGE, NO_BROKER, DENIED, NO_ANSWER = range(6)


def run(broker, *arguments, **options):
    """swakv-ctl on @broker: its result."""
    return subprocess.run([program("swakv-ctl"), "--name", broker.name, *arguments], env=broker.env, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def ctl(broker, *arguments, expect=DONE, words="", **options):
    """As run(), in JSON: the exit code must be @expect, and @words must be in its sentence."""
    result = run(broker, "--json", *arguments, **options)
    check(result.returncode == expect, arguments, "ended with", result.returncode, result.stdout, result.stderr)
    said = json.loads(result.stdout)
    check(said["exit"] == expect and said["ok"] == (expect == DONE), said)
    check(words in said["text"], f"{words!r} is not in", said["text"])
    return said


def request(**change):
    """The bytes of a valid ping, with fields changed by name."""
    f = dict(magic=MAGIC, size=REQUEST_BYTES, version=1, op=PING, flags=0, session=0, generation=0, reserved0=0,
             model=b"", floor=0, ceiling=0, reserved=0)
    for key in change:
        assert key in f, key
    f.update(change)
    return struct.pack("<QIHHIIII128sQQ6Q", f["magic"], f["size"], f["version"], f["op"], f["flags"], f["session"],
                       f["generation"], f["reserved0"], f["model"], f["floor"], f["ceiling"], f["reserved"], 0, 0, 0, 0,
                       0)


class Connection:
    """A connection of an administrator that has been greeted."""

    def __init__(self, broker):
        self.socket = wire.connect(broker.socket_path + ".ctl")
        data = self.socket.recv(4096)
        check(len(data) == GREETING_BYTES and struct.unpack_from("<Q", data)[0] == MAGIC, "the greeting", data)
        self.code = struct.unpack_from("<i", data, 20)[0]
        self.text = data[72:264].split(b"\0")[0].decode()

    def send(self, message):
        self.socket.send(message)

    def reply(self):
        """(name of the code, sentence); None when the broker has hung up."""
        data = self.socket.recv(1 << 20)
        if not data:
            return None
        check(len(data) >= REPLY_BYTES, "a reply of", len(data))
        code, n_sessions = struct.unpack_from("<iI", data, 16)
        n_names = struct.unpack_from("<I", data, 48)[0]
        check(len(data) == REPLY_BYTES + n_sessions * SESSION_BYTES + n_names * 128, "a reply of", len(data), "with",
              n_sessions, n_names)
        return wire.code_name(code), data[96:608].split(b"\0")[0].decode()

    def ask(self, **change):
        self.send(request(**change))
        return self.reply()

    def close(self):
        self.socket.close()
