#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_options.py - an option means the same in every tool, and is in its manual page

usage: check_options.py ROOT TOOL...

Reads the usage that each tool prints. -b is --broker, -s --socket, -j --json and -h --help wherever they are. What two
tools call alike takes the same kind of value and has the same letter, where it has one in both. Each begins with "usage:
NAME", writes "--option VALUE" and "(default: ...)", has no line of more than 120 characters, and says its exit status. Each
manual page has all options of the usage, no others, and says EXIT STATUS and EXAMPLES.
"""
import pathlib
import re
import subprocess
import sys

MEANINGS = {"b": "broker", "s": "socket", "j": "json", "h": "help"}
EVERYWHERE = {"help", "version"}


def options(usage: str) -> dict[str, tuple[str, str]]:
    """{long name: (letter, what kind of value)}, of the lines that begin with an option, and of lists of them"""
    found = {}
    for line in re.findall(r"^ {2,6}(-.*)$", usage, flags=re.M):
        names = re.split(r" {2,}", line)[0]
        for letter, long, value in re.findall(r"(?:-(\w), )?--([\w-]+)[= ]?(\[?[A-Za-z][^\s,]*(?=,|\s|$))?", names):
            found[long] = (letter, value.strip("[]"))
    return found


def check_page(tool: str, page: pathlib.Path, said: dict[str, tuple[str, str]]) -> list[str]:
    text = page.read_text(encoding="utf-8")
    listed = re.findall(r"^(\*-.*)$", text, flags=re.M)
    names = set(re.findall(r"\*--([\w-]+)\*", "\n".join(listed)))
    other = set(re.findall(r"--([\w-]+)\*", "\n".join(re.findall(r"\(or .*?\)", "\n".join(listed)))))
    wrong = [f"{page.name} does not have --{long}, which {tool} --help has" for long in sorted(set(said) - names)]
    wrong += [f"{tool} --help does not have --{long}, which {page.name} has" for long in sorted(names - set(said) - other)]
    return wrong + [f"{page.name} has no {section}" for section in ("EXIT STATUS", "EXAMPLES")
                    if f"\n# {section}\n" not in text]


def main() -> int:
    root, wrong, of_all = pathlib.Path(sys.argv[1]), [], {}
    for path in sys.argv[2:]:
        tool = pathlib.Path(path).name
        usage = subprocess.run([path, "--help"], check=True, capture_output=True, text=True).stdout
        said = options(usage)
        wrong += [f"{tool} has no --{long}" for long in sorted(EVERYWHERE - set(said))]
        if not re.search(r"^Exit status: 0 ", usage, flags=re.M):
            wrong.append(f"{tool} --help does not say its exit status")
        if not usage.startswith(f"usage: {tool} "):
            wrong.append(f"{tool} --help does not begin with 'usage: {tool}'")
        wrong += [f"{tool} --help: {fault}: {line}" for line in usage.split("\n") for fault, seen in (
            ("more than 120 characters", len(line) > 120), ("--option=VALUE", re.match(r" +(-\w, )?--[\w-]+=", line)),
            ("a default in brackets", re.search(r"\S  +\S.* \[[^]|]+\]$", line))) if seen]
        for long, (letter, value) in said.items():
            if MEANINGS.get(letter, long) != long or (letter and letter != {v: k for k, v in MEANINGS.items()}.get(long, letter)):
                wrong.append(f"{tool}: -{letter} is --{long}")
            for other, (letter2, value2) in of_all.get(long, {}).items():
                if letter and letter2 and letter != letter2:
                    wrong.append(f"--{long} is -{letter} in {tool}, and -{letter2} in {other}")
                if value != value2 and "|" not in value + value2:
                    wrong.append(f"--{long} takes '{value}' in {tool}, and '{value2}' in {other}")
            of_all.setdefault(long, {})[tool] = (letter, value)
        for page in root.glob(f"tools/*/{tool}.1.scd"):
            wrong += check_page(tool, page, said)
    shared = sum(len(tools) > 1 for tools in of_all.values())
    print("\n".join(wrong) or f"{shared} options mean the same in {len(sys.argv) - 2} tools")
    return 1 if wrong or shared < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
