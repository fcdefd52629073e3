# SPDX-License-Identifier: Apache-2.0
"""Arrays over a session's pool and tables, without a copy.

A View says where memory lies and how it is cut. It becomes an array of another library by the protocol that this
library asks for: View.buffer() and ``__array__`` on the host, ``__cuda_array_interface__`` on a GPU, DLPack on both. The
session stays attached while any of these is alive.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# DLPack: device types, and (code, bits) of element types
_DL_CPU, _DL_CUDA = 1, 2
_DL_INT, _DL_UINT, _DL_FLOAT, _DL_BFLOAT, _DL_FLOAT8_E4M3FN = 0, 1, 2, 4, 10


@dataclass(frozen=True)
class ElementType:
    """An element: its bytes, NumPy's name (None: NumPy has none), DLPack's code."""

    bytes: int
    typestr: str | None
    dlpack: int


ELEMENTS = {
    "f16": ElementType(2, "<f2", _DL_FLOAT),
    "bf16": ElementType(2, None, _DL_BFLOAT),
    "f32": ElementType(4, "<f4", _DL_FLOAT),
    "fp8": ElementType(1, None, _DL_FLOAT8_E4M3FN),
    "i32": ElementType(4, "<i4", _DL_INT),
    "u8": ElementType(1, "|u1", _DL_UINT),
    "u16": ElementType(2, "<u2", _DL_UINT),
}


class _DLDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DLType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DLManaged(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManaged))
_DLManaged._fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]

_exports: dict[int, Any] = {}  # address of a _DLManaged in use: all that it needs


@_Deleter
def _delete(managed: Any) -> None:
    _exports.pop(ctypes.addressof(managed.contents), None)


_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype = ctypes.py_object
_capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.restype = ctypes.c_int
_capsule_is.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Lease:
    """What keeps a session's memory mapped: as long as one is alive, Session.close() refuses."""

    __slots__ = ("__weakref__", "session")

    def __init__(self, session: Any) -> None:
        self.session = session


class Leases:
    """The leases of one session that are alive."""

    def __init__(self) -> None:
        self._alive: weakref.WeakSet[Lease] = weakref.WeakSet()

    def new(self, session: Any) -> Lease:
        lease = Lease(session)
        self._alive.add(lease)
        return lease

    def __len__(self) -> int:
        return len(self._alive)


class View:
    """An array in the pool or in a table.

    address: of the first element, as kernels use it (on the host backend of this process's memory too).
    shape: elements along each axis. strides: bytes along each axis. dtype: a key of ELEMENTS.
    device: None on the host, else the index of the GPU in this process.
    """

    def __init__(
        self,
        lease: Callable[[], Lease],
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: str,
        device: int | None,
        readonly: bool = False,
    ) -> None:
        self.address, self.shape, self.strides = address, shape, strides
        self.dtype, self.device, self.readonly = dtype, device, readonly
        self._lease = lease
        self._held: Lease | None = None

    def __repr__(self) -> str:
        where = "host" if self.device is None else f"cuda:{self.device}"
        return f"<swakv view {self.dtype}{list(self.shape)} at {self.address:#x} on {where}>"

    @property
    def element_bytes(self) -> int:
        return ELEMENTS[self.dtype].bytes

    @property
    def element_strides(self) -> tuple[int, ...]:
        """strides in elements."""
        if any(s % self.element_bytes for s in self.strides):
            raise ValueError(
                f"strides of {list(self.strides)} bytes are no multiples of an element of {self.dtype}: declare the group "
                f"with align={self.element_bytes} or more"
            )
        return tuple(s // self.element_bytes for s in self.strides)

    @property
    def extent_bytes(self) -> int:
        """Bytes from the first element to behind the last."""
        if 0 in self.shape:
            return 0
        return sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + self.element_bytes

    def as_type(self, dtype: str) -> View:
        """The same memory as elements of another type of the same size."""
        if ELEMENTS[dtype].bytes != self.element_bytes:
            raise ValueError(f"an element of {dtype} has {ELEMENTS[dtype].bytes} bytes, not {self.element_bytes}")
        return View(self._lease, self.address, self.shape, self.strides, dtype, self.device, self.readonly)

    def _host_memory(self) -> Any:
        if self.device is not None:
            raise BufferError("this memory is on a GPU: use __cuda_array_interface__ or DLPack")
        memory = (ctypes.c_char * self.extent_bytes).from_address(self.address)
        memory._swakv_lease = self._lease()  # lives as long as any buffer of it
        return memory

    def buffer(self) -> memoryview:
        """The bytes from the first element to behind the last, gaps included. Host only."""
        view = memoryview(self._host_memory()).cast("B")
        return view.toreadonly() if self.readonly else view

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """For NumPy, which has no bf16 and no fp8: those come as unsigned integers of their size."""
        import numpy as np

        if 0 in self.shape:
            return np.empty(self.shape, self._typestr())
        flat = np.frombuffer(self.buffer(), dtype=self._typestr())
        array = np.lib.stride_tricks.as_strided(flat, self.shape, self.strides, writeable=not self.readonly)
        if (dtype is not None and dtype != array.dtype) or copy:
            return array.astype(array.dtype if dtype is None else dtype)
        return array

    def _typestr(self) -> str:
        """The type for those who have no name for it: an integer of its size."""
        return ELEMENTS[self.dtype].typestr or ("<u2" if self.element_bytes == 2 else "|u1")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.device is None:  # consumers ask by hasattr()
            raise AttributeError("this memory is on the host: use buffer(), NumPy or DLPack")
        self._held = self._lease()  # who takes the address keeps this view, and nothing else
        return {
            "shape": self.shape,
            "strides": self.strides,
            "typestr": self._typestr(),
            "data": (self.address, self.readonly),
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_DL_CPU, 0) if self.device is None else (_DL_CUDA, self.device)

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        """A DLPack capsule. @stream is not synchronised with: order your work behind the session's own stream."""
        if self.readonly:
            raise BufferError("this table is read-only, which DLPack cannot say; copy it from buffer()")
        element = ELEMENTS[self.dtype]
        n = len(self.shape)
        shape = (ctypes.c_int64 * n)(*self.shape)
        strides = (ctypes.c_int64 * n)(*self.element_strides)
        managed = _DLManaged()
        kind, index = self.__dlpack_device__()
        managed.tensor = _DLTensor(
            self.address, _DLDevice(kind, index), n, _DLType(element.dlpack, element.bytes * 8, 1), shape, strides, 0
        )
        managed.deleter = _delete
        _exports[ctypes.addressof(managed)] = (managed, shape, strides, self._lease())
        return _capsule_new(ctypes.addressof(managed), b"dltensor", _destroy)


@_Destructor
def _unused(capsule: int) -> None:
    """Of a capsule that nobody took: its name is still "dltensor"."""
    if _capsule_is(capsule, b"dltensor"):
        _exports.pop(_capsule_pointer(capsule, b"dltensor"), None)


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_destroy = ctypes.cast(_unused, ctypes.c_void_p)


def packed(shape: tuple[int, ...], element_bytes: int) -> tuple[int, ...]:
    """Strides in bytes of a dense array in C order."""
    return tuple(math.prod(shape[i + 1 :]) * element_bytes for i in range(len(shape)))
