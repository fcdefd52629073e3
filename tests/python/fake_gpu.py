# SPDX-License-Identifier: Apache-2.0
"""The stand-in for a GPU's driver, for what of the package is for CUDA streams: brokers, and graphs to be replayed."""

from __future__ import annotations

import ctypes
from typing import Any

import build
import processes

import swakv

DRIVER = build.BUILD / "tests/fakecuda/libfakecuda.so"  # only in a build with a CUDA backend


def broker(size: str = "16M", **more: Any) -> processes.Broker:
    return processes.Broker(size=size, arguments=("--backend", "cuda"), env={"SWAKV_CUDA_LIBRARY": str(DRIVER), **more})


def attach(b: processes.Broker, model: swakv.Model, graph_steps: int = 2, **how: Any) -> swakv.Session:
    session = swakv.attach(model, socket=b.socket_path, cuda_library=str(DRIVER), **how)
    session.stream().bind_cuda(graph_steps=graph_steps)
    return session


def capture(session: swakv.Session) -> int:
    """A CUgraphExec with nothing in it but the table's entries and the mark."""
    driver, context = ctypes.CDLL(str(DRIVER)), ctypes.c_void_p()
    stream, graph, graph_exec = ctypes.c_void_p(session.stream().cuda_stream), ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    assert driver.cuStreamBeginCapture_v2(stream, 2) == 0
    session.stream().capture_begin()
    session.stream().capture_end()
    assert driver.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
    assert driver.cuGraphInstantiateWithFlags(ctypes.byref(graph_exec), graph, ctypes.c_ulonglong(0)) == 0
    assert graph_exec.value is not None
    return graph_exec.value
