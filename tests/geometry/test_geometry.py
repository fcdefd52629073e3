#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""swakv-geometry reads the layer groups out of config.json files, counts right, and says what it cannot map.

The files beside this one hold the fields that matter of known models. What must come out stands here, computed anew.
"""
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

GEOMETRY = os.path.abspath(sys.argv[1])
HERE = pathlib.Path(__file__).resolve().parent
GIB = 1 << 30


def run(*arguments):
    return subprocess.run([GEOMETRY, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=HERE)


def sizes(path, *arguments):
    done = run("--json", *arguments, path)
    if done.returncode != 0:
        raise AssertionError(f"{path}: {done.stderr}")
    return json.loads(done.stdout)


def preset(name, *arguments):
    return sizes(HERE / f"{name}.json", *arguments)


def shapes(result):
    """(window or None, layers, kv heads, K dim, V dim) of each group."""
    return [(g["window"], g["layers"], g["kv_heads"], g["k_head_dim"], g["v_head_dim"]) for g in result["groups"]]


def same(window, layers, heads, dim):
    return (window, layers, heads, dim, dim)


PRESETS = {
    "gemma-2-2b": [same(4096, 13, 4, 256), same(None, 13, 4, 256)],
    "gemma-2-9b": [same(4096, 21, 8, 256), same(None, 21, 8, 256)],
    "gemma-2-27b": [same(4096, 23, 16, 128), same(None, 23, 16, 128)],
    "gemma-3-270m": [same(512, 15, 1, 256), same(None, 3, 1, 256)],
    "gemma-3-1b": [same(512, 22, 1, 256), same(None, 4, 1, 256)],
    "gemma-3-4b": [same(1024, 29, 4, 256), same(None, 5, 4, 256)],
    "gemma-3-12b": [same(1024, 40, 8, 256), same(None, 8, 8, 256)],
    "gemma-3-27b": [same(1024, 52, 16, 128), same(None, 10, 16, 128)],
    "gemma-3n-e2b": [same(512, 16, 2, 256), same(None, 4, 2, 256)],
    "gemma-3n-e4b": [same(512, 16, 2, 256), same(None, 4, 2, 256)],
    "gemma-4-e2b": [same(512, 12, 1, 256), same(None, 3, 1, 512)],
    "gemma-4-e4b": [same(512, 20, 2, 256), same(None, 4, 2, 512)],
    "gemma-4-12b": [same(1024, 40, 8, 256), same(None, 8, 1, 512)],
    "gemma-4-26b-a4b": [same(1024, 25, 8, 256), same(None, 5, 2, 512)],
    "gemma-4-31b": [same(1024, 50, 16, 256), same(None, 10, 4, 512)],
    "gpt-oss-20b": [same(128, 12, 8, 64), same(None, 12, 8, 64)],
    "gpt-oss-120b": [same(128, 18, 8, 64), same(None, 18, 8, 64)],
    "mistral-7b-v0.1": [same(4096, 32, 8, 128)],
    "mistral-7b-v0.3": [same(None, 32, 8, 128)],
    "ministral-8b-2410": [same(32768, 36, 8, 128)],
    "phi-3-mini-4k": [same(2047, 32, 32, 96)],
    "qwen2.5-7b": [same(None, 28, 4, 128)],
    "qwen2.5-32b": [same(None, 64, 8, 128)],
    "qwen2.5-32b-window": [same(None, 64, 8, 128)],  # max_window_layers 70 of 64
    "qwen2-window": [same(None, 20, 4, 128), same(4096, 8, 4, 128)],
    "command-r7b": [same(4096, 24, 8, 128), same(None, 8, 8, 128)],
    "command-a": [same(4096, 48, 8, 128), same(None, 16, 8, 128)],
    "tiny-aya": [same(4096, 27, 4, 128), same(None, 9, 4, 128)],
    "olmo-3-7b": [same(4096, 24, 32, 128), same(None, 8, 32, 128)],
    "olmo-3-32b": [same(4096, 48, 8, 128), same(None, 16, 8, 128)],
    "exaone-4.0-32b": [same(4096, 48, 8, 128), same(None, 16, 8, 128)],
    "mimo-v2-flash": [(None, 9, 4, 192, 128), (129, 39, 8, 192, 128)],  # its 128 do not count the current token
}
PRESETS["hunyuan-large"] = [same(None, 32, 8, 128)]  # of each two layers the second reads the first one's
LATENT = {"deepseek-v2-lite": (27, 512, 64), "deepseek-v3": (61, 512, 64), "minicpm3-4b": (62, 256, 32),
          "longcat-flash": (56, 512, 64)}  # layers, each of which keeps one row of so many elements a token
SHARED = {"gemma-3n-e2b": 10, "gemma-3n-e4b": 15, "gemma-4-e2b": 20, "gemma-4-e4b": 18, "hunyuan-large": 32}
UNMAPPABLE = {
    "llama-4-scout": "text_config.attention_chunk_size is 8192",
    "deepseek-v3.2": "index_topk is 2048: an indexer keeps keys of its own",
    "deepseek-v4-flash": "compress_ratios is [0,0,",
    "qwen3-next": 'layer_types[0] is "linear_attention"',
}

BASE = {"model_type": "mistral", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8,
        "num_key_value_heads": 2, "sliding_window": 256, "torch_dtype": "bfloat16", "max_position_embeddings": 8192}


def ceil(a, b):
    return -(-a // b)


def pages(window, p, seq, rule):
    """Pages that a sequence of a group reserves; rule: (n, D, R), n None for any."""
    width = ceil(seq, p)
    n, _, r = rule  # steps in flight cost nothing
    if window is None:
        return width
    if n is None:
        return min(2 * (ceil(window + r, p) + 1) + 1, width)
    return min(ceil(window + r + n - 1, p) + 1, width)


class Files(unittest.TestCase):
    """Writes configurations of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "config.json")

    def write(self, text):
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(text if isinstance(text, str) else json.dumps(text))
        return self.path

    def with_fields(self, **fields):
        return self.write({**BASE, **fields})

    def refused(self, code, sentence, path=None):
        done = run(path or self.path)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        self.assertIn(sentence, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class Presets(unittest.TestCase):
    def test_every_preset_has_the_groups_of_its_model(self):
        for name, groups in PRESETS.items():
            with self.subTest(name):
                result = preset(name)
                self.assertEqual(shapes(result), groups)
                self.assertEqual(result["shared_layers"], SHARED.get(name, 0))
                self.assertEqual({g["dtype"] for g in result["groups"]}, {"bf16"})

    def test_every_file_here_is_checked(self):
        self.assertEqual({p.stem for p in HERE.glob("*.json")}, set(PRESETS) | set(LATENT) | set(UNMAPPABLE))

    def test_sizes_are_those_of_the_formula(self):
        seq, pool, extent = 32768, 64 * GIB, 64 << 20
        for name, groups in PRESETS.items():
            for p in (16, 128):
                with self.subTest(name=name, page_tokens=p):
                    result = preset(name, "-P", p, "-t", seq, "-p", pool, "-a", 1, "-a", 500, "-f", 3, "-r", 7)
                    self.check(result, groups, p, seq, pool, extent)

    def check(self, result, groups, p, seq, pool, extent):
        strides = []
        for got, (_, layers, heads, k, v) in zip(result["groups"], groups, strict=True):
            strides.append(layers * p * heads * max(k, v) * 2)
            self.assertEqual(got["page_bytes"], strides[-1])
            self.assertEqual(got["bytes_per_token"], layers * heads * (k + v) * 2)
            self.assertEqual(got["padding_bytes"], 2 * strides[-1] - got["bytes_per_token"] * p)
            self.assertEqual(got["width"], ceil(seq, p))
            self.assertEqual(got["num_pages"], pool // 2 // strides[-1])
        self.assertEqual(result["bytes_per_token"], sum(g["bytes_per_token"] for g in result["groups"]))
        self.assertEqual([r["max_advance"] for r in result["sequence"]], ["any", 1, 500])
        for got, rule in zip(result["sequence"], ((None, 3, 7), (1, 3, 7), (500, 3, 7)), strict=True):
            need = [pages(g[0], p, seq, rule) for g in groups]
            self.assertEqual(got["pages"], need)
            self.assertEqual(got["bytes"], sum(2 * s * n for s, n in zip(strides, need, strict=True)))
            self.assertTrue(self.fits(got["sequences"], strides, need, pool // 2, extent))
            self.assertFalse(self.fits(got["sequences"] + 1, strides, need, pool // 2, extent))

    @staticmethod
    def fits(n, strides, need, half, extent):
        """Pages of each size lie one behind the other, at multiples of it, in extents of their own; the last may be
        short."""
        by_size = {}
        for stride, count in zip(strides, need, strict=True):
            by_size[stride] = by_size.get(stride, 0) + n * count

        def end(order):
            at = 0
            for stride in order:
                at = (ceil(ceil(at, extent) * extent, stride) + by_size[stride]) * stride
            return at

        return min(map(end, itertools.permutations(by_size))) <= half

    def test_worked_examples_of_the_documents(self):
        """gpt-oss, 131,072 tokens: 12 sliding layers of 5 pages of 256 KiB are 15 MiB, 12 full ones 3 GiB."""
        result = preset("gpt-oss-20b")
        sliding, full = result["groups"]
        self.assertEqual(result["sequence"][0]["pages"], [5, 1024])
        self.assertEqual(2 * sliding["page_bytes"] * 5, 15 << 20)
        self.assertEqual(2 * full["page_bytes"] * 1024, 3 * GIB)
        result = preset("gemma-3-27b", "--max-seq", 32768)
        self.assertEqual(2 * result["groups"][0]["page_bytes"] * result["sequence"][0]["pages"][0], 988 << 20)

    def test_text_for_people(self):
        done = run("-p", "64G", "-t", "32768", "gemma-4-31b.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, (HERE / "gemma-4-31b.txt").read_text(encoding="utf-8"))


class Latent(Files):
    """MLA: a row of kv_lora_rank + qk_rope_head_dim elements a token and layer, and no V."""

    def test_a_latent_row_is_a_joined_group_in_bytes(self):
        for name, (layers, rank, rope) in LATENT.items():
            with self.subTest(name):
                result = preset(name)
                (group,) = result["groups"]
                self.assertEqual({k: group[k] for k in ("window", "layers", "kv_heads", "k_head_dim", "v_head_dim", "form",
                                                        "k_row_bytes", "v_row_bytes", "dtype", "padding_bytes")},
                                 {"window": None, "layers": layers, "kv_heads": None, "k_head_dim": None,
                                  "v_head_dim": None, "form": "joined", "k_row_bytes": 2 * (rank + rope),
                                  "v_row_bytes": 0, "dtype": "bf16", "padding_bytes": 0})
                self.assertEqual(group["tag"], f"mla-{rank}+{rope}-bf16")

    def test_sizes_of_joined_pages_are_those_of_the_formula(self):
        """Ids count both halves as one run; no page lies over the middle."""
        for name, (layers, rank, rope) in LATENT.items():
            for p, pool in ((16, 64 * GIB), (128, 64 * GIB), (64, 3 * GIB + 32)):
                with self.subTest(name=name, page_tokens=p, pool=pool):
                    result = preset(name, "-P", p, "-t", 4096, "-p", pool)
                    (group,), page = result["groups"], layers * p * 2 * (rank + rope)
                    self.assertEqual(group["page_bytes"], page)
                    self.assertEqual(group["num_pages"], pool // page)
                    self.assertEqual(group["bytes_per_token"], page // p)
                    self.check_joined(result, page, ceil(4096, p), pool // 2)

    def check_joined(self, result, page, need, half):
        usable = half // page + 2 * half // page - ceil(half, page)
        self.assertEqual(result["sequence"][0]["pages"], [need])
        self.assertEqual(result["sequence"][0]["bytes"], need * page)
        self.assertEqual(result["sequence"][0]["sequences"], usable // need)

    def test_any_model_may_have_joined_pages(self):
        split = preset("mistral-7b-v0.3", "-t", 4096, "-p", 64 * GIB)
        joined = preset("mistral-7b-v0.3", "-t", 4096, "-p", 64 * GIB, "--form", "joined")
        self.assertEqual([g["form"] for r in (split, joined) for g in r["groups"]], ["split", "joined"])
        page = joined["groups"][0]["page_bytes"]
        self.assertEqual(page, 2 * split["groups"][0]["page_bytes"])
        self.assertEqual(joined["sequence"][0]["bytes"], split["sequence"][0]["bytes"])
        self.check_joined(joined, page, 32, 32 * GIB)

    def test_joined_pages_hold_k_and_v_of_any_size_without_padding(self):
        self.assertGreater(sum(g["padding_bytes"] for g in preset("mimo-v2-flash")["groups"]), 0)
        joined = preset("mimo-v2-flash", "--form=joined")
        self.assertEqual([g["padding_bytes"] for g in joined["groups"]], [0, 0])
        self.assertEqual([g["page_bytes"] for g in joined["groups"]], [9 * 128 * 4 * 320 * 2, 39 * 128 * 8 * 320 * 2])

    def test_a_latent_row_in_split_pages_leaves_the_v_half_empty(self):
        (group,) = preset("deepseek-v3", "--form=split")["groups"]
        self.assertEqual(group["padding_bytes"], group["page_bytes"])
        done = run("--form=split", "deepseek-v3.json")
        self.assertIn(f"there is no V; {group['page_bytes']} bytes of each pair of pages hold nothing", done.stdout)

    def test_text_of_a_latent_row(self):
        text = run("-t", "4096", "deepseek-v3.json").stdout
        self.assertIn("deepseek_v3, 61 layers, 61 with a latent row of their own, 70272 bytes a token\n", text)
        self.assertRegex(text, r"(?m)^ +0  full +-  +61  +0  +-  +576  +-  bf16  +70272  +8994816  +32$")
        self.assertIn("Page bytes are those of a whole, joined page.", text)
        self.assertIn("note: a token keeps one latent row a layer, 512 + 64 elements, and no V\n", text)

    def test_the_type_of_the_row_can_be_chosen(self):
        (group,) = preset("deepseek-v3", "--dtype=fp8")["groups"]
        self.assertEqual((group["k_row_bytes"], group["tag"], group["dtype"]), (576, "mla-512+64-fp8", "fp8"))

    def test_a_row_that_slides(self):
        self.with_fields(kv_lora_rank=64, qk_rope_head_dim=16, layer_types=["sliding_attention"] * 3 + ["full_attention"])
        self.assertEqual([(g["window"], g["layers"], g["k_row_bytes"]) for g in sizes(self.path)["groups"]],
                         [(256, 3, 160), (None, 1, 160)])

    def test_offsets_of_a_joined_page_count_the_last_id(self):
        """Pages of 2^20 bytes, offsets in bytes: id 2048 is the first beyond 31 bits."""
        self.with_fields(kv_lora_rank=1024, qk_rope_head_dim=0, sliding_window=None, num_hidden_layers=4)
        for pool, expected in (((2 << 30) + (1 << 20), 2048), (2 << 30, None)):
            (group,) = sizes(self.path, "-P", 128, "-p", pool)["groups"]
            self.assertEqual(group["page_bytes"], 1 << 20)
            self.assertEqual(group["first_overflowing_page"], expected)

    def test_a_joined_page_above_a_half_has_no_id(self):
        (group,) = preset("deepseek-v3", "-p", 12 << 20)["groups"]
        self.assertEqual(group["num_pages"], 0)

    def test_wrong_form(self):
        done = run("--form", "loose", "deepseek-v3.json")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--form needs split or joined, not", done.stderr)


class Shared(Files):
    """Layers that read another layer's K and V own nothing, and name it."""

    def test_shared_layers_read_the_last_of_their_kind(self):
        for name, first, sliding, full in (("gemma-3n-e2b", 20, 18, 19), ("gemma-3n-e4b", 20, 18, 19),
                                           ("gemma-4-e2b", 15, 13, 14), ("gemma-4-e4b", 24, 22, 23)):
            with self.subTest(name):
                donors = preset(name)["donors"]
                every = 5 if name != "gemma-4-e4b" else 6
                self.assertEqual(donors, [{"layer": i, "reads": full if i % every == every - 1 else sliding}
                                          for i in range(first, first + SHARED[name])])

    def test_the_first_of_each_two_layers_keeps_k_and_v(self):
        result = preset("hunyuan-large")
        self.assertEqual(result["donors"], [{"layer": i, "reads": i - 1} for i in range(1, 64, 2)])
        self.assertIn("of each 2 layers the first keeps K and V, and the others read them", result["notes"])

    def test_models_without_shared_layers_have_no_donors(self):
        self.assertEqual(preset("gemma-3-27b")["donors"], [])

    def test_layers_that_share_latent_rows(self):
        self.with_fields(kv_lora_rank=64, qk_rope_head_dim=16, sliding_window=None, use_cla=True, cla_share_factor=3)
        result = sizes(self.path)
        self.assertEqual([(g["layers"], g["k_row_bytes"]) for g in result["groups"]], [(2, 160)])
        self.assertEqual(result["donors"], [{"layer": 1, "reads": 0}, {"layer": 2, "reads": 0}])

    def test_a_layer_without_a_donor_of_its_kind_is_refused(self):
        sliding, full = "sliding_attention", "full_attention"
        self.with_fields(layer_types=[sliding, sliding, sliding, full], num_kv_shared_layers=1)
        self.refused(3, "layer 3 is to read the K and V of an earlier full layer, and no such layer keeps any")
        self.with_fields(layer_types=[sliding, full] * 2, use_cla=True, cla_share_factor=2)
        self.refused(3, "layer 1 is to read the K and V of an earlier full layer")

    def test_sharing_that_is_not_said_in_full(self):
        for fields, code, sentence in (
                ({"use_cla": True}, 1, "cla_share_factor is missing beside use_cla"),
                ({"cla_share_factor": 2}, 3, "cla_share_factor is 2, and nothing says whether layers share"),
                ({"use_cla": True, "cla_share_factor": 2, "num_kv_shared_layers": 1}, 3, "which of them counts"),
                ({"use_cla": 1, "cla_share_factor": 2}, 1, "use_cla is 1, expected true or false"),
                ({"use_cla": True, "cla_share_factor": 0}, 1, "cla_share_factor is 0, expected")):
            with self.subTest(fields):
                self.with_fields(sliding_window=None, **fields)
                self.refused(code, sentence)


class Refusals(Files):
    def test_what_cannot_be_mapped_is_said_plainly(self):
        for name, sentence in UNMAPPABLE.items():
            with self.subTest(name):
                self.refused(3, sentence, HERE / f"{name}.json")

    def test_other_ways_to_keep_k_and_v(self):
        sliding = "sliding_attention"
        for fields, sentence in (
                ({"attention_chunk_size": 4096}, "attention_chunk_size is 4096"),
                ({"layer_types": [sliding, sliding, sliding, "chunked_attention"]},
                 'layer_types[3] is "chunked_attention"'),
                ({"layer_types": [sliding, "mamba", sliding, sliding]}, 'layer_types[1] is "mamba"'),
                ({"full_attention_interval": 4}, "full_attention_interval is 4"),
                ({"attn_layer_period": 8}, "attn_layer_period is 8"),
                ({"is_encoder_decoder": True}, "is_encoder_decoder is true"),
                ({"num_kv_shared_layers": 4}, "num_kv_shared_layers is 4 of 4"),
                ({"use_bidirectional_attention": "all"}, "use_bidirectional_attention"),
                ({"torch_dtype": "float64"}, 'torch_dtype is "float64"'),
                ({"model_type": "llama4_text"}, "attention_chunk_size is that of its type")):
            with self.subTest(fields):
                self.with_fields(**fields)
                self.refused(3, sentence)

    def test_fields_that_are_off_refuse_nothing(self):
        self.with_fields(attention_chunk_size=None, kv_lora_rank=None, is_encoder_decoder=False, index_topk=0,
                         compress_ratios=[], block_configs=None)
        self.assertEqual(shapes(sizes(self.path)), [same(256, 4, 2, 64)])

    def test_wrong_values_are_named_with_their_field(self):
        for field in ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size",
                      "sliding_window", "max_position_embeddings", "v_head_dim", "sliding_window_pattern"):
            for value in (0, -1, 1.5, True, "12", [1], {"a": 1}, 10 ** 12):
                if field == "sliding_window_pattern" and value == "12":
                    continue
                if value == [1] and field in ("num_attention_heads", "num_key_value_heads", "head_dim"):
                    continue  # may be a list, with an entry for each layer
                with self.subTest(field=field, value=value):
                    self.with_fields(**{field: value})
                    self.refused(1, f"{field} is {json.dumps(value, separators=(',', ':'))}, expected")
        for field, value, text in (("use_sliding_window", "no", '"no"'), ("layer_types", "full", '"full"'),
                                   ("model_type", 3, "3"), ("torch_dtype", 16, "16"),
                                   ("sliding_window_pattern", "LXG", '"LXG"'), ("sliding_window_pattern", "", '""'),
                                   ("num_kv_shared_layers", -1, "-1"), ("text_config", 3, "3")):
            with self.subTest(field=field, value=value):
                self.with_fields(**{field: value})
                self.refused(1, f"{field} is {text}, expected")

    def test_lists_must_have_an_entry_for_each_layer(self):
        self.with_fields(layer_types=["full_attention"] * 5)
        self.refused(1, "layer_types has 5 entries, but num_hidden_layers is 4")
        self.with_fields(layer_types=["full_attention", 7, "full_attention", "full_attention"])
        self.refused(1, "layer_types[1] is 7, expected")
        self.with_fields(hybrid_layer_pattern=[0, 1, 2, 1])
        self.refused(1, "hybrid_layer_pattern[2] is 2, expected 0 (full) or 1 (sliding)")

    def test_a_layer_that_slides_needs_a_window(self):
        self.with_fields(sliding_window=None, layer_types=["full_attention"] * 3 + ["sliding_attention"])
        self.refused(1, "layer 3 slides, but sliding_window is null")

    def test_missing_fields_are_named(self):
        for fields, sentence in (({"num_hidden_layers": None}, "num_hidden_layers is missing"),
                                 ({"hidden_size": None}, "head_dim is missing, and so is hidden_size"),
                                 ({"hidden_size": 100}, "hidden_size 100 over num_attention_heads 8")):
            with self.subTest(fields):
                self.with_fields(**fields)
                self.refused(1, sentence)

    def test_what_is_no_json(self):
        for text, sentence in (("", "no JSON"), ("{", "no JSON"), ("[]", "not a JSON object"), ("3", "no JSON"),
                               ('{"a": 1, "a": 2}', "no JSON: duplicate object key"), ("{'a': 1}", "no JSON"),
                               ('{"\x1b[31m', "no JSON"), ("[" * 100000, "no JSON")):
            with self.subTest(text[:20]):
                self.write(text)
                self.refused(1, sentence)
                self.assertNotIn("\x1b", run(self.path).stderr)

    def test_what_is_no_file(self):
        self.refused(1, "No such file", "/nonexistent/config.json")
        self.refused(1, "Is a directory", HERE)

    def test_a_sequence_beyond_counting_is_refused(self):
        self.with_fields(num_hidden_layers=4096, head_dim=8192, num_key_value_heads=4096, torch_dtype="float32",
                         sliding_window=None, max_position_embeddings=2 ** 31 - 1)
        self.refused(1, "more bytes than 63 bits can count")

    def test_wrong_usage(self):
        config = str(HERE / "gpt-oss-20b.json")
        for arguments in ([], ["-P", "100", config], ["-P", "512", config], ["-t", "0", config],
                          ["-a", "-1", config], ["-p", "much", config], ["-d", "int8", config], ["--nonsense", config],
                          ["-a", "1"] * 9 + [config]):
            with self.subTest(arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stdout, "")


class Fields(Files):
    def test_null_and_absent_windows(self):
        self.with_fields(sliding_window=None)
        self.assertEqual(shapes(sizes(self.path)), [same(None, 4, 2, 64)])
        without = {k: v for k, v in BASE.items() if k != "sliding_window"}
        self.write(without)  # the default of the type
        self.assertEqual(shapes(sizes(self.path)), [same(4096, 4, 2, 64)])
        self.write({**without, "model_type": "llama"})
        self.assertEqual(shapes(sizes(self.path)), [same(None, 4, 2, 64)])

    def test_head_dim_and_kv_heads_may_be_left_out(self):
        self.with_fields(head_dim=None, num_key_value_heads=None, model_type="other", sliding_window=None)
        self.assertEqual(shapes(sizes(self.path)), [same(None, 4, 8, 64)])

    def test_a_pattern_makes_each_nth_layer_full(self):
        for pattern, full in ((1, 4), (2, 2), (3, 1), (4, 1), (5, 0), ("LG", 2), ("G", 4), ("LLL", 1)):
            with self.subTest(pattern):
                self.with_fields(sliding_window_pattern=pattern)
                layers = {g["kind"]: g["layers"] for g in sizes(self.path)["groups"]}
                self.assertEqual(layers.get("full", 0), full)
                self.assertEqual(layers.get("sliding", 0), 4 - full)

    def test_use_sliding_window_stands_above_all(self):
        self.with_fields(use_sliding_window=False, sliding_window=0, layer_types=["sliding_attention"] * 4)
        self.assertEqual(shapes(sizes(self.path)), [same(None, 4, 2, 64)])
        self.with_fields(use_sliding_window=False, sliding_window_pattern=2)
        self.assertEqual(shapes(sizes(self.path)), [same(None, 4, 2, 64)])

    def test_shared_layers_keep_nothing(self):
        self.with_fields(num_hidden_layers=10, num_kv_shared_layers=4, sliding_window_pattern=3)
        result = sizes(self.path)
        self.assertEqual([g["layers"] for g in result["groups"]], [4, 2])
        self.assertEqual(result["shared_layers"], 4)

    def test_a_chunk_size_beside_a_list_of_layers_is_no_chunk(self):
        self.with_fields(attention_chunk_size=128, hybrid_layer_pattern=[0, 1, 1, 0])
        self.assertEqual(shapes(sizes(self.path)), [same(None, 2, 2, 64), same(256, 2, 2, 64)])

    def test_heads_of_full_layers_count_only_where_v_is_made_of_k(self):
        full = {"layer_types": ["full_attention"] * 4, "num_global_key_value_heads": 1, "global_head_dim": 128}
        for fields, heads in (({}, 1), ({"attention_k_eq_v": True}, 1), ({"attention_k_eq_v": False}, 2)):
            with self.subTest(fields):
                self.with_fields(**full, **fields)
                self.assertEqual(shapes(sizes(self.path)), [same(None, 4, heads, 128)])

    def test_the_last_layer_of_gemma_4_is_full(self):
        self.with_fields(model_type="gemma4_text", head_dim=64, layer_types=["sliding_attention"] * 4)
        self.assertEqual(shapes(sizes(self.path)), [same(256, 3, 2, 64), same(None, 1, 2, 512)])

    def test_dtypes(self):
        for fields, dtype, size in (({"torch_dtype": "float16"}, "f16", 2),
                                    ({"torch_dtype": "torch.float32"}, "f32", 4),
                                    ({"dtype": "float8_e4m3fn", "torch_dtype": "float32"}, "fp8", 1),
                                    ({"torch_dtype": None}, "bf16", 2), ({"torch_dtype": "auto"}, "bf16", 2)):
            with self.subTest(fields):
                self.with_fields(**fields)
                group = sizes(self.path)["groups"][0]
                self.assertEqual((group["dtype"], group["page_bytes"]), (dtype, 4 * 128 * 2 * 64 * size))
        self.assertEqual(sizes(self.path, "-d", "fp8")["groups"][0]["dtype"], "fp8")


class Pools(Files):
    def test_offsets_beyond_32_bits_are_flagged_from_the_first_id_on(self):
        """One layer, one head of 128: 16,384 elements a page of 128 tokens; 2^31 elements are 131,072 pages."""
        self.with_fields(num_hidden_layers=1, num_key_value_heads=1, head_dim=128)
        page = 2 * 128 * 128
        for n, overflows in ((65536, False), (65537, True), (131072, True)):
            with self.subTest(n):
                group = sizes(self.path, "-p", 2 * n * page)["groups"][0]
                self.assertEqual(group["num_pages"], n)
                self.assertEqual(group["offset_overflow"], overflows)  # ids of V reach 2 n - 1
                self.assertEqual(group["first_overflowing_page"], 131072 if overflows else None)
        self.assertIn("more than 32 bits", run("-p", "64G", self.path).stdout)
        self.assertNotIn("more than 32 bits", run("-p", "1G", self.path).stdout)

    def test_extents_of_a_small_pool_are_a_64th_of_the_half(self):
        self.with_fields()
        for pool, extent in (("64G", 64 << 20), ("1G", 8 << 20), ("100M", 832 << 10), ("2M", 128 << 10)):
            with self.subTest(pool):  # of the last, a page is more than a 64th
                self.assertEqual(sizes(self.path, "-p", pool)["pool"]["extent_bytes"], extent)

    def test_the_last_id_of_v_may_be_the_first_that_overflows(self):
        """Three layers: 49,152 elements a page, so page 43,691 is the first beyond 2^31, and 2 n - 1 for n = 21,846."""
        self.with_fields(num_hidden_layers=3, num_key_value_heads=1, head_dim=128)
        page = 2 * 3 * 128 * 128
        for n, first in ((21845, None), (21846, 43691)):
            with self.subTest(n):
                group = sizes(self.path, "-p", 2 * n * page)["groups"][0]
                self.assertEqual((group["num_pages"], group["first_overflowing_page"]), (n, first))

    def test_a_page_may_be_as_large_as_an_extent(self):
        self.with_fields(sliding_window=128)
        page = 4 * 128 * 2 * 64 * 2
        for extent, above in ((page, False), (page - 2, True)):
            with self.subTest(extent):
                done = run("-t", 1024, "-p", 100 * page, "-e", extent, self.path)
                self.assertEqual("larger than an extent" in done.stdout, above, done.stdout)

    def test_as_many_sequences_as_fill_the_pool_and_no_byte_less(self):
        self.with_fields(sliding_window=128)
        sequence = sizes(self.path, "-t", 1024, "-p", "1G")["sequence"][0]["bytes"]
        for pool, n in ((10 * sequence, 10), (10 * sequence - 2, 9), (11 * sequence - 2, 10)):
            with self.subTest(pool):
                self.assertEqual(sizes(self.path, "-t", 1024, "-p", pool)["sequence"][0]["sequences"], n)

    def test_two_sizes_of_pages_take_whole_extents(self):
        """What is left of an extent serves no other size: as many as the extents of both are there for."""
        self.with_fields(num_hidden_layers=3, layer_types=["sliding_attention"] * 2 + ["full_attention"], sliding_window=128)
        small, large = 128 * 2 * 64 * 2, 2 * 128 * 2 * 64 * 2
        rule = sizes(self.path, "-t", 1024, "-p", "1G")["sequence"][0]
        need = [n * page for n, page in zip(rule["pages"], (large, small), strict=True)]
        extent = large * 5
        extents = sum(-(-3 * bytes_ // extent) for bytes_ in need)
        for n, fit in ((extents, 3), (extents - 1, 2)):
            with self.subTest(n):
                result = sizes(self.path, "-t", 1024, "-p", 2 * n * extent, "-e", extent)["sequence"][0]
                self.assertEqual(result["sequences"], fit, (rule, extents))

    def test_a_pool_of_less_than_a_page(self):
        self.with_fields()
        result = sizes(self.path, "-p", 1000)
        self.assertEqual([r["sequences"] for r in result["sequence"]], [0, 0])
        self.assertEqual(result["groups"][0]["num_pages"], 0)

    def test_a_pool_of_a_few_bytes_has_an_extent(self):
        self.with_fields()
        for pool in (1, 2, 3, 31, 127, 128, 129):
            with self.subTest(pool):
                self.assertEqual(sizes(self.path, "-p", pool)["groups"][0]["num_pages"], 0)

    def test_a_window_costs_no_more_than_the_sequence(self):
        """Capacity 256 below W=512: 2 pages."""
        self.with_fields(sliding_window=512)
        self.assertEqual([r["pages"] for r in sizes(self.path, "-t", 256)["sequence"]], [[2], [2]])

    def test_a_long_prompt_in_a_small_pool(self):
        """W=128, P=64: 90,000 tokens need 7 pages, or 3 when a step advances by one."""
        self.with_fields(sliding_window=128)
        page = 4 * 64 * 2 * 64 * 2
        result = sizes(self.path, "-P", 64, "-t", 90000, "-p", 2 * 7 * page, "-e", page)
        self.assertEqual([(r["pages"], r["sequences"]) for r in result["sequence"]], [([7], 1), ([3], 2)])

    def test_large_pages_are_split_into_equal_parts(self):
        whole = preset("gemma-4-31b", "-t", 32768, "-p", "64G")
        split = preset("gemma-4-31b", "-t", 32768, "-p", "64G", "-l", "10M")
        self.assertEqual([g["layers"] for g in split["groups"]], [10] * 6)
        self.assertEqual([g["part"] for g in split["groups"]], [0, 1, 2, 3, 4, 0])
        self.assertEqual([g["parts"] for g in split["groups"]], [5] * 5 + [1])
        self.assertTrue(all(g["page_bytes"] <= 10 << 20 for g in split["groups"]))
        self.assertEqual(split["bytes_per_token"], whole["bytes_per_token"])
        self.assertEqual([r["bytes"] for r in split["sequence"]], [r["bytes"] for r in whole["sequence"]])

    def test_a_split_that_cannot_be(self):
        for largest, sentence in (("1M", "a model has at most 8 groups"), ("1000", "one layer of it alone is larger")):
            with self.subTest(largest):
                done = run("-l", largest, HERE / "gemma-4-31b.json")
                self.assertEqual(done.returncode, 3)
                self.assertIn(sentence, done.stderr)


unittest.main(argv=sys.argv[:1], verbosity=2)
