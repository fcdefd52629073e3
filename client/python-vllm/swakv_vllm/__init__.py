# SPDX-License-Identifier: Apache-2.0
"""vLLM on swakv pages: a plug-in of vLLM's group vllm.general_plugins. README.md says how to use it.

Where what is:

    settings  what the environment says
    seams     the places of vLLM that are replaced, and the shape that each must have
    plan      what of a vLLM configuration can run on swakv, and what it declares to the broker
    engine    the process EngineCore: attaches, and answers those who lack pages
    blocks    vLLM's block pool over pages that are taken and given back
    demand    how many blocks a scheduler's requests will take
    holder    taking and giving pages in batches; knows nothing of vLLM
    sweep     in which order pages are given; knows nothing of vLLM
    memory    the worker's process: joins the session, and makes vLLM's buffer from the pool
"""

from __future__ import annotations

from . import settings


class Refused(RuntimeError):
    """This vLLM, or this configuration of it, cannot run on swakv: the sentence says why."""


def register() -> None:
    """Called by vLLM in each of its processes. Attaches nothing: EngineCore does, when it knows what the model needs."""
    chosen = settings.read()
    if chosen is not None:
        from . import engine, memory

        engine.install(chosen)
        memory.install()


__all__ = ["Refused", "register"]
