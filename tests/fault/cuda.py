# SPDX-License-Identifier: Apache-2.0
"""cuda - brokers on the CUDA backend for the process tests

The driver is the fake one, or the library in $SWAKV_TEST_CUDA_LIBRARY, as
tests/gpu/run sets it on a machine with a GPU. What only the fake one can do
(fail on demand, count calls) is asked of it alone.
"""
import contextlib
import os

from processes import BUILD, Broker, skip, threads

FAKE = BUILD / "tests/fakecuda/libfakecuda.so"
LIBRARY = os.environ.get("SWAKV_TEST_CUDA_LIBRARY", str(FAKE))
IS_FAKE = LIBRARY == str(FAKE)


def need_cuda(fake_only=False):
    """Ends the test as skipped where the build cannot do it."""
    if not FAKE.exists():
        skip("this build has no CUDA backend (no cuda.h)")
    if not (BUILD / "kernels/table.fatbin").exists():
        skip("this build has no GPU kernels (no nvcc)")
    if fake_only and not IS_FAKE:
        skip("needs the fake driver")


class CudaBroker(Broker):
    """A private broker on the CUDA backend; workers inherit its driver and environment."""

    def __init__(self, size="64M", arguments=(), env=None, **options):
        driver = {"SWAKV_CUDA_LIBRARY": LIBRARY, "FAKECUDA_CHECK_ARMED": "1"}
        super().__init__(size=size, arguments=("--backend", "cuda", *arguments), env={**driver, **(env or {})}, **options)

    @contextlib.contextmanager
    def environment(self, **variables):
        """What is started inside has these variables, too."""
        before = self.env
        self.env = {**before, **variables}
        try:
            yield
        finally:
            self.env = before


def stands_still(broker, worker):
    """True when @worker holds pages and has sent no command for long: it waits for its stream, which ends nothing. One that
    a busy machine does not run sends none either."""
    return all(state == "S" for _, state, _ in threads(worker.pid)) and any(
        s["pid"] == worker.pid and s["pages"]["leased"] and s["last"]["age_ms"] > 1500
        for s in broker.status()["sessions"])


def calls(path):
    """{(pid, thread): {function: count}} of a file that FAKECUDA_COUNT named."""
    found = {}
    for line in path.read_text().splitlines():
        pid, _, thread, function, count = line.split(" ")
        found.setdefault((int(pid), thread), {})[function] = int(count)
    return found
