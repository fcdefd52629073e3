# SPDX-License-Identifier: Apache-2.0
"""transformers 5 on swakv pages: `past_key_values=swakv.transformers.Cache(session, config)`.

::

    import swakv.transformers

    with swakv.transformers.attach(model.config, max_batch=4, max_seq=4096, dtype=model.dtype) as session:
        cache = swakv.transformers.Cache(session, model.config)
        model.generate(**inputs, past_key_values=cache)
        cache.close()
"""

from .cache import Cache
from .config import attach, model_of
from .graph import Graph

__all__ = ["Cache", "Graph", "attach", "model_of"]
