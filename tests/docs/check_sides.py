#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_sides.py SOURCE BUILD - broker and client are told apart, and the client carries no engine's kernels

No function of the broker or its engine, static ones included, has the name of one of
the client's. The client's shared library holds the kernels that write its tables
(kernel_image_table) and nothing of those that a serving engine brings itself:
neither their image, nor their launches, nor their CPU twins, nor a name of them.
"""
import pathlib
import re
import subprocess
import sys

BROKER = ["broker/libswakv-broker.a", "broker/engine/libswakv-engine.a"]
CLIENT, LIBRARY = "client/libswakv-client-objects.a", "client/libswakv-client.so"
# CPU twins of the client's kernels.
TWINS = {"kernel_apply_cpu", "kernel_count_cpu", "kernel_fill_cpu", "kernel_scrub_cpu"}


def names(build: pathlib.Path, kinds: str, *files: str) -> set[str]:
    """what @files define, of the kinds of nm, without what the compiler appends (foo.part.0)"""
    said = subprocess.run(["nm", "--defined-only", *(str(build / file) for file in files)], check=True, capture_output=True,
                          text=True).stdout
    return set(re.findall(rf"^[0-9a-f]+ [{kinds}] ([A-Za-z]\w*)(?:\.[\w.]+)?$", said, flags=re.M))


def functions(folder: pathlib.Path) -> set[str]:
    """what the sources below @folder define: the compiler leaves no name of what it put in line"""
    texts = (path.read_text(encoding="utf-8") for path in folder.rglob("*.[ch]"))
    head = re.compile(r"^\w[\w *]*?(\w+)\([^;{}]*\)\n\{", flags=re.M)
    return {name for text in texts for name in head.findall(text)} - {"__attribute__"}


def main() -> int:
    root, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    wrong: list[str] = []
    # What a header of shared/ defines is in whoever includes it, where the compiler did not inline it.
    inline = {name for header in (root / "shared").rglob("*.h") for name in re.findall(r"(\w+)\(", header.read_text())}
    broker = names(build, "TtWw", *BROKER) - inline | functions(root / "broker")
    client = names(build, "TtWw", CLIENT) - inline | functions(root / "client")
    wrong += [f"{name}() is in the broker and in the client: give one of them another name" for name in sorted(broker & client)]

    library = names(build, "TtWwDdBbRr", LIBRARY)
    launches = names(build, "T", "kernels/libswakv-launch.a")
    table = set(re.findall(r"^\w[\w *]*?(\w+)\(", (root / "kernels/launch_table.c").read_text(), flags=re.M)) & launches
    foreign = (launches - table) | (names(build, "T", "kernels/libswakv-kernels.a") - TWINS) | {"kernel_image_engine"}
    wrong += [f"{LIBRARY} holds {name}" for name in sorted(library & foreign)]

    header = dict(re.findall(r'#define (KERNEL_NAME_\w+)\s+"(\w+)"', (root / "kernels/kernels.h").read_text()))
    launched = re.findall(r"KERNEL_NAME_\w+", (root / "kernels/launch_engine.c").read_text())
    engine = {header[name] for name in launched if name in header}
    # A launch has the name as a string, and the image has it as a symbol.
    image = (build / LIBRARY).read_bytes()
    wrong += [f"{LIBRARY} names the kernel {name}" for name in sorted(engine)
              if re.search(rb"\b" + name.encode() + rb"\b", image)]

    # What these checks compare must be there, or they could not fail.
    if len(broker) < 500 or len(client) < 150 or "kernel_image_table" not in library or not table & library:
        wrong.append(f"too little was looked at: {len(broker)} functions of the broker, {len(client)} of the client")
    if len(foreign) < 5 or len(engine) < 5:
        wrong.append(f"too few kernels of an engine are known: {sorted(foreign)}, {sorted(engine)}")
    counts = f"{len(broker)} functions of the broker, {len(client)} of the client"
    print("\n".join(wrong) or f"{counts}, none of both; no engine's kernels")
    return 1 if wrong else 0


sys.exit(main())
