# SPDX-License-Identifier: Apache-2.0
"""The C ABI of libswakv-client: structs, functions, constants. Names as in <swakv/*.h>.

Structs that begin with `size` get it when they are made. Structs only ever grow at their end, so a newer library reads
an older package's structs, and the other way round as long as nothing new is asked for.
"""

from __future__ import annotations

import ctypes
import functools
import numbers
import operator
import os
from collections.abc import Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_bool,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)  # fmt: skip
from pathlib import Path
from typing import Any

LIBRARY = "libswakv-client.so.1"

SLIDING, FULL = 1, 2
DTYPES = {"f16": 1, "bf16": 2, "f32": 3, "fp8": 4}
CHUNKS = {"retained": 0, "mapped": 1}
CONSUMERS = {"edge_llm": 1, "vllm": 2, "tensorrt_llm": 3, "flashinfer": 4, "flash_attention": 5}
FORMS = {"split": 0, "joined": 1}
ORDERS = {"k_v_extra": 0, "extra_k_v": 1, "rows": 2}
FENCE_DONE, FENCE_LINE, FENCE_FAILED = 0, 1, 2
WRITER_AUTO, WRITER_STREAM_WRITE, WRITER_HOST_FUNCTION, WRITER_COUNTER = 0, 1, 2, 3
COMPACT_MOVE_ROWS = 1
ATTACH_EVENTS, ATTACH_JOINABLE = 1, 2
TAKE_OVERWRITES = 1
TURN_COMPLETE, TURN_PREPARE, TURN_FINISH, TURN_BEGIN = 1, 2, 4, 8
GROUP_MOVABLE = 1
MAX_PAGES = 4096
MAX_RANGES = 16
EAGAIN = -17
CU_STREAM_LEGACY = 1  # cuda.h


class _Struct(ctypes.Structure):
    """One that says its size, which stands first."""

    def __init__(self, **values: Any) -> None:
        super().__init__(size=ctypes.sizeof(self), **values)


class Group(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("kind", c_int),
        ("window", c_int64),
        ("page_tokens", c_uint32),
        ("layers", c_uint32),
        ("kv_heads", c_uint32),
        ("head_dim", c_uint32),
        ("v_head_dim", c_uint32),
        ("dtype", c_int),
        ("k_bytes", c_uint32),
        ("v_bytes", c_uint32),
        ("extra_bytes", c_uint32),
        ("align", c_uint32),
        ("form", c_int),
        ("order", c_int),
        ("tag", c_char_p),
        ("flags", c_uint64),
    ]


class Model(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("n_groups", c_uint32),
        ("name", c_char_p),
        ("groups", POINTER(Group)),
        ("max_seq", c_int64),
        ("max_batch", c_uint32),
        ("in_flight", c_uint32),
        ("max_advance", c_int64),
        ("max_rewind", c_uint32),
        ("chunk", c_int),
    ]


class Update(ctypes.Structure):
    _fields_ = [("slot", c_int32), ("column", c_int32), ("page", c_int32), ("old_page", c_int32)]


class Token(ctypes.Structure):
    _fields_ = [("bytes", c_uint8 * 32)]


OnUpdates = CFUNCTYPE(None, c_void_p, c_uint32, c_uint32, POINTER(Update), c_size_t)


class AttachOptions(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("n_streams", c_uint32),
        ("broker", c_char_p),
        ("socket", c_char_p),
        ("pool", c_char_p),
        ("cuda_library", c_char_p),
        ("timeout_ms", c_uint32),
        ("spin_us", c_uint32),
        ("on_updates", OnUpdates),
        ("on_updates_arg", c_void_p),
        ("wait_ms", c_uint32),
        ("flags", c_uint32),
        ("join", POINTER(Token)),
    ]


class SessionInfo(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("session_id", c_uint32),
        ("generation", c_uint32),
        ("n_groups", c_uint32),
        ("n_streams", c_uint32),
        ("cuda", c_bool),
        ("device", c_char_p),
        ("pool", c_void_p),
        ("pool_device", c_uint64),
        ("pool_bytes", c_uint64),
        ("boot_id", c_uint8 * 16),
        ("device_uuid", c_uint8 * 16),
        ("near_cpus", c_char_p),
    ]


