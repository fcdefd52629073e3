#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_readme.py - README.md is short, links lead somewhere, commands in the pages exist

usage: check_readme.py ROOT TOOL...

Every relative link of every page (*.md) must name a file, and a heading where
it names one. Every option, and every word that follows swakv-ctl, in a line of
a page that begins with a tool's name must stand in what that tool says to
--help. README.md has at most 200 lines.
"""
import pathlib
import re
import subprocess
import sys

MAX_LINES = 200


def anchors(text: str) -> set[str]:
    """The anchors of the headings, made as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def broken_links(page: pathlib.Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists():
            wrong.append(f"{page}: {target} leads nowhere")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
            wrong.append(f"{page}: {target} names no heading of {file.name}")
    return wrong


def unknown_words(page: pathlib.Path, usages: dict[str, str]) -> tuple[list[str], int]:
    """What a page has tools do that they do not know, and how many commands it has."""
    wrong, commands = [], 0
    for name, line in re.findall(r"(?:^    |`)(swakv[\w-]*)((?: [^`\n]*)?)", page.read_text(encoding="utf-8"), flags=re.M):
        if name not in usages:
            continue
        commands += 1
        words = re.findall(r"(?<![\w-])--[a-z][\w-]*", line)
        words += re.findall(r"^ ([a-z]+)\b", line) if name == "swakv-ctl" else []
        wrong += [f"{page}: {name} does not know {word}" for word in words
                  if not re.search(rf"(?<![\w-]){word}(?![\w-])", usages[name])]
    return wrong, commands


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    usages = {pathlib.Path(tool).name: subprocess.run([tool, "--help"], check=True, capture_output=True, text=True).stdout
              for tool in sys.argv[2:]}
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "*.md"], check=False, capture_output=True, text=True)
    pages = [root / name for name in listed.stdout.split("\0") if name] or [root / "README.md"]
    wrong, commands = [], 0
    for page in pages:
        if page.exists():
            unknown, seen = unknown_words(page, usages)
            wrong += broken_links(page) + unknown
            commands += seen
    lines = len((root / "README.md").read_text(encoding="utf-8").splitlines())
    if lines > MAX_LINES:
        wrong.append(f"README.md has {lines} lines; at most {MAX_LINES} are read in five minutes")
    print("\n".join(wrong) or f"{len(pages)} pages, {commands} commands")
    return 1 if wrong or commands < 10 else 0


sys.exit(main())
