# SPDX-License-Identifier: Apache-2.0
"""An engine with a block pool of its own: it caches all it can, and gives what nothing refers to when others ask for it.

A prefix cache here has taken every page; another worker comes and is served. Wants a broker on the host backend:
swakvd --backend host --size 512M
"""

import subprocess
import sys

import swakv

GROUP = swakv.Group(layers=8, kv_heads=4, head_dim=64, page_tokens=16, dtype="bf16", form="joined")


class BlockPool:
    """Pages that requests use, and pages that only the cache keeps, oldest first."""

    def __init__(self, session: swakv.Session) -> None:
        self.session, self.pages = session, session.pages()
        self.cached: list[int] = []

    def cache_everything(self) -> None:
        while True:
            try:
                self.cached += self.pages.take(1, swakv.MAX_PAGES, overwrites=True)
            except swakv.NoPages:
                break
        self.pages.offer(len(self.cached))  # nothing refers to them: they are asked for first

    def serve_others(self) -> int:
        """Gives what is wanted back, as far as no request needs it. Call it between steps, it costs a load."""
        n = min(self.pages.wanted.pages, len(self.cached))
        if n:
            given, self.cached = self.cached[:n], self.cached[n:]
            self.pages.give(given, self.session.stream().mark())  # behind all kernels that have read them
            self.pages.offer(len(self.cached))
        return n


def other() -> None:
    with swakv.attach(swakv.Model("other", [GROUP], max_seq=16)) as session:
        mine = session.pages().take(100, wait=60)
        print(f"the other one has {len(mine)} pages")
        session.pages().give(mine)


def main() -> None:
    with swakv.attach(swakv.Model("cacher", [GROUP], max_seq=16)) as session:
        pool = BlockPool(session)
        pool.cache_everything()
        before, given = len(pool.cached), 0
        worker = subprocess.Popen([sys.executable, __file__, "other"])
        while worker.poll() is None:
            given += pool.serve_others()
        print(f"{given} of {before} cached pages were given")
        sys.exit(worker.returncode)


if __name__ == "__main__":
    other() if len(sys.argv) > 1 else main()