class Layout(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("num_pages", c_int32),
        ("k_base", c_uint64),
        ("v_base", c_uint64),
        ("table", c_uint64),
        ("page_stride", c_uint64),
        ("layer_stride", c_uint64),
        ("host_table", c_void_p),
        ("width", c_int32),
        ("private_pages", c_int32),
        ("page_tokens", c_uint32),
        ("layers", c_uint32),
        ("kv_heads", c_uint32),
        ("head_dim", c_uint32),
        ("v_head_dim", c_uint32),
        ("element_bytes", c_uint32),
        ("kind", c_int),
        ("dtype", c_int),
        ("wide_offsets", c_bool),
        ("window", c_int64),
        ("first_page", c_uint64),
        ("v_first", c_uint64),
        ("extra_first", c_uint64),
        ("k_token_stride", c_uint64),
        ("v_token_stride", c_uint64),
        ("k_bytes", c_uint32),
        ("v_bytes", c_uint32),
        ("extra_bytes", c_uint32),
        ("align", c_uint32),
        ("form", c_int),
        ("order", c_int),
        ("tag", c_char_p),
    ]


class Fence(ctypes.Structure):
    _fields_ = [("kind", c_int), ("line", c_uint32), ("value", c_uint64)]


class CudaOptions(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("writer", c_int),
        ("graph_steps", c_uint32),
        ("cu_stream", c_void_p),
    ]


class BeginOptions(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("stream", c_uint32),
        ("slots", POINTER(c_int32)),
        ("n_slots", c_uint32),
        ("wait_ms", c_uint32),
        ("max_tokens", c_int64),
    ]


class Step(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("result", c_int32),
        ("request", c_void_p),
        ("tokens", POINTER(c_int32)),
        ("accepted", POINTER(c_int32)),
        ("fence", Fence),
    ]


class Turn(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("what", c_uint32),
        ("request", c_void_p),
        ("tokens", POINTER(c_int32)),
        ("accepted", POINTER(c_int32)),
        ("fence", Fence),
        ("begin", POINTER(BeginOptions)),
        ("completed", c_int32),
        ("result", c_int32),
    ]


class Cycle(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("stream", c_uint32),
        ("ticket", c_uint64),
        ("graph", c_void_p),
        ("turns", POINTER(Turn)),
        ("n", c_uint32),
        ("wait_ms", c_uint32),
    ]


class RequestState(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("phase", c_int),
        ("transition", c_int),
        ("stream", c_uint32),
        ("batch", c_uint32),
        ("open_points", c_uint32),
        ("pending_batch", c_int32),
    ]


class PageRange(ctypes.Structure):
    _fields_ = [("first", c_int32), ("end", c_int32)]


class Binding(ctypes.Structure):
    _fields_ = [("logical_page", c_int32), ("page", c_int32)]


class SequenceState(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("slot", c_int32),
        ("generation", c_uint32),
        ("page_tokens", c_int32),
        ("window", c_int64),
        ("endpoint", c_int64),
        ("pending_endpoint", c_int64),
        ("retained_begin", c_int32),
        ("retained_end", c_int32),
        ("input_length", c_int32),
        ("pending_map", c_int32),
        ("n_bindings", c_uint32),
        ("n_reserved", c_uint32),
        ("n_new", c_uint32),
        ("n_retiring", c_uint32),
        ("n_staged", c_uint32),
        ("bindings", POINTER(Binding)),
        ("new_bindings", POINTER(Binding)),
        ("retiring", POINTER(Binding)),
        ("reserved", POINTER(c_int32)),
        ("staged", POINTER(c_int32)),
    ]


class ExportRows(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("n", c_uint32),
        ("ids", POINTER(c_int32)),
        ("stride", c_uint32),
        ("width", c_uint32),
        ("rows", POINTER(c_int32)),
        ("lengths", POINTER(c_int64)),
        ("page_tokens", c_uint32),
        ("n_rows", c_uint32),
    ]


class ExportStyle(_Struct):
    _fields_ = [
        ("size", c_uint32),
        ("halves", c_uint32),
        ("ratio", c_uint32),
        ("rebased", c_uint32),
        ("scale", c_int64),
        ("v_offset", c_int64),
        ("hole", c_int64),
    ]


_INTS = POINTER(c_int32)
_LONGS = POINTER(c_int64)
_WHY = (c_char_p, c_size_t)
_TICKET = POINTER(c_uint64)
_S = c_void_p  # a swakv_session or swakv_request

