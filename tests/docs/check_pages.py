#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_pages.py - every public function has a manual page, and the pages name no other

usage: check_pages.py ROOT

Reads the installed headers and the sources of the pages of section 3 and 7:
the function must stand in the SYNOPSIS of one page and in that page's NAME (or
be one that swakv(7) describes), and each page must say what is returned and
where to read on.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
headers = [root / "client/include/swakv/swakv.h", root / "shared/include/swakv/error.h",
           root / "shared/include/swakv/page_table.h"]
pages = sorted((root / "client/man").glob("*.scd"))


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


declared = set()
for header in headers:
    declared |= set(re.findall(r"^[\w][\w \*]*?\b(swakv_\w+)\(", without_comments(header.read_text()), flags=re.M))

wrong = []
described = {}
for page in pages:
    text = page.read_text()
    name = text.split("# NAME", 1)[1].split("# SYNOPSIS", 1)[0]
    functions = set(re.findall(r"(swakv_\w+)\(", "".join(line for line in text.splitlines(True)
                                                        if re.match(r"\*[a-z].*\(", line))))
    for function in functions:
        if function in described:
            wrong.append(f"{function} has two pages: {described[function]} and {page.name}")
        described[function] = page.name
        if page.name != "swakv.7.scd" and not re.search(rf"\b{function}\b", name):
            wrong.append(f"{page.name}: {function} is not in its NAME")
    for section in ["# SEE ALSO"] + ([] if page.name.endswith(".7.scd") else ["# RETURN VALUE"]):
        if section not in text:
            wrong.append(f"{page.name}: no section '{section[2:]}'")

wrong += [f"{f} has no page" for f in sorted(declared - set(described))]
wrong += [f"{described[f]}: {f} is in no header" for f in sorted(set(described) - declared)]
print("\n".join(wrong) or f"{len(declared)} functions, {len(pages)} pages")
sys.exit(bool(wrong) or not declared)
