#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_rooms.py - no tool includes anything of the broker, and what the product is built from stays readable and is found

usage: check_rooms.py ROOT

Nothing below tools/ includes a header that lies in broker/, names that folder in a build file, or links the broker's
libraries. No file of the product has more than 500 lines, no function in C more than 60. The tables of broker/README.md
and client/README.md, which say what is where, name each of their files.
"""
import pathlib
import re
import sys

LINES, FUNCTION = 500, 60
PRODUCT = ["broker", "client", "kernels", "shared", "tools"]


def longest(text: str) -> list[tuple[str, int]]:
    """(first line, lines) of the functions that are too long"""
    found, lines, start = [], text.split("\n"), -1
    for i, line in enumerate(lines):
        if line == "{":
            start = i - 1
            while start > 0 and lines[start][:1] in ("\t", " "):
                start -= 1
        elif line == "}":
            if start >= 0 and i - start + 1 > FUNCTION:
                found.append((lines[start], i - start + 1))
            start = -1
    return found


def unnamed(root: pathlib.Path) -> list[str]:
    """the sources that the tables of their README do not name"""
    found = []
    for part in ("broker", "client"):
        tables = "\n".join(re.findall(r"^\|.*$", (root / part / "README.md").read_text(encoding="utf-8"), flags=re.M))
        files = re.findall(r"`([\w./]*\w)`|([\w./]+\.[ch])\b", tables)
        named = {pathlib.PurePath(quoted or plain).name.split(".")[0] for quoted, plain in files}
        found += [f"{path.relative_to(root)} is in no table of {part}/README.md" for path in sorted((root / part).rglob("*.[ch]"))
                  if path.stem not in named and path.stem != "main" and path.parent.name != "swakv"]
    return found


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    shared = {p.name for p in (root / "shared").rglob("*.h")}
    tools = {p.name for p in (root / "tools").rglob("*.h")}
    theirs = {p.name for p in (root / "broker").rglob("*.h")} - shared - tools
    wrong, seen = unnamed(root), 0
    for path in sorted(p for part in PRODUCT for p in (root / part).rglob("*")):
        if not path.is_file() or path.suffix not in (".c", ".h", ".cu", ".cuh", ".py", ".build", ""):
            continue
        text, name = path.read_text(encoding="utf-8"), path.relative_to(root)
        seen += 1
        if text.count("\n") > LINES:
            wrong.append(f"{name} has {text.count(chr(10))} lines, {LINES} is the most")
        if path.suffix in (".c", ".h", ".cu", ".cuh"):
            wrong += [f"{name}: '{first}' has {n} lines, {FUNCTION} is the most" for first, n in longest(text)]
        if name.parts[0] != "tools":
            continue
        if path.suffix in (".c", ".h"):
            wrong += [f"{name}: {header} is the broker's" for header in re.findall(r'^#include "(?:.*/)?(.+?)"', text, flags=re.M)
                      if header in theirs]
        elif path.name == "meson.build" and re.search(r"\.\./broker|dep_(broker|engine)\b|inc_broker", text):
            wrong.append(f"{name} reaches into broker/")
    print("\n".join(wrong) or f"{seen} files are short, and those of tools by themselves")
    return 1 if wrong or seen < 400 else 0


sys.exit(main())