# Name: result, then arguments.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "swakv_version": (c_uint32,),
    "swakv_has": (c_bool, c_char_p),
    "swakv_struct_size": (c_size_t, c_char_p),
    "swakv_error_name": (c_char_p, c_int),
    "swakv_error_text": (c_char_p, c_int),
    "swakv_session_attach": (
        c_int, POINTER(AttachOptions), POINTER(Model), POINTER(c_void_p), c_char_p, c_size_t,
    ),
    "swakv_session_close": (None, _S),
    "swakv_session_get_token": (c_int, _S, POINTER(Token)),
    "swakv_session_shutdown": (c_int, _S),
    "swakv_session_error": (c_char_p, _S),
    "swakv_session_ping": (c_int, _S, _TICKET),
    "swakv_session_get_info": (c_int, _S, POINTER(SessionInfo)),
    "swakv_session_get_layout": (c_int, _S, c_uint32, POINTER(Layout)),
    "swakv_session_group_free_pages": (c_int, _S, c_uint32, POINTER(c_int64)),
    "swakv_session_fd": (c_int, _S),
    "swakv_session_take": (c_int, _S),
    "swakv_poll": (c_int, _S, c_uint64),
    "swakv_wait_for": (c_int, _S, c_uint64, c_uint32),
    "swakv_stream_bind_host": (c_int, _S, c_uint32, c_bool),
    "swakv_stream_bind_cuda2": (c_int, _S, c_uint32, POINTER(CudaOptions)),
    "swakv_stream_set_unordered": (c_int, _S, c_uint32, c_bool),
    "swakv_stream_cuda": (c_void_p, _S, c_uint32),
    "swakv_stream_mark": (c_int, _S, c_uint32, POINTER(Fence)),
    "swakv_stream_synchronize": (c_int, _S, c_uint32),
    "swakv_stream_capture_begin": (c_int, _S, c_uint32),
    "swakv_stream_capture_end": (c_int, _S, c_uint32),
    "swakv_stream_set_replay": (c_int, _S, c_uint32, c_bool),
    "swakv_stream_replay": (c_int, _S, c_uint32, c_void_p, POINTER(Fence)),
    "swakv_fence_reached": (c_bool, _S, Fence),
    "swakv_fence_wait": (c_int, _S, Fence, c_uint32),
    "swakv_request_begin": (c_int, _S, POINTER(BeginOptions), POINTER(c_void_p), _TICKET),
    "swakv_request_withdraw": (c_int, _S, c_uint64, _TICKET),
    "swakv_request_reserve": (c_int, _S, c_int64, _TICKET),
    "swakv_request_pin": (c_int, _S, _TICKET),
    "swakv_request_unpin": (c_int, _S, _TICKET),
    "swakv_request_finish": (c_int, _S, _TICKET),
    "swakv_request_abandon": (c_int, _S, _TICKET),
    "swakv_request_free": (None, _S),
    "swakv_request_valid": (c_bool, _S),
    "swakv_request_batch": (c_uint32, _S),
    "swakv_request_slot": (c_int32, _S, c_uint32),
    "swakv_request_get_state": (c_int, _S, POINTER(RequestState)),
    "swakv_sequence_get_group_state": (c_int, _S, c_uint32, c_uint32, POINTER(SequenceState)),
    "swakv_sequence_state_clear": (None, POINTER(SequenceState)),
    "swakv_prefill_prepare": (c_int, _S, _INTS, c_uint32, _TICKET),
    "swakv_prefill_complete": (c_int, _S, Fence, _TICKET),
    "swakv_decode_prepare": (c_int, _S, _TICKET),
    "swakv_decode_complete": (c_int, _S, Fence, _TICKET),
    "swakv_extend_prepare": (c_int, _S, _INTS, c_uint32, _TICKET),
    "swakv_extend_complete": (c_int, _S, Fence, _INTS, c_uint32, _TICKET),
    "swakv_rewind": (c_int, _S, _INTS, c_uint32, _TICKET),
    "swakv_step_prepare": (c_int, _S, POINTER(Step), c_uint32, _TICKET),
    "swakv_step_complete": (c_int, _S, POINTER(Step), c_uint32, _TICKET),
    "swakv_step_turn": (c_int, _S, POINTER(Turn), c_uint32, _TICKET),
    "swakv_step_cycle": (c_int, _S, POINTER(Cycle)),
    "swakv_compact_begin": (c_int, _S, _INTS, c_uint32, c_int32, c_uint32, c_uint64, _TICKET),
    "swakv_compact_complete": (c_int, _S, Fence, _TICKET),
    "swakv_pages_take": (
        c_int, _S, c_uint32, c_uint32, c_uint32, c_uint32, c_uint32, c_uint32, _INTS, POINTER(c_uint32), _TICKET,
    ),
    "swakv_pages_give": (c_int, _S, c_uint32, _INTS, c_uint32, POINTER(Fence), c_uint32, _TICKET),
    "swakv_pages_takeable": (c_int64, _S, c_uint32),
    "swakv_pages_offer": (c_int, _S, c_uint32, c_int64),
    "swakv_pages_wanted": (c_int64, _S, c_uint32, POINTER(c_uint64)),
    "swakv_pages_wanted_ranges": (c_uint32, _S, c_uint32, POINTER(PageRange), c_uint32),
    "swakv_pages_get_limits": (c_int, _S, c_uint32, POINTER(c_int64), POINTER(c_int64)),
    "swakv_export_style_of": (c_int, c_int, POINTER(Layout), c_uint32, c_int32, POINTER(ExportStyle), *_WHY),
    "swakv_export_dense": (c_int, POINTER(ExportRows), POINTER(ExportStyle), _INTS, c_uint32, _LONGS, *_WHY),
    "swakv_export_csr": (
        c_int, POINTER(ExportRows), POINTER(ExportStyle), _INTS, _INTS, c_size_t, POINTER(c_size_t), _INTS, _LONGS, *_WHY,
    ),
    "swakv_export_slots": (c_int, POINTER(ExportRows), POINTER(ExportStyle), _INTS, _LONGS, c_size_t, *_WHY),
}  # fmt: skip

