# SPDX-License-Identifier: Apache-2.0
"""kernels - brokers on a kernel that says less, and processes in pid namespaces of their own"""
import errno
import os
import subprocess

from processes import BUILD, PATIENCE, skip

OWN_PIDS = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL", "--")


def old_kernel(error=errno.ENOPROTOOPT):
    """What to start a broker with, so that SO_PEERPIDFD fails with @error; as before Linux 6.5 unless told otherwise."""
    asan = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
    return ["env", f"LD_PRELOAD={BUILD / 'tests/fault/libold_kernel.so'}", f"OLD_KERNEL_ERRNO={error}",
            f"ASAN_OPTIONS={asan}"]


def need_pid_namespaces():
    """Ends the test as skipped where no pid namespace can be made."""
    try:
        result = subprocess.run([*OWN_PIDS, "true"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.STDOUT, timeout=PATIENCE, check=False)
    except OSError as why:
        skip(f"unshare, of util-linux: {why}")
    if result.returncode:
        skip(f"no pid namespace can be made here: {result.stdout.strip()}")
