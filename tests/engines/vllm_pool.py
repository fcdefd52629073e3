# SPDX-License-Identifier: Apache-2.0
"""Stands in for the block pool of vLLM where vLLM is not installed: as much of it as swakv_vllm builds on.

Same names, same rules: a doubly linked queue of free blocks, those without a hash in front, then cached ones, the least
recently used first. tests/vllm runs the same classes of swakv_vllm on vLLM's own.
"""

from __future__ import annotations

import logging
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any


class KVCacheBlock:
    def __init__(self, block_id: int, pool: Any = None) -> None:
        self.block_id, self.pool, self.ref_cnt, self.is_null = block_id, pool, 0, False
        self.block_hash: bytes | None = None
        self.prev_free_block: KVCacheBlock | None = None
        self.next_free_block: KVCacheBlock | None = None


def _link(first: KVCacheBlock, second: KVCacheBlock) -> None:
    first.next_free_block, second.prev_free_block = second, first


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: list[KVCacheBlock]) -> None:
        self.num_free_blocks = 0
        self.fake_free_list_head, self.fake_free_list_tail = KVCacheBlock(-1), KVCacheBlock(-1)
        _link(self.fake_free_list_head, self.fake_free_list_tail)
        self.append_n(blocks)

    def remove(self, block: KVCacheBlock) -> None:
        assert block.prev_free_block is not None and block.next_free_block is not None, "not in the queue"
        _link(block.prev_free_block, block.next_free_block)
        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1

    def popleft_n(self, n: int) -> list[KVCacheBlock]:
        assert n <= self.num_free_blocks
        found = []
        for _ in range(n):
            first = self.fake_free_list_head.next_free_block
            assert first is not None
            self.remove(first)
            found.append(first)
        return found

    def popleft(self) -> KVCacheBlock:
        return self.popleft_n(1)[0]

    def _put(self, blocks: Sequence[KVCacheBlock], before: KVCacheBlock) -> None:
        for block in blocks:
            last = before.prev_free_block
            assert last is not None
            _link(last, block)
            _link(block, before)
        self.num_free_blocks += len(blocks)

    def prepend_n(self, blocks: Sequence[KVCacheBlock]) -> None:
        first = self.fake_free_list_head.next_free_block
        assert first is not None
        self._put(blocks, first)

    def append_n(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._put(blocks, self.fake_free_list_tail)


class BlockHashToBlockMap:
    """One block of each hash; of several that are equal, only the first is found."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, KVCacheBlock] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def get_one_block(self, key: bytes) -> KVCacheBlock | None:
        return self._blocks.get(key)

    def insert(self, key: bytes, block: KVCacheBlock) -> None:
        self._blocks.setdefault(key, block)

    def pop(self, key: bytes, block_id: int) -> None:
        if key in self._blocks and self._blocks[key].block_id == block_id:
            del self._blocks[key]


class BlockPool:
    def __init__(self, num_gpu_blocks: int, enable_caching: bool, hash_block_size: int) -> None:
        self.num_gpu_blocks, self.enable_caching = num_gpu_blocks, enable_caching
        self.blocks = [KVCacheBlock(i, self) for i in range(num_gpu_blocks)]
        self.free_block_queue = FreeKVCacheBlockQueue(self.blocks)
        self.cached_block_hash_to_block = BlockHashToBlockMap()
        self.null_block = self.free_block_queue.popleft()
        self.null_block.is_null = True

    def get_num_free_blocks(self) -> int:
        return self.free_block_queue.num_free_blocks

    def _insert_block_hash(self, key: bytes, block: KVCacheBlock, num_tokens: int | None) -> None:
        block.block_hash = key
        self.cached_block_hash_to_block.insert(key, block)

    def _maybe_evict_cached_block(self, block: KVCacheBlock) -> bool:
        if block.block_hash is None:
            return False
        self.cached_block_hash_to_block.pop(block.block_hash, block.block_id)
        block.block_hash = None
        return True

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > self.get_num_free_blocks():
            raise ValueError(f"Cannot get {num_blocks} free blocks from the pool")
        blocks = self.free_block_queue.popleft_n(num_blocks)
        for block in blocks:
            self._maybe_evict_cached_block(block)
            assert block.ref_cnt == 0
            block.ref_cnt = 1
        return blocks

    def touch(self, blocks: Sequence[KVCacheBlock]) -> None:
        for block in blocks:
            if block.ref_cnt == 0 and not block.is_null:
                self.free_block_queue.remove(block)
            block.ref_cnt += 1

    def free_blocks(self, ordered_blocks: Iterable[KVCacheBlock]) -> None:
        free = []
        for block in ordered_blocks:
            block.ref_cnt -= 1
            if block.ref_cnt == 0 and not block.is_null:
                free.append(block)
        self.free_block_queue.prepend_n([b for b in free if b.block_hash is None])
        self.free_block_queue.append_n([b for b in free if b.block_hash is not None])

    def reset_prefix_cache(self) -> bool:
        if self.num_gpu_blocks - self.get_num_free_blocks() != 1:
            return False
        self.cached_block_hash_to_block = BlockHashToBlockMap()
        for block in self.blocks:
            block.block_hash = None
        return True


def install() -> None:
    """Makes these importable by vLLM's names."""

    def module(name: str, **content: Any) -> Any:
        made = types.ModuleType(name)
        vars(made).update(content, __path__=[])
        sys.modules[name] = made
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, made)
        return made

    for package in ("vllm", "vllm.v1", "vllm.v1.core"):
        module(package)
    module("vllm.logger", init_logger=logging.getLogger)
    module("vllm.v1.core.kv_cache_utils", KVCacheBlock=KVCacheBlock, FreeKVCacheBlockQueue=FreeKVCacheBlockQueue)
    module("vllm.v1.core.block_pool", BlockPool=BlockPool)
