# SPDX-License-Identifier: Apache-2.0
"""Compiles the Triton kernels for a GPU, which need not be there: compile_kernels.py CASE...

Cases are those of test_attention.py. The interpreter runs much that the compiler refuses.
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)

import build  # noqa: F401
import torch
import triton
from test_attention import CASES, History
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from swakv import _triton, attention

TARGET = GPUTarget("cuda", 90, 32)
TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.int32: "i32", torch.bool: "i1"}


class Compiled:
    """In a kernel's place: a launch is a compilation."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, _: Any) -> Any:
        def launch(*arguments: Any, num_warps: int, num_stages: int = 3, **fixed: Any) -> None:
            values = dict(zip(self.kernel.arg_names, arguments, strict=False)) | fixed
            signature, constants = {}, {}
            for name, value in values.items():
                if isinstance(value, torch.Tensor):
                    signature[name] = "*" + TYPES[value.dtype]
                elif name in fixed or (isinstance(value, int) and value == 1):  # as a launch does
                    signature[name], constants[name] = "constexpr", value
                else:
                    signature[name] = "fp32" if isinstance(value, float) else "i64" if value >= 1 << 31 else "i32"
            source = ASTSource(self.kernel, signature, constants)
            done = triton.compile(source, target=TARGET, options=dict(num_warps=num_warps, num_stages=num_stages))
            print(self.kernel.__name__, done.metadata.shared, "bytes of shared memory", flush=True)

        return launch


def main() -> None:
    for name in ("_write", "_attend", "_join"):
        setattr(_triton, name, Compiled(getattr(_triton, name)))
    for case in sys.argv[1:]:
        for dtype in (torch.float32, torch.bfloat16):
            print(case, dtype, flush=True)
            h = History(dtype, "split", CASES[case])
            where = attention.Sequences(*(torch.tensor(x, dtype=torch.int32) for x in (h.slots, h.lengths)))
            k, v = h.new(h.k[0]), h.new(h.v[0])
            pages = (h.pages.k[:, 0], h.pages.v[:, 0], h.pages.table, where)
            _triton.write(k, v, *pages)
            _triton.attend(h.q[0], k, v, *pages, h.window, 0.3, h.softcap, h.sinks, h.padding)


if __name__ == "__main__":
    main()
