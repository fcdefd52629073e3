# SPDX-License-Identifier: Apache-2.0
"""A terminal as small as a test needs: a process on a pty, and what its screen shows (a vt100's orders)."""
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

PATIENCE = float(os.environ.get("PATIENCE", "300"))
ORDER = re.compile(r"\x1b\[([?>]?[0-9;]*)([A-Za-z@`])|\x1b[()][A-Z0-9]|\x1b([78=>HMDEc])|([\x00-\x1f])|([^\x00-\x1f\x1b]+)", re.S)


class Terminal:
    def __init__(self, argv, rows=24, columns=80, term="vt100", **environment):
        self.rows, self.columns = rows, columns
        self.raw = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "LINES", "COLUMNS")}
            os.execvpe(argv[0], argv, {**env, "TERM": term, **environment})
        self.clear()
        self.resize(rows, columns)
        self.status = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        os.close(self.fd)
        if self.status is None:
            os.waitpid(self.pid, 0)

    def clear(self):
        self.cells = [[" "] * self.columns for _ in range(self.rows)]
        self.row = self.column = 0
        self.top, self.bottom = 0, self.rows - 1

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.clear()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def put(self, text):
        for c in text:
            if self.column == self.columns:  # it wraps when there is more to show
                self.column = 0
                self.down()
            self.cells[self.row][self.column] = c
            self.column += 1

    def down(self):
        if self.row == self.bottom:
            del self.cells[self.top]
            self.cells.insert(self.bottom, [" "] * self.columns)
        elif self.row < self.rows - 1:
            self.row += 1

    def up(self):
        if self.row == self.top:
            del self.cells[self.bottom]
            self.cells.insert(self.top, [" "] * self.columns)
        elif self.row > 0:
            self.row -= 1

    def control(self, c):
        if c == "\r":
            self.column = 0
        elif c == "\n":
            self.down()
        elif c == "\b":
            self.column = max(0, min(self.column, self.columns - 1) - 1)
        elif c == "\t":
            self.column = min(self.columns - 1, self.column // 8 * 8 + 8)

    def order(self, arguments, name):
        n = [int(x) if x else 0 for x in arguments.lstrip("?>").split(";")]
        first = n[0] or 1
        if name in "Hf":
            self.row = min(self.rows, first) - 1
            self.column = min(self.columns, (n[1] if len(n) > 1 else 0) or 1) - 1
        elif name == "A":
            self.row = max(0, self.row - first)
        elif name == "B":
            self.row = min(self.rows - 1, self.row + first)
        elif name == "C":
            self.column = min(self.columns - 1, self.column + first)
        elif name == "D":
            self.column = max(0, self.column - first)
        elif name == "J" and n[0] in (0, 2):
            self.cells[self.row][self.column if n[0] == 0 else 0:] = [" "] * (self.columns - (self.column if n[0] == 0 else 0))
            for i in range(self.row + 1 if n[0] == 0 else 0, self.rows):
                self.cells[i] = [" "] * self.columns
        elif name == "K":
            start, end = {0: (self.column, self.columns), 1: (0, self.column + 1), 2: (0, self.columns)}[n[0]]
            self.cells[self.row][start:end] = [" "] * (min(end, self.columns) - start)
        elif name == "r":
            self.top, self.bottom = first - 1, (n[1] if len(n) > 1 and n[1] else self.rows) - 1
            self.row = self.column = 0
        elif name == "X":
            self.cells[self.row][self.column:self.column + first] = [" "] * min(first, self.columns - self.column)
        elif name in "@P":  # characters come in, or go
            row, blanks = self.cells[self.row], [" "] * min(first, self.columns - self.column)
            rest = row[self.column:] if name == "@" else row[self.column + first:] + blanks
            row[self.column:] = ((blanks if name == "@" else []) + rest)[:self.columns - self.column]
        elif name in "LM":  # so do lines
            for _ in range(first):
                del self.cells[self.bottom if name == "L" else self.row]
                self.cells.insert(self.row if name == "L" else self.bottom, [" "] * self.columns)
        elif name == "d":
            self.row = min(self.rows, first) - 1
        elif name in "G`":
            self.column = min(self.columns, first) - 1
        elif name not in "mhlgnc":
            raise ValueError(f"an order that this terminal does not know: {arguments}{name}")

    def feed(self, text):
        self.raw += text
        for m in ORDER.finditer(re.sub(r"\$<[0-9]+>", "", text)):
            arguments, name, single, control, printed = m.groups()
            if name:
                self.order(arguments, name)
            elif single == "M":
                self.up()
            elif single == "D":
                self.down()
            elif control:
                self.control(control)
            elif printed:
                self.put(printed)

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def text(self):
        return "\n".join(self.lines())

    def read(self, seconds):
        """Takes what has come: False at the end of the process."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        data = b""
        try:
            data = os.read(self.fd, 65536)
            while data.rsplit(b"\x1b", 1)[-1:] and re.search(rb"\x1b(\[[?>0-9;]*)?$", data):  # an order that is not whole
                data += os.read(self.fd, 65536)
        except OSError:
            pass
        self.feed(data.decode(errors="replace"))
        return bool(data)

    def wait_for(self, condition):
        """Until the screen shows what is wanted: condition(text)."""
        limit = time.monotonic() + PATIENCE
        while not condition(self.text()):
            if time.monotonic() > limit or not self.read(1):
                raise AssertionError("the screen never showed it:\n" + self.text())

    def wait_end(self):
        """Its exit status, once it has ended."""
        limit = time.monotonic() + PATIENCE
        while self.read(1):
            if time.monotonic() > limit:
                raise AssertionError("it goes on:\n" + self.text())
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status
