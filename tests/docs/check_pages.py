#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_pages.py - every public function has a manual page with its errors, and header and page say the same

usage: check_pages.py ROOT

Reads the installed headers and the sources of the pages in client/man: a
function must stand in the SYNOPSIS of one page and in that page's NAME (or be
one that swakv(7) describes). Its comment in the header ends with "Errors:" and
the codes when it returns a code; its page has an entry for it in ERRORS, which
names the same codes, and every code exists. "Common" stands for what swakv.h
says; in stream.h, for less. References from page to page lead somewhere.
"""
import pathlib
import re
import sys

# Codes that "common" stands for; what an entry says of them besides does not count.
COMMON = {"SWAKV_EINVALID", "SWAKV_EFORKED", "SWAKV_EGONE", "SWAKV_ENOMEM", "SWAKV_ETIMEDOUT"}
COMMON_OF_STREAMS = {"SWAKV_EINVALID", "SWAKV_EFORKED"}

CODE = r"\bSWAKV_E[A-Z]+\b"


def headers(root: pathlib.Path) -> list[pathlib.Path]:
    return sorted((root / "client/include/swakv").glob("*.h")) + sorted((root / "shared/include/swakv").glob("*.h"))


class Function:
    def __init__(self, header: pathlib.Path, comment: str, kind: str):
        self.header = header
        self.says_errors = "Errors:" in comment
        errors = comment.split("Errors:", 1)[1] if self.says_errors else ""
        self.common: set[str] = set()
        if re.match(r"[\s*]*(?:as \w+\(\): )?common\b", errors):
            self.common = COMMON_OF_STREAMS if header.name == "stream.h" else COMMON
        self.codes = set(re.findall(CODE, errors))
        self.returns_code = kind == "int"


def declared(root: pathlib.Path) -> dict[str, Function]:
    found = {}
    for header in headers(root):
        text = header.read_text(encoding="utf-8")
        for match in re.finditer(r"^([\w][\w ]*?[ \*]+)(swakv_\w+)\([^;{]*\);", text, flags=re.M):
            before = text[: match.start()].rstrip(" \t")
            comment = re.search(r"/\*(?:(?!\*/).)*\*/\n\Z", before, flags=re.S)
            found[match[2]] = Function(header, comment[0] if comment else "", match[1].strip())
    return found


def entries(page: str) -> dict[str, tuple[set[str], str]]:
    """{function: (codes that its entry in ERRORS names, the entry)}"""
    found = {}
    if "\n# ERRORS\n" not in page:
        return found
    section = re.split(r"^# ", page.split("\n# ERRORS\n", 1)[1], flags=re.M)[0]
    for names, text in re.findall(r"^(\*swakv_\w+\*\(\)(?:, \*swakv_\w+\*\(\))*)\n((?:(?:\t.*)?\n)+)", section, flags=re.M):
        for name in re.findall(r"swakv_\w+", names):
            found[name] = (set(re.findall(CODE, text)), text)
    return found


def check_page(page: pathlib.Path, functions: dict[str, Function], described: dict[str, str]) -> list[str]:
    text = page.read_text(encoding="utf-8")
    wrong = []
    name = text.split("# NAME", 1)[1].split("# SYNOPSIS", 1)[0]
    mine = set(re.findall(r"(swakv_\w+)\(", "".join(line for line in text.splitlines(True) if re.match(r"\*[a-z].*\(", line)
                                                    and not re.match(r"\*swakv_\w+\*\(\)", line))))
    errors = entries(text)
    for function in sorted(mine):
        if function in described:
            wrong.append(f"{function} has two pages: {described[function]} and {page.name}")
        described[function] = page.name
        if page.name.endswith(".7.scd"):
            continue
        if not re.search(rf"\b{function}\b", name):
            wrong.append(f"{page.name}: {function} is not in its NAME")
        if function not in errors:
            wrong.append(f"{page.name}: {function} has no entry in ERRORS")
        elif function in functions:
            wrong += compare(page.name, function, functions[function], errors[function])
    wrong += [f"{page.name}: ERRORS has an entry for {function}, which the page does not describe"
              for function in sorted(set(errors) - mine)]
    for section in ["# SEE ALSO"] + ([] if page.name.endswith(".7.scd") else ["# RETURN VALUE"]):
        if section not in text:
            wrong.append(f"{page.name}: no section '{section[2:]}'")
    return wrong


def compare(page: str, name: str, function: Function, entry: tuple[set[str], str]) -> list[str]:
    """What the entry and the header's comment do not say alike."""
    stated, text = entry
    wrong = [f"{page}: {code} of {name} is not in {function.header.name}"
             for code in sorted(stated - function.codes - function.common)]
    wrong += [f"{page}: {name} lacks {code}, which {function.header.name} has"
              for code in sorted(function.codes - function.common - stated)]
    if not function.returns_code and "cannot fail" not in text:
        wrong.append(f"{page}: {name} returns no code, and its entry does not say that it cannot fail")
    return wrong


def references(page: pathlib.Path, known: set[str]) -> list[str]:
    named = set(re.findall(r"\*(swakv[\w-]*)\*\((\d)\)", page.read_text(encoding="utf-8")))
    return [f"{page.name} refers to {name}({section}), which there is not" for name, section in sorted(named)
            if f"{name}({section})" not in known]


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    functions = declared(root)
    codes = set(re.findall(rf"({CODE}) =", (root / "shared/include/swakv/error.h").read_text(encoding="utf-8")))
    pages = sorted((root / "client/man").glob("*.scd"))
    others = sorted((root / "broker/man").glob("*.scd")) + sorted((root / "tools").glob("*/*.scd"))
    wrong: list[str] = []
    described: dict[str, str] = {}
    for page in pages:
        wrong += check_page(page, functions, described)
    known = {f"{p.name.split('.')[0]}({p.name.split('.')[1]})" for p in pages + others} | {f"{f}(3)" for f in described}
    for page in pages + others:
        wrong += references(page, known)
    for text in pages + headers(root):
        wrong += [f"{text.name}: there is no code {code}"
                  for code in sorted(set(re.findall(CODE, text.read_text(encoding="utf-8"))) - codes)]
    wrong += [f"{f} has no page" for f in sorted(set(functions) - set(described))]
    wrong += [f"{described[f]}: {f} is in no header" for f in sorted(set(described) - set(functions))]
    wrong += [f"{function.header.name}: the comment of {name} does not say its errors"
              for name, function in sorted(functions.items()) if function.returns_code and not function.says_errors]
    print("\n".join(wrong) or f"{len(functions)} functions, {len(pages)} pages, {len(codes)} codes")
    return 1 if wrong or len(functions) < 50 else 0


sys.exit(main())
