# SPDX-License-Identifier: Apache-2.0
"""The places of vLLM that the plug-in replaces or builds on, and the shape that each must have."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import Refused

VERSIONS = ("0.32.",)


@dataclass(frozen=True)
class Seam:
    """`name` in `module` ("Class.method" too): a function of these parameters. What is not as it says is refused."""

    module: str
    name: str
    parameters: tuple[str, ...]

    @property
    def where(self) -> str:
        return f"{self.module}.{self.name}"

    def _holder(self) -> tuple[Any, str]:
        *path, last = self.name.split(".")
        return functools.reduce(getattr, path, importlib.import_module(self.module)), last

    def get(self) -> Callable[..., Any]:
        """What is there, and has the shape."""
        try:
            holder, last = self._holder()
            found = getattr(holder, last)
        except (ImportError, AttributeError) as e:
            raise Refused(f"this vLLM has no {self.where} ({e}): swakv-vllm does not know this version") from None
        there = tuple(inspect.signature(found).parameters)
        if there != self.parameters:
            raise Refused(
                f"{self.where} of this vLLM takes ({', '.join(there)}), and swakv-vllm knows it with "
                f"({', '.join(self.parameters)}): it does not know this version"
            )
        return found  # type: ignore[no-any-return]

    def replace(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Puts wrap(what was there) in its place, once in each process."""
        holder, last = self._holder()
        found = holder.__dict__[last]
        if getattr(found, "_swakv", False):
            return
        wrapped = wrap(self.get())
        functools.update_wrapper(wrapped, found)
        wrapped._swakv = True  # type: ignore[attr-defined]
        setattr(holder, last, wrapped)


_CORE = "vllm.v1.engine.core"
_MANAGER = "vllm.v1.core.kv_cache_coordinator"

# Replaced in EngineCore's process.
INITIALIZE = Seam(_CORE, "EngineCore._initialize_kv_caches", ("self", "vllm_config"))
CONFIGS = Seam(_CORE, "get_kv_cache_configs", ("vllm_config", "kv_cache_specs", "available_memory"))
CAPACITY = Seam(_CORE, "update_kv_cache_capacity", ("vllm_config", "kv_cache_config"))
LOOP = Seam(_CORE, "EngineCoreProc._process_input_queue", ("self",))
MESSAGE = Seam(_CORE, "EngineCoreProc._handle_client_request", ("self", "request_type", "request"))
CONCURRENCY = Seam(
    "vllm.v1.core.kv_cache_utils", "get_max_concurrency_for_kv_cache_config", ("vllm_config", "kv_cache_config")
)  # fmt: skip
BLOCK_POOL = Seam(
    _MANAGER, "BlockPool",
    ("num_gpu_blocks", "enable_caching", "hash_block_size", "enable_kv_cache_events", "metrics_collector", "medium"),
)  # fmt: skip
NEED = Seam(
    _MANAGER, "KVCacheCoordinator.get_num_blocks_to_allocate",
    ("self", "request_id", "num_tokens", "new_computed_blocks", "num_encoder_tokens", "total_computed_tokens",
     "num_local_computed_tokens", "num_tokens_main_model", "apply_admission_cap", "prefill_end"),
)  # fmt: skip
SCHEDULE = Seam("vllm.v1.core.sched.scheduler", "Scheduler.schedule", ("self", "throttle_prefills"))
UPDATE = Seam("vllm.v1.core.sched.scheduler", "Scheduler.update_from_output", ("self", "scheduler_output", "model_runner_output"))
# Replaced in the worker's process.
ALLOCATE = Seam("vllm.v1.worker.utils", "allocate_kv_cache", ("kv_cache_config", "device", "layout", "kernel_block_sizes"))

# What the block pool's subclass builds on.
_QUEUE = "FreeKVCacheBlockQueue"
BUILT_ON = (
    Seam("vllm.v1.core.kv_cache_utils", f"{_QUEUE}.prepend_n", ("self", "blocks")),
    Seam("vllm.v1.core.kv_cache_utils", f"{_QUEUE}.remove", ("self", "block")),
    Seam("vllm.v1.core.kv_cache_utils", f"{_QUEUE}.popleft", ("self",)),
    Seam("vllm.v1.core.block_pool", "BlockPool.get_new_blocks", ("self", "num_blocks")),
    Seam("vllm.v1.core.block_pool", "BlockPool.touch", ("self", "blocks")),
    Seam("vllm.v1.core.block_pool", "BlockPool.free_blocks", ("self", "ordered_blocks")),
    Seam("vllm.v1.core.block_pool", "BlockPool.reset_prefix_cache", ("self",)),
    Seam("vllm.v1.core.block_pool", "BlockPool.get_num_free_blocks", ("self",)),
    Seam("vllm.v1.core.block_pool", "BlockPool._maybe_evict_cached_block", ("self", "block")),
    # And what the requests of a scheduler will take is learned from.
    Seam("vllm.v1.core.kv_cache_manager", "KVCacheManager.prefix_cache_lookup_enabled", ("self", "request")),
    Seam(_MANAGER, "KVCacheCoordinator.find_longest_cache_hit", ("self", "block_hashes", "max_cache_hit_length")),
    Seam(
        "vllm.v1.core.single_type_kv_cache_manager", "SingleTypeKVCacheManager.get_num_blocks_to_allocate",
        ("self", "request_id", "num_tokens", "new_computed_blocks", "total_computed_tokens", "num_local_computed_tokens",
         "num_tokens_main_model", "apply_admission_cap", "prefill_end"),
    ),  # fmt: skip
)


def check_version() -> None:
    """Refuses a vLLM that nobody has tried."""
    version = importlib.import_module("vllm.version").__version__
    if not version.startswith(VERSIONS):
        known = ", ".join(f"{v}x" for v in VERSIONS)
        raise Refused(f"vLLM is version {version}, and swakv-vllm knows {known}; unset SWAKV_BROKER to run without swakv")
    for seam in BUILT_ON:
        seam.get()
