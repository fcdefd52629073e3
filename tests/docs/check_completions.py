#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_completions.py - what bash, zsh and fish complete is what each program prints with --help

usage: check_completions.py BUILD TOOL...

The shells themselves are asked: bash what its function finds, fish what it would offer, zsh what its function hands to
_arguments. Each must know every option of the usage and no other, the values of those that have a few, the commands of
swakv-ctl, and where a file is wanted. A shell that is not here is named as skipped.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from check_options import options

BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
function=$(complete -p "$1"); function=${function#*-F }; "${function%% *}"
[ ${#COMPREPLY[@]} = 0 ] || printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = "_arguments() { print -rl -- \"$@\"; }; source \"$1\""


def run(*words: str, cwd: str | None = None) -> list[str]:
    done = subprocess.run(words, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=cwd)
    if done.returncode or done.stderr:
        return [f"exit code {done.returncode}: {done.stderr.strip()}"]
    return done.stdout.splitlines()


def bash(folder: pathlib.Path, words: list[str], cwd: str) -> set[str]:
    return set(run("bash", "--norc", "-c", BASH, "bash", str(folder / words[0]), *words, cwd=cwd))


def fish(folder: pathlib.Path, words: list[str], cwd: str) -> set[str]:
    script = f"source {folder / (words[0] + '.fish')}; complete -C '{' '.join(words)}'"
    return {line.split("\t")[0] for line in run("fish", "--no-config", "-c", script, cwd=cwd)}


def zsh_options(folder: pathlib.Path, tool: str) -> set[str]:
    """The options of its specifications: "(-a --long)--long[text]", or "--long[text]"."""
    found = set()
    for line in run("zsh", "-f", "-c", ZSH, "zsh", str(folder / ("_" + tool))):
        name = line.split(")", 1)[-1] if line.startswith("(") else line
        if name.startswith("-") and "[" in name:
            found.add(name.split("[")[0])
    return found


def check(tool: str, usage: str, folder: pathlib.Path, shells: list[str]) -> list[str]:
    said, wrong = options(usage), []
    of_commands = set(re.findall(r"(?<=\[)--[\w-]+", "\n".join(re.findall(r"^  [a-z]+ .*", usage, flags=re.M))))
    named = of_commands | {f"--{long}" for long in said} | {f"-{letter}" for letter, _ in said.values() if letter}
    with tempfile.TemporaryDirectory() as cwd:
        (pathlib.Path(cwd) / "a-file").touch()
        questions: list[tuple[list[str], set[str]]] = [([tool, "--"], {name for name in named if name.startswith("--")})]
        for long, (_, value) in said.items():
            words = {word for word in value.split("|") if word == word.lower()} if "|" in value else set()
            if long == "preset":
                listed = usage.split("presets:\n")[1].split("\n\n")[0]
                words = set(re.findall(r"^  (\S+)", listed, flags=re.M))
            elif value in ("FILE", "PATH"):
                words = {"a-file"}
            if words:
                questions.append(([tool, f"--{long}", ""], words))
        if tool == "swakv-ctl":
            questions.append(([tool, ""], {"ping", "list", "limit", "drain", "disconnect", "kill", "stop"}))
        for shell in shells:
            for words, right in questions:
                got = zsh_options(folder, tool) if shell == "zsh" else {"bash": bash, "fish": fish}[shell](folder, words, cwd)
                expected = right
                if shell == "zsh":
                    expected = named
                elif words[-1] == "--":
                    got = {word for word in got if word.startswith("--")}
                if got != expected:
                    wrong.append(f"{shell}: {' '.join(words)}: lacks {sorted(expected - got)}, "
                                 f"has too much {sorted(got - expected)}")
                if shell == "zsh":
                    break
    return wrong


def main() -> int:
    folder, wrong, n = pathlib.Path(sys.argv[1]).resolve() / "tools/completions", [], 0
    shells = [shell for shell in ("bash", "zsh", "fish") if shutil.which(shell)]
    for path in sys.argv[2:]:
        usage = subprocess.run([path, "--help"], check=True, capture_output=True, text=True).stdout
        wrong += check(pathlib.Path(path).name, usage, folder, shells)
        n += 1
    missing = [shell for shell in ("bash", "zsh", "fish") if shell not in shells]
    print("\n".join(wrong) or f"{n} programs are completed by {', '.join(shells)} as their usage says")
    for shell in missing:
        print(f"skipped: no {shell} here")
    return 1 if wrong or not shells else 77 if missing else 0


sys.exit(main())
