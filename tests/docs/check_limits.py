#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_limits.py - the limits in swakv(7) are those of the sources, and there are no others in it

usage: check_limits.py ROOT

A row of the tables is checked against a constant of the sources; a row without
one, and a constant that is no longer found, are failures.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])

# Row: what it says, with N for the number, and the constant behind it as (file, name, what the row subtracts).
ROWS = {
    "bytes of its name": ("N", ("shared/wire.h", "WIRE_MODEL_NAME", 1)),
    "layer groups": ("N", ("shared/wire.h", "WIRE_MAX_GROUPS", 0)),
    "slots (_max_batch_), and sequences of a request": ("N", ("shared/wire.h", "WIRE_MAX_BATCH", 0)),
    "tokens of a sequence (_max_seq_)": ("N", 2**31 - 1),
    "layers of a group, and KV heads": ("N", ("broker/engine/model.c", "MAX_LAYERS", 0)),
    "elements of a head": ("N", ("broker/engine/model.c", "MAX_HEAD_DIM", 0)),
    "bytes of K, and of V, of a token and layer": ("N", ("broker/engine/model.c", "MAX_ROW_BYTES", 0)),
    "extra bytes of a page and layer": ("N", ("broker/engine/model.c", "MAX_EXTRA_BYTES", 0)),
    "bytes that a group is aligned to": ("N", ("shared/wire.h", "WIRE_MAX_ALIGN", 0)),
    "bytes of a group's tag": ("N", ("shared/wire.h", "WIRE_TAG", 1)),
    "tokens of a page": ("N", 256),
    "pages of a group that the pool could hold": ("N", (2**31 - 1) // 2),
    "entries of a group's table (_max_batch_ by pages of _max_seq_)": ("N", ("broker/engine/model.c", "MAX_TABLE_ENTRIES", 0)),
    "steps in flight that can be declared (_in_flight_)": ("N", ("broker/engine/model.c", "MAX_IN_FLIGHT", 0)),
    "streams": ("N", ("shared/wire.h", "WIRE_MAX_STREAMS", 0)),
    "requests, and entries of a step": ("_max_batch_", None),
    "begins that wait for pages": ("_max_batch_, and N", 256),
    "completion points that are open": ("(_in_flight_ + 3) times _max_batch_, and 256; N", 65536),
    "tickets that are not collected": ("N", ("client/call.c", "CALLS_MAX", 0)),
    "steps of a graph in flight": ("N", ("client/include/swakv/stream.h", "SWAKV_MAX_GRAPH_STEPS", 0)),
    "sessions": ("N", ("shared/admin_wire.h", "ADMIN_MAX_SESSIONS", 0)),
    "page sizes in use at a time": ("N", ("broker/engine/engine.h", "ENGINE_MAX_CLASSES", 0)),
    "bytes of its name, and of its pool's": ("N", ("shared/wire.h", "WIRE_NAME", 1)),
    "bytes of its socket's path": ("N", ("shared/instance.h", "SOCKET_PATH_SIZE", 1)),
    "models with limits and without a session": ("N", ("broker/engine/floor_ceiling.c", "QUOTAS_WITHOUT_SESSION", 0)),
    "models that are drained": ("N", ("shared/admin_wire.h", "ADMIN_MAX_DRAINED", 0)),
    "[model] sections": ("N", ("broker/config/config.h", "CONFIG_MAX_MODELS", 0)),
    "users or groups of a list": ("N", ("broker/config/config.h", "CONFIG_MAX_IDS", 0)),
    "requests on the status page": ("N", ("shared/status_page.h", "STATUS_MAX_REQUESTS", 0)),
    "sequences on the status page, counted in each group": ("N", ("shared/status_page.h", "STATUS_MAX_SEQUENCES", 0)),
    "pages of sequences on the status page": ("N", ("shared/status_page.h", "STATUS_MAX_BINDINGS", 0)),
}
# Numbers that no constant has: the text that must be in the source, as it stands there.
TEXTS = {
    "broker/engine/engine.h": ["#define ENGINE_MAX_WAITS(max_batch) ((uint32_t)(max_batch) < 256 ? (uint32_t)(max_batch) : 256)"],
    "broker/engine/model.h": ["m->max_batch * ((m->in_flight ? m->in_flight : MODEL_IN_FLIGHT) + 3) + 256;",
                              "return n < 65536 ? (uint32_t)n : 65536;"],
    "broker/engine/model.c": ["m->max_seq, INT32_MAX, FAULT_MODEL_SEQ", "n > INT32_MAX / 2", "g->page_tokens > 256"],
    "broker/engine/decode.c": ["FAULT_STEP_COUNT, -1, step->n, s->model.max_batch"],
}


def constant(where):
    file, name, less = where
    found = re.search(rf"\b{name}\b\s*=?\s*\(?([0-9][0-9a-z]*)(?:ll|u)?(?: << ([0-9]+))?", (root / file).read_text())
    if not found:
        return None
    return (int(re.sub("[a-z]+$", "", found[1])) << int(found[2] or 0)) - less


page = (root / "client/man/swakv.7.scd").read_text().split("# LIMITS", 1)[1].split("\n# ", 1)[0]
shown = dict(re.findall(r"^\|  (.*)\n:> (.*)$", page, flags=re.M))
wrong = [f"no row in ROWS: {row}" for row in shown.keys() - ROWS.keys()]
wrong += [f"not in the manual: {row}" for row in ROWS.keys() - shown.keys()]
for row in shown.keys() & ROWS.keys():
    text, number = ROWS[row]
    value = constant(number) if isinstance(number, tuple) else number
    expected = text if value is None else re.sub("N", f"{value:,}", text)
    if isinstance(number, tuple) and value is None:
        wrong.append(f"{row}: {number[1]} is not in {number[0]}")
    elif shown[row] != expected:
        wrong.append(f"{row}: the manual says {shown[row]!r}, the sources {expected!r}")
for file, texts in TEXTS.items():
    source = re.sub(r"\s+", " ", (root / file).read_text())
    wrong += [f"{file} no longer has: {text}" for text in texts if re.sub(r"\s+", " ", text) not in source]
print("\n".join(wrong) or f"{len(shown)} limits are as the sources have them")
sys.exit(bool(wrong) or not shown)
