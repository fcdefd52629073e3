#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_includes.py - no header includes itself by way of others, and a folder of the broker only those below it

usage: check_includes.py ROOT

Looks at every file of the product in C. An include of ours that cannot be found is a failure, and so is a folder of
broker/ that ORDER does not name.
"""
import pathlib
import re
import sys

# From the bottom up. Those of one line know each other: a crash writes what was logged, the log says its thread to the
# report of a crash; the status page shows the ring thread, which publishes it; one thread serves workers and administrators.
ORDER = [
    {"engine"},
    {"config"},
    {"crash", "log"},
    {"process"},
    {"device"},
    {"ring", "status"},
    {"session", "admin", "control.c", "control.h"},
    {"broker.c", "broker.h", "main.c"},
]
# What each part of the product may include, beside the includer's own folder; the first that has the name is it.
PARTS = {
    "broker": ["broker", "broker/engine", "shared", "shared/include", "shared/cuda", "kernels"],
    "client": ["client", "client/include", "shared", "shared/include", "shared/cuda", "kernels"],
    "kernels": ["kernels", "shared", "shared/include", "shared/cuda"],
    "shared": ["shared", "shared/include", "shared/cuda"],
    "tools": ["tools/common", "tools/demo", "tools/replay", "tools/status", "tools/geometry", "tools/geometry/hf", "shared",
              "shared/include", "shared/cuda", "client/include", "client", "kernels"],
}


def included(root: pathlib.Path, path: pathlib.Path) -> tuple[list[pathlib.Path], list[str]]:
    """the files of ours that @path includes, and the names that lead to none"""
    found, lost = [], []
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    for quote, name in re.findall(r'^\s*#\s*include\s+(["<])([^">]+)[">]', text, flags=re.M):
        if quote == "<" and not name.startswith("swakv/"):
            continue
        folders = [path.parent] + [root / part for part in PARTS[path.relative_to(root).parts[0]]]
        there = [folder / name for folder in folders if (folder / name).is_file()]
        if there:
            found.append(there[0].resolve())
        else:
            lost.append(name)
    return found, lost


def circle(graph: dict[pathlib.Path, list[pathlib.Path]]) -> list[pathlib.Path]:
    """some circle of @graph, its first file at both ends; empty: there is none"""
    done: set[pathlib.Path] = set()

    def walk(at: pathlib.Path, way: list[pathlib.Path]) -> list[pathlib.Path]:
        if at in way:
            return way[way.index(at):] + [at]
        if at in done:
            return []
        for to in graph.get(at, []):
            if found := walk(to, way + [at]):
                return found
        done.add(at)
        return []

    for start in sorted(graph):
        if found := walk(start, []):
            return found
    return []


def floor(root: pathlib.Path, path: pathlib.Path) -> int | None:
    """which line of ORDER a file of broker/ is in; None: in none"""
    room = path.relative_to(root / "broker").parts[0]
    return next((i for i, rooms in enumerate(ORDER) if room in rooms), None)


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    files = sorted(p for part in PARTS for p in (root / part).rglob("*") if p.suffix in (".c", ".h", ".cu", ".cuh"))
    graph: dict[pathlib.Path, list[pathlib.Path]] = {}
    wrong, seen = [], 0
    for path in files:
        name = path.relative_to(root)
        graph[path], lost = included(root, path)
        wrong += [f"{name} includes {what}, which is nowhere" for what in lost]
        if name.parts[0] != "broker":
            continue
        mine = floor(root, path)
        if mine is None:
            wrong.append(f"{name}: ORDER of check_includes.py does not say where {name.parts[1]} stands")
            continue
        for to in graph[path]:
            if to.is_relative_to(root / "broker"):
                seen += 1
                theirs = floor(root, to)
                if theirs is not None and theirs > mine:
                    wrong.append(f"{name} includes {to.relative_to(root)}, which stands above it")
    if found := circle(graph):
        wrong.append("a circle: " + " -> ".join(str(p.relative_to(root)) for p in found))
    print("\n".join(wrong) or f"{len(files)} files: no circle; {seen} includes inside broker/ lead down")
    return 1 if wrong or len(files) < 300 or seen < 100 else 0


sys.exit(main())
