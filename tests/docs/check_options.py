#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_options.py - -b names a broker in every tool, and -s its socket; nothing else is called so

usage: check_options.py TOOL...

Reads the usage that each tool prints.
"""
import re
import subprocess
import sys

MEANINGS = {"b": "broker", "s": "socket"}

wrong, seen = [], 0
for tool in sys.argv[1:]:
    usage = subprocess.run([tool, "--help"], check=True, capture_output=True, text=True).stdout
    shorts = re.findall(r"^\s+-(\w), --([\w-]+)", usage, flags=re.M)
    if not shorts:
        wrong.append(f"{tool}: no options are found in its usage")
    for short, long in shorts:
        seen += short in MEANINGS
        if MEANINGS.get(short, long) != long:
            wrong.append(f"{tool}: -{short} is --{long}, and elsewhere --{MEANINGS[short]}")
print("\n".join(wrong) or f"{seen} options mean the same in {len(sys.argv) - 1} tools")
sys.exit(bool(wrong) or seen < 2)
