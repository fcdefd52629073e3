# SPDX-License-Identifier: Apache-2.0
"""The package's structs, functions and constants are those of the C headers, by the ABI on record."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import pytest

from swakv import _abi, errors, state

RECORD = (Path(__file__).resolve().parents[1] / "abi/record").read_text(encoding="utf-8")


def block(head: str) -> list[list[str]]:
    """The lines below "struct NAME ..." or "enum NAME ...", in words."""
    found = re.search(rf"^{head} \d+\n((?:\t.*\n)*)", RECORD, flags=re.M)
    assert found, head
    return [line.split() for line in found[1].splitlines()]


@pytest.mark.parametrize("struct", _abi.STRUCTS)
def test_members_are_where_the_headers_put_them(struct: str) -> None:
    c = {}
    for offset, size, *declaration in block(f"struct {struct}"):
        found = re.search(r"\(\*(\w+)\)|(\w+)(?:\[\d+\])?$", " ".join(declaration))
        assert found, declaration
        c[found[1] or found[2]] = (int(offset), int(size))
    mine = {}
    fields: Any = _abi.STRUCTS[struct]._fields_
    for name, kind in fields:
        mine[name] = (getattr(_abi.STRUCTS[struct], name).offset, ctypes.sizeof(kind))
    assert mine == c


def test_constants_are_the_headers() -> None:
    values = {words[0]: int(words[1]) for words in (line.split() for line in RECORD.splitlines() if line.startswith("\tSWAKV_"))}
    assert {f"SWAKV_{name.upper()}": code for name, code in _abi.DTYPES.items()}.items() <= values.items()
    assert {f"SWAKV_CHUNK_{name.upper()}": code for name, code in _abi.CHUNKS.items()}.items() <= values.items()
    assert {f"SWAKV_{name.upper()}": code for name, code in _abi.CONSUMERS.items()}.items() <= values.items()
    assert [f"SWAKV_{name.upper()}" for name in _abi.FORMS] == [words[0] for words in block("enum swakv_form")]
    assert [f"SWAKV_{name.upper()}" for name in _abi.ORDERS] == [words[0] for words in block("enum swakv_order")]
    for name in ("SLIDING", "FULL", "COMPACT_MOVE_ROWS", "EAGAIN", "FENCE_DONE", "FENCE_LINE", "FENCE_FAILED",
                 "WRITER_AUTO", "WRITER_STREAM_WRITE", "WRITER_HOST_FUNCTION", "WRITER_COUNTER", "ATTACH_EVENTS",
                 "ATTACH_JOINABLE", "TAKE_OVERWRITES"):  # fmt: skip
        assert getattr(_abi, name) == values[f"SWAKV_{name}"], name
    assert len(state.PHASES) == len(block("enum swakv_phase"))
    assert len(state.TRANSITIONS) == len(block("enum swakv_transition"))


def test_the_library_knows_the_size_of_every_struct() -> None:
    structs = re.findall(r"^struct (swakv_(?!page_table)\w+) (\d+)$", RECORD, flags=re.M)  # page tables: another library
    assert len(structs) > 10
    assert {name: _abi.library().swakv_struct_size(name.encode()) for name, _ in structs} == {n: int(s) for n, s in structs}


def test_every_error_code_has_a_class_and_its_name() -> None:
    codes = {int(words[1]) for words in block("enum swakv_code")} - {0, _abi.EAGAIN}
    assert set(errors.CLASSES) == codes
    for code, kind in errors.CLASSES.items():
        assert _abi.library().swakv_error_name(code).decode() == kind.name


def test_functions_take_what_the_headers_say() -> None:
    for name, (_, *arguments) in _abi.FUNCTIONS.items():
        found = re.search(rf"^function .*\b{name}\((.*)\);$", RECORD, flags=re.M)
        assert found, name
        parameters = [] if found[1] == "void" else found[1].split(", ")
        # a callback's own commas: none of these functions takes one
        assert len(parameters) == len(arguments), name
        for said, kind in zip(parameters, arguments, strict=True):
            pointer = "*" in said
            assert pointer == (kind in (ctypes.c_void_p, ctypes.c_char_p) or issubclass(kind, ctypes._Pointer)), (name, said)
