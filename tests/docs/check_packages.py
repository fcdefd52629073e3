#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_packages SOURCE BUILD - tools/packages.txt names all that build and tests use, and nothing else

On a machine where more is installed a package that the list lacks is not
missed. So what is used is asked whose it is: the headers and libraries of the
build folder, and every word of a script that is the name of a program. Each
must belong to a listed package of the right group, to one that it depends on,
or to those that every Debian has. And each listed package must have something that
is used, itself or in one that it depends on.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

GROUPS = ("build", "test", "ci")
# Scripts of .ci/run, and those that have nothing to do where its packages are missing.
CI = ("tests/package/", "tools/package", ".ci/", "tests/exporter/", "tests/fuzz/", "tests/install/", "tests/docs/lint_man")
# Packages that no script names: what one says that needs them.
UNNAMED = {"libclang-rt-dev": "-fsanitize", "llvm": "b_sanitize", "python3-venv": "-m venv",
           "python3-pytest": "-m pytest", "python3-numpy": "import numpy, pytest",
           "python3-yaml": "import yaml", "python3-prometheus-client": "import prometheus_client",
           "chromium-headless-shell": "chromium-headless-shell", "dh-python": "--with python3"}
# What the build may go without, and tests/run builds.
OPTIONAL = ("libmicrohttpd", "microhttpd.h")
# Words of scripts that are programs, too, and not meant: plain English, and what the shell has built in.
WORDS = {"file", "free", "kill", "look", "make", "man", "open", "pip", "time", "top", "watch", "write"}
# Programs that what is run by hand does without.
SPARED = {"perf"}


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Installed:
    """What dpkg knows: which packages there are, what each needs, and whose a file is."""

    def __init__(self) -> None:
        self.needs: dict[str, set[str]] = {}
        self.providers: dict[str, set[str]] = {}
        self.always: set[str] = set()
        fields = "${Package}\t${Depends}, ${Pre-Depends}\t${Provides}\t${Essential}\t${Priority}\n"
        for line in run("dpkg-query", "-W", f"-f={fields}").splitlines():
            name, needs, provides, essential, priority = line.split("\t")
            # Of alternatives ("a | b") a clean machine gets the first.
            self.needs.setdefault(name, set()).update(re.findall(r"(?:^|,)\s*([a-z0-9][a-z0-9+.-]*)", needs))
            for virtual in re.findall(r"(?:^|,)\s*([a-z0-9][a-z0-9+.-]*)", provides):
                self.providers.setdefault(virtual, set()).add(name)
            if essential == "yes" or priority == "required":
                self.always.add(name)
        self.files: dict[str, str] = {}
        for file in pathlib.Path("/var/lib/dpkg/info").glob("*.list"):
            self.files.update(dict.fromkeys(file.read_text(encoding="utf-8").splitlines(), file.stem.split(":")[0]))

    def closure(self, names: set[str]) -> set[str]:
        seen: set[str] = set()
        left = list(names | self.always)
        while left:
            name = left.pop()
            if name not in seen:
                seen.add(name)
                left += [n for n in self.needs.get(name, ()) if n in self.needs] + list(self.providers.get(name, ()))
        return seen

    def owner(self, path: str) -> str | None:
        """The package of a file; None: it is nobody's, so it did not come with a package."""
        # A system with one /usr still has packages that say /lib and /bin.
        for name in (path, os.path.realpath(path), path.removeprefix("/usr")):
            if name in self.files:
                return self.files[name]
        return None


def listed(source: pathlib.Path) -> dict[str, set[str]]:
    """The packages of each group, with those of the groups before."""
    groups: dict[str, set[str]] = {group: set() for group in GROUPS}
    for line in (source / "tools/packages.txt").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words and not line.startswith("#"):
            for group in GROUPS[GROUPS.index(words[1]):]:
                groups[group].add(words[0])
    return groups