# C name of each struct whose size never changes, so that it must be the library's.
STRUCTS = {
    "swakv_group": Group, "swakv_model": Model, "swakv_update": Update, "swakv_attach_options": AttachOptions,
    "swakv_session_info": SessionInfo, "swakv_layout": Layout, "swakv_fence": Fence,
    "swakv_cuda_options": CudaOptions, "swakv_begin_options": BeginOptions, "swakv_step": Step,
    "swakv_turn": Turn, "swakv_cycle": Cycle,
    "swakv_request_state": RequestState, "swakv_binding": Binding, "swakv_sequence_state": SequenceState,
    "swakv_token": Token, "swakv_export_rows": ExportRows, "swakv_export_style": ExportStyle,
}  # fmt: skip


def candidates() -> list[str]:
    """Where the library is looked for: $SWAKV_LIBRARY alone if it is set, else beside this file, then the loader's way."""
    named = os.environ.get("SWAKV_LIBRARY")
    if named:
        return [named]
    beside = Path(__file__).parent / LIBRARY
    return [str(beside), LIBRARY] if beside.exists() else [LIBRARY]


@functools.cache
def library() -> ctypes.CDLL:
    """The library, loaded once. Raises ImportError with what was tried."""
    failed = []
    for name in candidates():
        try:
            lib = ctypes.CDLL(name)
        except OSError as e:
            failed.append(f"{name}: {e}")
            continue
        _declare(lib, name)
        return lib
    raise ImportError(
        f"the swakv client library cannot be loaded ({'; '.join(failed)}); install swakv, "
        f"or set SWAKV_LIBRARY to the path of {LIBRARY}"
    )


def _declare(lib: ctypes.CDLL, name: str) -> None:
    for function, (result, *arguments) in FUNCTIONS.items():
        try:
            f = getattr(lib, function)
        except AttributeError:
            raise ImportError(
                f"{name} has no {function}(): it is older than this package; install both from one source"
            ) from None
        f.restype, f.argtypes = result, arguments
    for struct, mine in STRUCTS.items():
        theirs = lib.swakv_struct_size(struct.encode())
        if theirs < ctypes.sizeof(mine) or (theirs != ctypes.sizeof(mine) and not issubclass(mine, _Struct)):
            raise ImportError(
                f"struct {struct} has {theirs} bytes in {name} and {ctypes.sizeof(mine)} in this package; "
                "install both from one source"
            )


def text(value: str | None) -> bytes | None:
    return None if value is None else os.fsencode(value)


def seconds(what: str, value: float, most: int, parts: int) -> int:
    """@value in parts of a second. Raises for what is no time, or none that is possible."""
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{what} is {value!r}; wanted: seconds")
    if not 0 <= value <= most:
        raise ValueError(f"{what} is {value} seconds; wanted: 0 to {most:,}")
    return round(value * parts)


def milliseconds(what: str, value: float) -> int:
    return seconds(what, value, 4_000_000, 1000)


def whole(what: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}; wanted: a whole number") from None


def number(what: str, value: Any, bits: int = 32) -> int:
    """@value for an unsigned member of a struct, of so many bits: another would be cut."""
    n = whole(what, value)
    if not 0 <= n < 1 << bits:
        raise ValueError(f"{what} is {n}; wanted: 0 or more, and below 2**{bits}")
    return n


def array(kind: Any, values: Sequence[Any]) -> Any:
    return (kind * len(values))(*values)


def int32s(values: Sequence[int], what: str = "the list") -> Any:
    """An array of int32; a value outside raises instead of being cut."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise TypeError(f"{what} is {values!r}; wanted: a list of whole numbers")
    out: list[int] = []
    for i, v in enumerate(values):
        out.append(whole(f"number {i} of {what}", v))
        if not -(1 << 31) <= out[-1] < 1 << 31:
            raise ValueError(f"number {i} of {what} is {v}, which is not an int32")
    return (c_int32 * len(out))(*out)
