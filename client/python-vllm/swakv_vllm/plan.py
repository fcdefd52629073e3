# SPDX-License-Identifier: Apache-2.0
"""What of a vLLM configuration can run on swakv pages, and what it declares to the broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import swakv

from . import Refused

# Kinds of KV cache that were tried. Of others, some take null block 0 for granted, or keep state beside the blocks.
KNOWN_SPECS = ("FullAttentionSpec", "SlidingWindowSpec")
LAYOUT = "BLHNC"  # a block is one run of bytes, all layers of it
CPU_ONLY_SAYS = ["LBHNC"]  # what the CPU's attention says it takes; it takes the other as well: README.md


def _wrong(what: str, do: str) -> Refused:
    return Refused(f"{what}: swakv-vllm has not been tried with that; {do}, or unset SWAKV_BROKER")


def _value(config: Any, path: str) -> Any:
    """What is at @path ("parallel_config.enable_eplb"). One that is not there may have another name in this version."""
    for name in path.split("."):
        try:
            config = getattr(config, name)
        except AttributeError:
            raise Refused(f"the configuration of this vLLM has no {path}: swakv-vllm does not know this version") from None
    return config


def check(config: Any) -> None:
    """Refuses what swakv-vllm would get wrong, or what nobody has tried. config: a VllmConfig."""
    for name in (
        "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size",
        "prefill_context_parallel_size",
    ):  # fmt: skip
        if (n := _value(config, f"parallel_config.{name}")) != 1:
            raise _wrong(f"{name} is {n}", f"set {name} to 1")
    if _value(config, "parallel_config.enable_eplb"):
        raise _wrong("expert load balancing writes to block 0, which may be another engine's", "turn enable_eplb off")
    if (connector := _value(config, "kv_transfer_config")) is not None:
        raise _wrong(f"a KV connector is configured ({connector.kv_connector})", "leave kv_transfer_config out")
    if _value(config, "cache_config.kv_offloading_size"):
        raise _wrong("KV offload is configured", "leave kv_offloading_size out")
    if (drafts := _value(config, "speculative_config")) is not None:
        raise _wrong(f"speculative decoding ({drafts.method}) is configured", "leave speculative_config out")
    if _value(config, "attention_config.hisparse_config") is not None:
        raise _wrong("HiSparse is configured", "leave hisparse_config out")
    if _value(config, "model_config.enable_sleep_mode"):
        raise _wrong("sleep mode would discard memory that is the broker's", "turn enable_sleep_mode off")
    if (scheduler := _value(config, "scheduler_config.scheduler_cls")) is not None:
        raise _wrong(f"scheduler_cls is {scheduler}, which may plan steps in a way of its own", "leave scheduler_cls out")
    if _value(config, "use_v2_model_runner"):
        raise Refused(
            "model runner V2 warms up with made-up requests on blocks 1, 2, ..., which are other engines'; "
            "set VLLM_USE_V2_MODEL_RUNNER=0, or unset SWAKV_BROKER"
        )


def check_specs(specs: Iterable[dict[str, Any]]) -> None:
    """specs: one dict a worker, layer name to KVCacheSpec."""
    for layer, spec in (item for worker in specs for item in worker.items()):
        if type(spec).__name__ not in KNOWN_SPECS:
            raise _wrong(f"layer {layer} has a KV cache of kind {type(spec).__name__}", f"known are {', '.join(KNOWN_SPECS)}")


def layout(supported: list[list[str]], chosen: str | None, on_cpu: bool) -> str:
    """The layout of the buffer: block-outermost. supported: of each worker, most preferred first."""
    if chosen is not None and chosen != LAYOUT:
        raise _wrong(f"the layout of the KV cache is set to {chosen}", f"set it to {LAYOUT}")
    names = supported[0] if supported else []
    if LAYOUT in names or (on_cpu and names == CPU_ONLY_SAYS):
        return LAYOUT
    raise Refused(
        f"the attention backend takes KV caches in {', '.join(names) or 'no layout'}, and swakv needs {LAYOUT}, in which a "
        "block is one run of bytes; choose another backend, or unset SWAKV_BROKER"
    )


@dataclass(frozen=True)
class Block:
    """What vLLM's blocks are. bytes: of all layers; tokens: of the smallest group."""

    bytes: int
    tokens: int

    @classmethod
    def of(cls, kv_cache_config: Any) -> Block:
        """kv_cache_config: of vLLM, laid out with blocks outermost."""
        strides = {t.block_stride for t in kv_cache_config.kv_cache_tensors}
        if len(strides) != 1:
            raise Refused(f"vLLM lays out blocks of different sizes ({sorted(strides)} bytes), and one is known to swakv-vllm")
        tokens = min(group.kv_cache_spec.block_size for group in kv_cache_config.kv_cache_groups)
        return cls(strides.pop(), tokens)

    def model(self, name: str, tag: str) -> swakv.Model:
        """One group of pages of a block's size. What lies where in a page is vLLM's to know."""
        tokens = self.tokens if self.tokens in (16, 32, 64, 128, 256) else 16
        group = swakv.Group(
            layers=1, page_tokens=tokens, k_bytes=self.bytes // tokens, extra_bytes=self.bytes % tokens, form="joined",
            tag=tag[:31],
        )  # fmt: skip
        return swakv.Model(name, [group], max_batch=1, max_seq=tokens)


def name(config: Any, chosen: str | None) -> str:
    """The model's name at the broker: SWAKV_MODEL, else the name that it is served under."""
    served = config.model_config.served_model_name or config.model_config.model
    found = chosen or (served[0] if isinstance(served, list) else served)
    if not 1 <= len(found) <= 127 or not (found.isascii() and found.isprintable()):
        raise Refused(f"the model's name is {found!r}; the broker wants 1 to 127 printable ASCII characters: set SWAKV_MODEL")
    return str(found)