def headers(build: pathlib.Path) -> dict[str, set[str]]:
    """{header: groups that include it}"""
    found: dict[str, set[str]] = {}
    group = "build"
    for line in run("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line and not line[0].isspace():
            group = "test" if line.startswith("tests/") else "build"
        elif line.strip().startswith("/usr/include/"):
            found.setdefault(line.strip(), set()).add("test" if line.endswith(OPTIONAL) else group)
    return found


def pkg_config(build: pathlib.Path) -> dict[str, set[str]]:
    """{file of a dependency: groups that want it}"""
    found: dict[str, set[str]] = {}
    for d in json.loads(run("meson", "introspect", str(build), "--dependencies")):
        group = "test" if d["name"] in ("criterion", *OPTIONAL) else "build"
        folder = subprocess.run(["pkg-config", "--variable=pcfiledir", d["name"]], check=False, capture_output=True, text=True)
        if folder.returncode == 0 and folder.stdout.strip():
            found.setdefault(f"{folder.stdout.strip()}/{d['name']}.pc", set()).add(group)
    return found


def scripts(source: pathlib.Path) -> list[tuple[str, str]]:
    """(path, text without comments and what it prints) of each shell script, and of what meson looks for."""
    found = []
    for name in run("git", "-C", str(source), "ls-files", "-z").split("\0"):
        path = source / name
        if not name or not path.is_file() or path.suffix in (".c", ".h", ".json", ".csv", ".svg", ".md", ".swakv"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if re.match(r"#!(/usr/bin/env bash|/bin/bash|/bin/sh)\n", text):
            for talk in (r"(?ms)<<'?END'?$.*?^END$", r"(?m)(^|\s)#.*$", r'"[^"$`\n]*"'):
                text = re.sub(talk, " ", text)
            found.append((name, text))
        elif path.name == "meson.build":
            found.append((name, " ".join(re.findall(r"find_program\('([^']+)'\)", text))))
            # What the build may go without is there for tests/run, which builds all.
            found.append((f"tests/run and {name}", " ".join(re.findall(r"find_program\('([^']+)',", text))))
        elif re.match(r"#!/usr/bin/env python3\n", text) or path.suffix == ".py":
            found.append((name, " ".join(re.findall(r"(?:\[|run\(|which\()\"([a-z0-9+._-]+)\"", text))))
    return found


def programs(source: pathlib.Path) -> dict[str, tuple[str, str]]:
    """{path of a program: (group, script that speaks of it)}, the first group that needs it."""
    found: dict[str, tuple[str, str]] = {}
    for name, text in scripts(source):
        group = "ci" if name.startswith(CI) else "test" if name.startswith("tests/") else "build"
        for word in set(re.findall(r"(?<![\w./$-])[a-z][a-z0-9+._-]*[a-z0-9+](?![\w/=-])", text)) - WORDS - SPARED:
            path = shutil.which(word, path="/usr/bin:/usr/sbin:/bin:/sbin")
            if path and (path not in found or GROUPS.index(group) < GROUPS.index(found[path][0])):
                found[path] = (group, name)
    return found


def main() -> int:
    source, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if not shutil.which("dpkg-query"):
        print("skipped: no dpkg here")
        return 77
    installed = Installed()
    allowed = {group: installed.closure(names) for group, names in listed(source).items()}
    used = [(path, group, "included" if path.endswith(".h") else "asked of pkg-config")
            for table in (headers(build), pkg_config(build)) for path, groups in table.items() for group in groups]
    used += [(path, group, script) for path, (group, script) in programs(source).items()]
    wrong: dict[str, str] = {}
    for path, group, by in used:
        owner = installed.owner(path)
        if owner and owner not in allowed[group]:
            wrong.setdefault(f"{owner} ({group})", f"{path}, {by}")
    for name, why in sorted(wrong.items()):
        print(f"tools/packages.txt lacks {name}: {why}")
    owners = {installed.owner(path) for path, _, _ in used}
    scripts_text = " ".join(path.read_text(encoding="utf-8", errors="replace") for path in (source / ".ci").iterdir())
    for name in ("tests/exporter/browser.py", "tests/exporter/check_metrics",
                 "tests/fuzz/meson.build", "tests/python/run", "tools/debian/rules", "tests/docs/check_manifests.py"):
        scripts_text += (source / name).read_text(encoding="utf-8")
    idle = [name for name in sorted(listed(source)["ci"])
            if name in installed.needs and name not in owners and not installed.needs[name] & owners
            and UNNAMED.get(name, "\0") not in scripts_text]
    for name in idle:
        print(f"tools/packages.txt has {name}, which nothing needs")
    print(f"{len(used)} files and programs, {len(wrong)} packages are lacking")
    return 1 if wrong or idle or len(used) < 100 else 0


sys.exit(main())
