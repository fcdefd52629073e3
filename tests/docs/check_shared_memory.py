#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_shared_memory.py - no lock and no pointer lies in memory that processes share

usage: check_shared_memory.py ROOT

Every struct of the protocol, of a ring's control and of the status page has members of fixed width only: a process that
dies while it holds a lock there would stop all others, and a pointer would be followed. The few structs beside them in
those files that are private to one process are listed here. No file below shared/ and broker/ring/ takes a lock at all.
"""
import pathlib
import re
import sys

HEADERS = ("shared/wire.h", "shared/wire_turn.h", "shared/wire_board.h", "shared/admin_wire.h", "shared/ring.h",
           "shared/status_page.h")
PRIVATE = {"ring_producer_spsc", "ring_consumer_spsc", "status_writer", "status_reader"}
LOCKS = re.compile(r"\b(pthread_mutex|pthread_rwlock|pthread_spin|pthread_cond|mtx_t|sem_t|sem_init|sem_open|lockf)\w*")
FIXED = re.compile(r"^(_Alignas\(\w+\)\s+)*(const )?(shm_u(8|16|32|64)|u?int(8|16|32|64)_t|char|unsigned char|"
                   r"(struct|union|enum) \w+)\b[^*]*$")


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def structs(text: str) -> list[tuple[str, str]]:
    """[(name, what stands between its braces)]"""
    found = []
    for match in re.finditer(r"^(?:struct|union) (\w+) \{", text, flags=re.M):
        depth, at = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        found.append((match[1], text[match.end():at - 1]))
    return found


def wrong_members(name: str, body: str) -> list[str]:
    members = re.sub(r"(_Alignas\(\w+\)\s*)?(struct|union)\s*\{|\}[^;]*;", ";", body)  # those within, as members
    wrong = []
    for member in (" ".join(m.split()) for m in members.split(";")):
        if member and not FIXED.match(member):
            wrong.append(f"struct {name} has a member that is not of fixed width: {member}")
    return wrong


def main(root: pathlib.Path) -> int:
    wrong, seen = [], 0
    for header in HEADERS:
        for name, body in structs(without_comments((root / header).read_text(encoding="utf-8"))):
            if name not in PRIVATE:
                seen += 1
                wrong += [f"{header}: {what}" for what in wrong_members(name, body)]
    for folder in ("shared", "broker/ring"):
        for path in sorted((root / folder).glob("*.[ch]")):
            lock = LOCKS.search(without_comments(path.read_text(encoding="utf-8")))
            if lock:
                wrong.append(f"{path.relative_to(root)} takes a lock: {lock[0]}")
    if not wrong_members("trial", "pthread_mutex_t lock;") or not wrong_members("trial", "struct x *next;"):
        wrong.append("this check does not see a lock or a pointer")
    print("\n".join(wrong) or f"{seen} structs, no lock and no pointer")
    return bool(wrong) or seen < 30


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
