#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_linkage.py SOURCE BUILD - what only its own file uses is static

Every function with external linkage in the objects of the product must be named
in the source of another file, a test or a fuzzer included; and every macro, and
every constant of an enum that is not the first of it, somewhere besides where
it is defined.
"""
import collections
import pathlib
import re
import subprocess
import sys

# Constants for those who include the headers.
PUBLIC = "include/swakv/"


def code_of(path: pathlib.Path) -> str:
    """The text of a C file without comments."""
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def sources(root: pathlib.Path) -> dict[str, str]:
    names = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "*.c", "*.h", "*.cu", "*.cuh"], check=True,
                           capture_output=True, text=True).stdout
    return {name: code_of(root / name) for name in names.split("\0") if name and (root / name).exists()}


def symbols(build: pathlib.Path, kind: str, option: str, *folders: str) -> set[str]:
    found: set[str] = set()
    for folder in folders:
        objects = [str(path) for path in (build / folder).rglob("*.o")]
        if objects:
            said = subprocess.run(["nm", option, *objects], check=True, capture_output=True, text=True).stdout
            found |= set(re.findall(rf"^[0-9a-f ]* {kind} (\w+)$", said, flags=re.M))
    return found


def constants(code: str) -> set[str]:
    found = {name for name in re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", code, flags=re.M) if not name.endswith("_H")}
    for body in re.findall(r"\benum\b[^{;()]*\{([^}]*)\}", code):
        # The first is what a zeroed struct holds, so it need not be named.
        found |= set(re.findall(r",\s*([A-Z]\w+)\s*(?=[=,]|$)", body.rstrip()))
    return found


def main() -> int:
    files = sources(pathlib.Path(sys.argv[1]))
    words = {name: set(re.findall(r"\b[A-Za-z_]\w*\b", code)) for name, code in files.items()}
    uses = collections.Counter(word for code in files.values() for word in re.findall(r"\b[A-Za-z_]\w*\b", code))
    product = ("broker", "client", "kernels", "shared", "tools")
    functions = symbols(pathlib.Path(sys.argv[2]), "T", "--defined-only", *product) - {"main"}
    called = symbols(pathlib.Path(sys.argv[2]), "U", "--undefined-only", *product, "tests")
    wrong = []
    for function in sorted(functions - called):
        # Fuzzers are not in this build.
        users = [name for name in words if function in words[name] and not name.endswith(".h")]
        if len(users) == 1 and not function.startswith("swakv_"):
            wrong.append(f"{users[0]}: {function} is used there only: make it static, or delete it")
    n = 0
    for name, code in sorted(files.items()):
        # Scenario statements are made from a list by token pasting.
        if PUBLIC in name or "##" in code or name.startswith("tools/replay/"):
            continue
        for constant in sorted(constants(code)):
            n += 1
            if uses[constant] == 1:
                wrong.append(f"{name}: nothing uses {constant}")
    print("\n".join(wrong) or f"{len(functions)} functions, {n} constants")
    return 1 if wrong or len(functions) < 200 else 0


sys.exit(main())
