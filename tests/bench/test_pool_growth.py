#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pool-growth prints its figures, and a page costs the engine a few bytes at the most; no test looks at a time."""
import json
import subprocess
import sys
import unittest

POOL_GROWTH = sys.argv[1]


class PoolGrowth(unittest.TestCase):
    def test_a_page_costs_a_few_bytes_at_the_most(self):
        f = json.loads(subprocess.run([POOL_GROWTH], capture_output=True, text=True, check=True).stdout)
        self.assertLess(f["memory_10m_pages_bytes"], 20 * 10000000)
        for part in ("begin", "prefill", "step", "finish"):
            self.assertGreater(f[f"pool_{part}_1e7_over_1e3"], 0)
            self.assertGreater(f[f"pool_1e7_{part}_ns"], 0)


unittest.main(argv=sys.argv[:1], verbosity=2)
