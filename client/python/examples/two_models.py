# SPDX-License-Identifier: Apache-2.0
"""Two workers with different models on one broker; one is killed, the other does not notice, and its pages come back.

Wants a broker on the host backend, and NumPy: swakvd --backend host --size 512M
"""

import subprocess
import sys
import time

import numpy as np

import swakv

MODELS = {
    "small": swakv.Group(layers=2, kv_heads=2, head_dim=64, window=512, page_tokens=64, dtype="f32"),
    "large": swakv.Group(layers=4, kv_heads=4, head_dim=64, window=1024, page_tokens=128, dtype="f32"),
}


def attach(name: str) -> swakv.Session:
    return swakv.attach(swakv.Model(name, [MODELS[name]], max_batch=8, max_seq=1 << 20))


def decode(session: swakv.Session, tokens: int | None) -> int:
    """Writes each token's number into K, reads what the window still holds, and counts what is wrong."""
    layout = session.layouts[0]
    k, table = np.asarray(layout.k_pages), np.asarray(layout.table)
    row, wrong, token = table[0, 0], 0, 1
    with session.begin(slots=[0]) as request:
        with request.prefill(1):
            k[row[0], 0, 0] = 0
        while tokens is None or token < tokens:
            with request.step():
                k[row[token // layout.page_tokens], 0, token % layout.page_tokens] = token
                old = max(0, token - layout.window + 1)
                wrong += int((k[row[old // layout.page_tokens], 0, old % layout.page_tokens] != old).sum())
            token += 1
    return wrong


def worker(name: str) -> None:
    with attach(name) as session:
        print("attached", flush=True)
        decode(session, None)


def main() -> None:
    with attach("small") as session:
        other = subprocess.Popen([sys.executable, __file__, "large"], stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        other.stdout.readline()
        wrong = decode(session, 5000)
        other.kill()
        other.wait()
        wrong += decode(session, 5000)
        pages = session.layouts[0].num_pages
        end = time.monotonic() + 60
        while session.free_pages() < pages * 9 // 10 and time.monotonic() < end:
            time.sleep(0.05)
        print(f"{wrong} values were wrong; {session.free_pages()} of {pages} pages are free again")


if __name__ == "__main__":
    worker(sys.argv[1]) if len(sys.argv) > 1 else main()
