# SPDX-License-Identifier: Apache-2.0
"""A process that runs one vLLM engine for the tests: host.py OPTIONS ANSWERS. Commands are lines of JSON on standard input."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def pids() -> dict[str, int]:
    """The processes of the engine, by the names that they give themselves."""
    import psutil

    found = {}
    for child in psutil.Process().children(recursive=True):
        title = " ".join(child.cmdline())
        for name in ("EngineCore", "Worker"):
            if f"VLLM::{name}" in title:
                found[name] = child.pid
    return found


def main() -> None:
    options: dict[str, Any] = json.loads(sys.argv[1])
    answers = os.fdopen(int(sys.argv[2]), "w", buffering=1)

    from vllm import LLM, SamplingParams

    plain: dict[str, Any] = dict(
        skip_tokenizer_init=True, dtype="float32", enforce_eager=True, block_size=32, max_model_len=1024, max_num_seqs=24,
        max_num_batched_tokens=256, seed=0, disable_log_stats=False,
    )  # fmt: skip
    llm = LLM(**(plain | options))

    def generate(prompts: list[list[int]], tokens: int) -> list[list[int]]:
        parameters = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        out = llm.generate([{"prompt_token_ids": p} for p in prompts], parameters, use_tqdm=False)
        return [list(o.outputs[0].token_ids) for o in out]

    def metrics() -> dict[str, float]:
        return {m.name: m.value for m in llm.get_metrics() if hasattr(m, "value")}

    def capacity() -> dict[str, Any]:
        cache = llm.llm_engine.vllm_config.cache_config
        return {"blocks": cache.num_gpu_blocks, "tokens": cache.kv_cache_size_tokens}

    commands = {
        "generate": generate, "metrics": metrics, "pids": pids, "capacity": capacity, "reset": llm.reset_prefix_cache,
    }  # fmt: skip
    print(json.dumps({"answer": "started"}), file=answers)
    for line in sys.stdin:
        command = json.loads(line)
        begun = time.monotonic()
        try:
            answer = {"answer": commands[command.pop("do")](**command)}
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps({**answer, "seconds": time.monotonic() - begun}), file=answers)


if __name__ == "__main__":
    main()
