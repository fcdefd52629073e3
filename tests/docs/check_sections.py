#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_sections.py - every section of shared/spec.md that is cited exists

usage: check_sections.py ROOT

Citations are "spec section 3", "spec sections 2, 3 and 6", "spec section 7.11"
in any text file, and the first column of the tables of tests/README.md. The
number behind the dot is an item of the numbered list in that section; each of
them must have a row in tests/README.md.
"""
import pathlib
import re
import subprocess
import sys

NUMBER = r"\d+(?:\.\d+)?"
LIST = rf"{NUMBER}(?:(?:, | and | to |, and ){NUMBER})*"


def sections(spec: str) -> set[str]:
    found = set()
    for part in re.split(r"^## ", spec, flags=re.M)[1:]:
        heading, _, body = part.partition("\n")
        number = heading.split(".", 1)[0]
        found.add(number)
        found |= {f"{number}.{item}" for item in re.findall(r"^(\d+)\. ", body, flags=re.M)}
    return found


def cited(root: pathlib.Path) -> list[tuple[str, str]]:
    """(place, number) of each citation."""
    names = subprocess.run(["git", "-C", str(root), "grep", "-Iil", "spec"], check=True, capture_output=True, text=True).stdout
    found = []
    for name in names.splitlines():
        # A citation may go on in the next line of a comment.
        text = re.sub(r"\s*\n[ \t]*[*#/]*[ \t]*", " ", (root / name).read_text(encoding="utf-8", errors="replace"))
        for numbers in re.findall(rf"\bspec(?:\.md|\(7\))?,? sections? ({LIST})", text, flags=re.I):
            found += [(name, number) for number in re.findall(NUMBER, numbers)]
    return found


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    there = sections((root / "shared/spec.md").read_text(encoding="utf-8"))
    readme = (root / "tests/README.md").read_text(encoding="utf-8")
    rows = [number for numbers in re.findall(rf"^\| ({LIST})[: ]", readme.split("### Faults", 1)[0], flags=re.M)
            for number in re.findall(NUMBER, numbers)]
    citations = cited(root) + [("tests/README.md", number) for number in rows]
    wrong = [f"{name} cites section {number}, which shared/spec.md does not have"
             for name, number in sorted(set(citations)) if number not in there]
    wrong += [f"tests/README.md has no row for number {number}" for number in sorted(there - set(rows)) if "." in number]
    print("\n".join(wrong) or f"{len(citations)} citations of {len(there)} sections and numbers")
    return 1 if wrong or len(citations) < 30 else 0


sys.exit(main())
