# SPDX-License-Identifier: Apache-2.0
"""What the environment says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """broker: the instance's name. model: key of its floor and ceiling; None: the name under which vLLM serves the model.

    required: without the broker vLLM does not start, instead of using memory of its own.
    """

    broker: str
    model: str | None
    required: bool


def read(environ: Mapping[str, str] = os.environ) -> Settings | None:
    """None: swakv is not asked for."""
    broker, required = environ.get("SWAKV_BROKER", ""), environ.get("SWAKV_REQUIRED", "0")
    if required not in ("", "0", "1"):
        raise ValueError(f"SWAKV_REQUIRED is {required!r}; wanted: 1 (vLLM does not start without the broker) or 0")
    if not broker:
        if required == "1":
            raise ValueError("SWAKV_REQUIRED is 1, and SWAKV_BROKER does not name a broker")
        return None
    return Settings(broker, environ.get("SWAKV_MODEL") or None, required == "1")
