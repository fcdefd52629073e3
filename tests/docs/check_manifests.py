#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_manifests.py - the examples for containers can be read, ask for no namespace of the host, and start what there is

usage: check_manifests.py ROOT SWAKVD

Each container of a broker has a command that swakvd takes (--check-config) and gets the folder of the socket, as does each
worker. Nothing asks for host namespaces or privileges.
"""
import pathlib
import subprocess
import sys
import tempfile

import yaml

FOLDER = "/run/swakv"
FORBIDDEN = {"hostIPC", "hostPID", "hostNetwork", "privileged", "ipc", "pid"}


def keys(value: object) -> set[str]:
    """every key in @value, at any depth, whose value is not false"""
    if isinstance(value, dict):
        return {k for k, v in value.items() if v is not False}.union(*(keys(v) for v in value.values()))
    return set().union(*(keys(v) for v in value)) if isinstance(value, list) else set()


def taken(swakvd: str, command: list[str], files: dict[str, str]) -> str:
    """what swakvd has against a command line; @files: of its configuration"""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (pathlib.Path(folder) / name).write_text(text)
        arguments = [a.replace("/etc/swakv", folder) for a in command[1:]]
        done = subprocess.run([swakvd, *arguments, "--check-config"], check=False, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
    return done.stderr if done.returncode else ""


def compose(root: pathlib.Path, swakvd: str) -> tuple[list[str], int]:
    services = yaml.safe_load((root / "broker/examples/compose.yaml").read_text())["services"]
    wrong = [f"compose.yaml: {name} asks for {k}" for name, s in services.items() for k in keys(s) & FORBIDDEN]
    wrong += [f"compose.yaml: {name} does not get {FOLDER}" for name, s in services.items()
              if not any(v.endswith(f":{FOLDER}") for v in s["volumes"])]
    brokers = [s["command"] for s in services.values() if s.get("command", [""])[0] == "swakvd"]
    return wrong + [f"compose.yaml: {said}" for c in brokers if (said := taken(swakvd, c, {}))], len(brokers)


def kubernetes(root: pathlib.Path, swakvd: str) -> tuple[list[str], int]:
    wrong, brokers, files = [], 0, {}
    for document in yaml.safe_load_all((root / "broker/examples/kubernetes.yaml").read_text()):
        wrong += [f"kubernetes.yaml: {document['kind']} asks for {k}" for k in keys(document) & FORBIDDEN]
        if document["kind"] == "ConfigMap":
            files.update(document["data"])
        spec = document.get("spec", {})
        for container in spec.get("template", {}).get("spec", spec).get("containers", []):
            if not any(m["mountPath"] == FOLDER for m in container["volumeMounts"]):
                wrong.append(f"kubernetes.yaml: {container['name']} does not get {FOLDER}")
            if container.get("command", [""])[0] == "swakvd":
                brokers += 1
                wrong += [f"kubernetes.yaml: {said}"] if (said := taken(swakvd, container["command"], files)) else []
    return wrong, brokers


def main() -> int:
    root, swakvd = pathlib.Path(sys.argv[1]), sys.argv[2]
    results = [compose(root, swakvd), kubernetes(root, swakvd)]
    wrong = [w for of_one, _ in results for w in of_one] + ["an example starts no broker" for _, n in results if not n]
    print("\n".join(wrong) or f"{sum(n for _, n in results)} brokers would start")
    return 1 if wrong else 0


sys.exit(main())
