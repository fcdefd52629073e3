# SPDX-License-Identifier: Apache-2.0
"""Decodes 300 tokens after a prompt of 1,000, and says in which page the last one is.

Wants a broker on the host backend: swakvd --backend host --size 512M
"""

import swakv

model = swakv.Model(
    "first",
    [swakv.Group(layers=4, kv_heads=2, head_dim=64, window=512, page_tokens=64, dtype="f32")],
    max_batch=8,
    max_seq=4096,
)

with swakv.attach(model) as session, session.begin(slots=[3]) as request:
    with request.prefill(1000):
        pass  # the kernels of the prompt go here; they read the table at session.layouts[0].table
    for _ in range(300):
        with request.step():
            pass  # the kernels of one token
    last = request.sequence(0)
    print(f"token {last.endpoint - 1} is in page {last.bindings[(last.endpoint - 1) // last.page_tokens]}")
