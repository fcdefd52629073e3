#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""swakv-geometry knows the ways in which models say it: heads, layers, windows, states, and JSON as Python writes it.

Each test is named after what once came out wrong. The inputs hold no more than what matters.
"""
import json
import math
import os
import subprocess
import sys
import unittest

GEOMETRY = os.path.abspath(sys.argv[1])
FULL, SLIDING = "full_attention", "sliding_attention"


def run(text, *arguments):
    return subprocess.run([GEOMETRY, "--json", "--max-seq", "8192", *arguments, "-"], input=text, capture_output=True,
                          text=True, check=False)


class Kinds(unittest.TestCase):
    def result(self, config):
        done = run(config if isinstance(config, str) else json.dumps(config))
        self.assertEqual(done.returncode, 0, f"{config}: {done.stderr}")
        return json.loads(done.stdout)

    def groups(self, *expected, **config):
        """Groups (window or None, layers, KV heads, dimension of K, and of V where it differs)."""
        got = [(g["window"], g["layers"], g["kv_heads"], g["k_head_dim"], g["v_head_dim"])
               for g in self.result(config)["groups"]]
        self.assertEqual(got, [(*e, e[3]) if len(e) == 4 else e for e in expected], config)

    def refused(self, sentence, code=3, **config):
        done = run(json.dumps(config))
        self.assertEqual((done.returncode, done.stdout), (code, ""), f"{config}: {done.stderr}")
        self.assertIn(sentence, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def noted(self, part, **config):
        self.assertTrue(any(part in n for n in self.result(config)["notes"]), self.result(config)["notes"])


def plain(**more):
    return {"model_type": "new", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8, **more}


class Heads(Kinds):
    def test_heads_of_k_and_v_by_every_name(self):
        for name in ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "kv_n_heads", "kv_heads",
                     "attention_kv_heads", "num_attention_groups", "num_query_groups", "multi_query_group_num"):
            with self.subTest(name):
                self.groups((None, 4, 2, 64), **plain(**{name: 2}))
                self.groups((None, 4, 2, 64), model_type="outer", text_config=plain(**{name: 2}))
                self.refused(f"{name} is 0, expected", 1, **plain(**{name: 0}))

    def test_one_kv_head_where_multi_query_says_so(self):
        for fields, heads in (({"multi_query": True}, 1), ({"multi_query": False}, 8),
                              ({"multi_query_attention": True, "multi_query_group_num": 2}, 2),
                              ({"multi_query_attention": True}, 1),
                              ({"multi_query_attention": False, "multi_query_group_num": 2}, 8),
                              ({"group_query_attention": True, "num_query_groups": 4}, 4),
                              ({"group_query_attention": False, "num_query_groups": 4}, 8),
                              ({"n_shared_head": 4}, 2), ({"n_shared_head": 3}, 3),
                              ({"attention_head_type": "multiquery"}, 1),
                              ({"attention_head_type": "multihead"}, 8)):
            with self.subTest(fields):
                self.groups((None, 4, heads, 64), **plain(**fields))
        self.refused("multi_query is 1, expected true or false", 1, **plain(multi_query=1))

    def test_falcon_has_one_kv_head_but_in_its_newer_form(self):
        falcon = plain(model_type="falcon")
        for fields, heads in (({}, 1), ({"num_kv_heads": 8}, 1), ({"multi_query": False}, 8),
                              ({"multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 4}, 4),
                              ({"new_decoder_architecture": True}, 8), ({"multi_query": False, "num_kv_heads": 2}, 2)):
            with self.subTest(fields):
                self.groups((None, 4, heads, 64), **{**falcon, **fields})
        self.groups((None, 4, 8, 64), **plain(model_type="RefinedWeb", n_head_kv=8))
        self.groups((None, 4, 1, 64), **plain(model_type="RefinedWebModel", multi_query=True))

    def test_gpt_bigcode_has_one_kv_head_unless_told_otherwise(self):
        bigcode = {"model_type": "gpt_bigcode", "n_layer": 4, "n_head": 8, "n_embd": 512, "n_positions": 2048}
        self.groups((None, 4, 1, 64), **bigcode)
        self.groups((None, 4, 8, 64), **bigcode, multi_query=False)

    def test_attn_config_of_mpt_and_dbrx(self):
        mpt = {"model_type": "mpt", "d_model": 512, "n_heads": 8, "n_layers": 4}
        for inner, heads in (({}, 8), ({"attn_type": "multiquery_attention"}, 1),
                             ({"attn_type": "multihead_attention", "kv_n_heads": 2}, 8),
                             ({"attn_type": "grouped_query_attention", "kv_n_heads": 2}, 2)):
            with self.subTest(inner):
                self.groups((None, 4, heads, 64), **mpt, attn_config=inner)
        self.groups((None, 4, 2, 64), model_type="dbrx", d_model=512, n_heads=8, n_layers=4,
                    attn_config={"kv_n_heads": 2, "clip_qkv": 8})

    def test_head_dimension_by_every_name(self):
        for name in ("head_dim", "kv_channels", "attention_head_dim", "d_kv", "d_head", "dim_head",
                     "attention_head_size", "head_size"):
            with self.subTest(name):
                self.groups((None, 4, 2, 128), **plain(num_key_value_heads=2, **{name: 128}))

    def test_hidden_size_and_heads_by_every_name(self):
        for hidden in ("hidden_size", "n_embd", "n_embed", "d_model", "embed_dim", "model_dim", "dim"):
            for heads in ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"):
                with self.subTest(hidden=hidden, heads=heads):
                    self.groups((None, 4, 8, 64), **{"model_type": "new", "n_layers": 4, hidden: 512, heads: 8})

    def test_heads_that_differ_by_layer(self):
        """OpenELM: lists for queries and for K and V; DeciLM: one for K and V."""
        self.groups((None, 2, 3, 64), (None, 1, 4, 64), (None, 1, 5, 64), model_type="openelm", model_dim=1280,
                    num_transformer_layers=4, head_dim=64, num_query_heads=[12, 12, 16, 20], num_kv_heads=[3, 3, 4, 5])
        self.groups((None, 2, 4, 64), (None, 2, 2, 64), **plain(num_key_value_heads_per_layer=[4, 2, 2, 4]))
        self.groups((None, 2, 4, 64), (None, 2, 2, 64), **plain(num_key_value_heads=[4, 2, 2, 4]))
        self.groups((None, 3, 2, 64), (None, 1, 2, 128), **plain(num_key_value_heads=2, head_dim=[64, 64, 64, 128]))
        self.refused("num_kv_heads has 3 entries, but num_hidden_layers is 4", 1, **plain(num_kv_heads=[1, 2, 3]))
        self.refused("num_kv_heads[2] is 0, expected a whole number from 1", 1, **plain(num_kv_heads=[1, 2, 0, 1]))

    def test_query_heads_that_differ_by_layer_change_nothing(self):
        self.groups((None, 1, 2, 64), (512, 3, 2, 64), **plain(
            model_type="laguna", num_key_value_heads=2, head_dim=64, sliding_window=512,
            num_attention_heads_per_layer=[8, 16, 16, 16], layer_types=[FULL, SLIDING, SLIDING, SLIDING]))

    def test_blocks_that_a_search_left(self):
        """Nemotron-NAS: heads in a group, layers without attention or with another thing in its place."""
        def block(**attention):
            return {"attention": {"n_heads_in_group": None, "no_op": False, "replace_with_linear": False,
                                  "num_sink_tokens": None, "window_length": None, **attention}, "ffn": {}}
        nas = plain(model_type="nemotron-nas", num_key_value_heads=None)
        blocks = [block(n_heads_in_group=4), block(no_op=True), block(n_heads_in_group=8), block(n_heads_in_group=4)]
        self.groups((None, 2, 2, 64), (None, 1, 1, 64), **nas, block_configs=blocks)
        self.assertEqual(self.result({**nas, "block_configs": blocks})["layers_without_attention"], 1)
        self.groups((None, 3, 2, 64), (256, 1, 2, 64), **nas, block_configs=[
            *[block(n_heads_in_group=4)] * 3, block(n_heads_in_group=4, window_length=256)])
        self.groups((None, 1, 2, 64), **nas, block_configs=[block(n_heads_in_group=4),
                                                           *[block(replace_with_linear=True)] * 3])
        self.refused("block_configs[0].attention.num_sink_tokens", **nas, block_configs=[
            block(n_heads_in_group=4, num_sink_tokens=4)] * 4)
        self.refused("block_configs[0].attention.n_heads_in_group is missing", 1, **nas, block_configs=[block()] * 4)
        self.refused("block_configs has 3 entries", 1, **nas, block_configs=[block(n_heads_in_group=4)] * 3)
        self.refused("block_configs[2] is {}, expected an object with an attention", 1, **nas,
                     block_configs=[block(n_heads_in_group=4)] * 2 + [{}] * 2)

    def test_more_shapes_than_a_model_has_groups(self):
        self.refused("layer 8 is of the 9th shape: a model has at most 8 groups",
                     **plain(num_hidden_layers=9, num_key_value_heads=list(range(1, 10))))

    def test_two_names_that_contradict_each_other(self):
        self.refused("num_kv_heads is 2, but n_head_kv, which means the same, is 4", 1,
                     **plain(num_kv_heads=2, n_head_kv=4))
        self.refused("num_hidden_layers is 4, but n_layer, which means the same, is 5", 1, **plain(n_layer=5))
        self.groups((None, 4, 2, 64), **plain(num_kv_heads=2, n_head_kv=2, n_layer=4))

    def test_kv_heads_that_do_not_divide_the_heads_are_noted(self):
        self.noted("5 KV heads do not divide 16 attention heads",
                   **plain(num_attention_heads=16, num_key_value_heads=5))
        self.assertEqual(self.result(plain(num_key_value_heads=4, dtype="bfloat16"))["notes"], [])

    def test_sliding_layers_of_mimo_have_twice_the_heads(self):
        """As the library saves it; the hub's file says it itself, and has a window without the current token."""
        mimo = {"model_type": "mimo_v2_flash", "num_hidden_layers": 2, "hidden_size": 4096, "num_attention_heads": 64,
                "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128}
        self.groups((None, 1, 4, 192, 128), (129, 1, 8, 192, 128), **mimo, sliding_window=129,
                    layer_types=[FULL, SLIDING])
        hub = {**mimo, "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128, "sliding_window": 128,
               "sliding_window_size": 128, "hybrid_layer_pattern": [0, 1]}
        self.groups((None, 1, 4, 192, 128), (129, 1, 8, 192, 128), **hub)
        self.noted("taken as a window of 129", **hub)

    def test_per_layer_config_as_the_library_saves_it(self):
        gemma = plain(model_type="gemma4_text", head_dim=64, num_key_value_heads=4, sliding_window=512,
                      layer_types=[SLIDING, SLIDING, SLIDING, FULL])
        for key in ("3", "03"):
            self.groups((512, 3, 4, 64), (None, 1, 4, 128), **gemma, per_layer_config={key: {"head_dim": 128}})
        self.groups((512, 3, 4, 64), (None, 1, 1, 128), **gemma,
                    per_layer_config={"3": {"head_dim": 128, "num_key_value_heads": 1}})
        self.groups((512, 2, 4, 64), (None, 2, 4, 64), **gemma, per_layer_config={"1": {"sliding_window": None}})
        self.groups((512, 2, 4, 64), (64, 1, 4, 64), (None, 1, 4, 64), **gemma,
                    per_layer_config={"2": {"sliding_window": 64}})
        self.groups((512, 3, 4, 64), (None, 1, 4, 512), **gemma)  # the type's own
        self.refused("per_layer_config is", 1, **gemma, per_layer_config={"4": {"head_dim": 128}})
        self.refused("per_layer_config.3.head_dim is 0, expected", 1, **gemma, per_layer_config={"3": {"head_dim": 0}})

    def test_global_heads_of_gemma_4_count_where_v_is_made_of_k(self):
        gemma = plain(model_type="gemma4_text", head_dim=64, num_key_value_heads=4, global_head_dim=128,
                      num_global_key_value_heads=1, sliding_window=512, layer_types=[SLIDING, SLIDING, SLIDING, FULL])
        self.groups((512, 3, 4, 64), (None, 1, 4, 128), **gemma)
        self.groups((512, 3, 4, 64), (None, 1, 1, 128), **gemma, attention_k_eq_v=True)

    def test_other_heads_of_sliding_layers(self):
        self.groups((None, 1, 8, 128), (512, 3, 4, 64), model_type="step3p5", num_hidden_layers=4, hidden_size=4096,
                    num_attention_heads=64, num_attention_groups=8, head_dim=128, sliding_window=512,
                    layer_types=[FULL, SLIDING, SLIDING, SLIDING],
                    attention_other_setting={"num_attention_heads": 96, "num_attention_groups": 4, "head_dim": 64})


class Layers(Kinds):
    def test_layers_by_every_name(self):
        for name in ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers", "layers"):
            with self.subTest(name):
                self.groups((None, 7, 8, 64),
                            **{"model_type": "new", name: 7, "hidden_size": 512, "num_attention_heads": 8})

    def test_longest_sequence_by_every_name(self):
        for name in ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "max_seq_length",
                     "seq_length", "n_ctx", "max_context_length", "context_length", "model_max_length"):
            done = subprocess.run([GEOMETRY, "--json", "-"], input=json.dumps(plain(**{name: 1234})), text=True,
                                  capture_output=True, check=True)
            self.assertEqual(json.loads(done.stdout)["max_seq"], 1234, name)

    def test_a_file_without_a_longest_sequence_has_groups_all_the_same(self):
        done = subprocess.run([GEOMETRY, "--json", "-"], input=json.dumps(plain()), capture_output=True, text=True,
                              check=True)
        result = json.loads(done.stdout)
        self.assertEqual((result["max_seq"], result["sequence"], result["groups"][0]["width"]), (None, [], None))
        self.assertEqual(result["groups"][0]["page_bytes"], 4 * 128 * 8 * 64 * 2)
        done = subprocess.run([GEOMETRY, "-"], input=json.dumps(plain()), capture_output=True, text=True, check=True)
        self.assertIn("--max-seq", done.stdout)

    def test_entries_of_layers_that_predict_more_tokens_are_left_aside(self):
        types = [FULL, SLIDING, SLIDING, SLIDING, SLIDING]
        self.groups((None, 1, 8, 64), (64, 3, 8, 64), **plain(sliding_window=64, layer_types=types,
                                                              num_nextn_predict_layers=1))
        self.refused("layer_types has 5 entries", 1, **plain(sliding_window=64, layer_types=types))

    def test_what_an_inner_object_leaves_out_is_that_of_its_type(self):
        """As files of larger models do: the hub's LLaVA says no more of its language model."""
        self.groups((None, 32, 32, 128), model_type="llava", text_config={"model_type": "llama"})
        self.groups((None, 18, 1, 256), model_type="paligemma", text_config={
            "model_type": "gemma", "hidden_size": 2048, "num_hidden_layers": 18, "num_attention_heads": 8,
            "num_key_value_heads": 1, "use_bidirectional_attention": True})
        self.noted("in llama they are 32", model_type="llava", text_config={"model_type": "llama"})
        self.refused("num_hidden_layers is missing", 1, model_type="llava", text_config={
            "model_type": "llama", "num_hidden_layers": None})

    def test_what_a_file_of_its_own_leaves_out_is_missing(self):
        """Such a file has all fields of its class: one without is no such file, and a default would be a guess."""
        self.refused("num_hidden_layers is missing", 1, model_type="llama", hidden_size=512, num_attention_heads=8)
        self.refused("so is hidden_size", 1, model_type="bloom", n_layer=70, num_attention_heads=112)
        self.refused("num_key_value_heads and num_attention_heads are missing", 1, model_type="llama", n_layer=2)
        self.refused("num_key_value_heads is missing, and the 8 of its type do not divide the 12 heads", 1,
                     **{**plain(model_type="mixtral"), "num_attention_heads": 12})
        self.groups((None, 4, 8, 32), **{**plain(model_type="mixtral"), "num_attention_heads": 16})

    def test_layers_with_no_attention_keep_nothing(self):
        result = self.result(plain(layer_types=["moe", FULL, "mlp", FULL]))
        self.assertEqual(([g["layers"] for g in result["groups"]], result["layers_without_attention"]), ([2], 2))
        self.refused("no layer has an attention", **plain(layer_types=["mlp"] * 4))


class Windows(Kinds):
    def test_a_window_without_a_layout_is_never_that_of_all_layers(self):
        for more in ({}, {"model_type": "somebody-elses"}, {"max_position_embeddings": 4096},
                     {"global_attn_every_n_layers": 2}, {"architectures": ["NewForCausalLM"]}):
            with self.subTest(more):
                done = run(json.dumps(plain(sliding_window=256, **more) if "model_type" not in more else
                                      {**plain(sliding_window=256), **more}))
                self.assertEqual(done.returncode, 3, done.stdout)
        self.refused("sliding_window is 256, and nothing says which layers have it: layer_types is missing",
                     **plain(sliding_window=256))
        self.groups((None, 4, 8, 64), **plain(sliding_window=None))

    def test_types_that_do_not_slide_are_full_whatever_window_they_name(self):
        self.groups((None, 4, 8, 64), **plain(model_type="llama", sliding_window=256))
        self.noted("in llama all layers are full", **plain(model_type="llama", sliding_window=256))

    def test_types_in_which_all_layers_slide(self):
        for name in ("mistral", "mixtral", "phi3", "phimoe", "starcoder2", "ministral", "ministral3"):
            with self.subTest(name):
                self.groups((256, 4, 8, 64), **plain(model_type=name, sliding_window=256, num_key_value_heads=8,
                                                     head_dim=64))

    def test_layouts_that_only_the_type_knows(self):
        """full layers of 8, by type"""
        for name, full in (("afmoe", [3, 7]), ("cohere2", [3, 7]), ("olmo3", [3, 7]), ("gemma2", [1, 3, 5, 7]),
                           ("gpt_oss", [1, 3, 5, 7]), ("gemma3_text", [5]), ("vaultgemma", [1, 3, 5, 7]),
                           ("cwm", [0, 4]), ("granite_swa", [0, 4]), ("modernbert-decoder", [0, 3, 6]),
                           ("mimo_v2_flash", [0, 5]), ("beam", [5, 7]), ("flint", [0, 1, 5, 7]),
                           ("muse_spark_text", [3, 7]), ("kolibri1", [4])):
            with self.subTest(name):
                result = self.result(plain(model_type=name, num_hidden_layers=8, sliding_window=256,
                                           num_key_value_heads=8))
                layers = {g["kind"]: g["layers"] for g in result["groups"]}
                self.assertEqual(layers, {"full": len(full), "sliding": 8 - len(full)})
                firsts = {g["kind"]: g["first_layer"] for g in result["groups"]}
                self.assertEqual(firsts["full"], full[0])

    def test_every_nth_layer_is_full_by_the_direction_of_the_type(self):
        afmoe = plain(model_type="afmoe", num_hidden_layers=6, sliding_window=256, global_attn_every_n_layers=3)
        self.assertEqual([g["first_layer"] for g in self.result(afmoe)["groups"]], [0, 2])
        bert = {**afmoe, "model_type": "modernbert-decoder"}
        self.assertEqual([g["first_layer"] for g in self.result(bert)["groups"]], [0, 1])
        self.refused("global_attn_every_n_layers is 3: a key of attention that is not understood",
                     **{**afmoe, "model_type": "new"})

    def test_local_attention_of_modernbert_decoder_is_both_sides_together(self):
        bert = plain(model_type="modernbert-decoder", num_hidden_layers=3, global_attn_every_n_layers=3)
        self.groups((None, 1, 8, 64), (64, 2, 8, 64), **bert, local_attention=128)
        self.groups((None, 1, 8, 64), (64, 2, 8, 64), **bert)
        self.groups((None, 1, 8, 64), (32, 2, 8, 64), **bert, local_attention=128, sliding_window=32)

    def test_layers_of_qwen_and_of_its_mixtures(self):
        for name, counts in (("qwen2", {"full": 2, "sliding": 6}), ("dots1", {"full": 2, "sliding": 6}),
                             ("qwen2_moe", {"full": 7, "sliding": 1}), ("qwen3_moe", {"full": 2, "sliding": 6})):
            with self.subTest(name):
                config = plain(model_type=name, num_hidden_layers=8, num_key_value_heads=8, sliding_window=256,
                               use_sliding_window=True, max_window_layers=2)
                self.assertEqual({g["kind"]: g["layers"] for g in self.result(config)["groups"]}, counts)

    def test_layers_without_rotary_embedding_slide_in_smollm3(self):
        smol = plain(model_type="smollm3", num_key_value_heads=8, sliding_window=256)
        self.groups((None, 4, 8, 64), **smol)
        self.groups((None, 3, 8, 64), (256, 1, 8, 64), **smol, use_sliding_window=True)
        self.groups((256, 2, 8, 64), (None, 2, 8, 64), **smol, use_sliding_window=True, no_rope_layers=[0, 1, 0, 1])

    def test_gpt_neo_names_global_and_local_layers(self):
        neo = {"model_type": "gpt_neo", "num_layers": 4, "num_heads": 8, "hidden_size": 512, "window_size": 256}
        self.groups((None, 2, 8, 64), (256, 2, 8, 64), **neo)
        self.groups((None, 2, 8, 64), (256, 2, 8, 64), **neo, attention_types=[[["global", "local"], 2]])
        self.groups((256, 3, 8, 64), (None, 1, 8, 64), **neo, attention_layers=["local", "local", "local", "global"])
        self.refused("attention_types is", 1, **neo, attention_types=[[["global", "local"], 9]])

    def test_a_window_for_each_layer(self):
        self.groups((64, 1, 8, 64), (None, 2, 8, 64), (128, 1, 8, 64), **plain(sliding_window=[64, None, None, 128]))
        self.refused("sliding_window[1] is 0, expected null", 1, **plain(sliding_window=[64, 0, None, 128]))

    def test_two_windows_that_contradict_each_other(self):
        self.refused("sliding_window is 64, but sliding_window_size is 128", 1,
                     **plain(sliding_window=64, sliding_window_size=128, layer_types=[SLIDING] * 4))

    def test_a_key_of_attention_that_nobody_understands_is_named(self):
        for key, value in (("attention_window_pattern", [1, 0]), ("swa_layers", [1, 3]), ("kv_share_interval", 2),
                           ("local_attention_size", 128), ("hybrid_ratio", 0.5), ("mamba_everywhere", True),
                           ("num_key_value_groups", 4), ("window_size", 128), ("full_attention_layers", [0]),
                           ("attention_types", [[["global"], 4]]), ("swa_schedule", "LLG"), ("layer_sharing", True),
                           ("num_loops", 2), ("attention_sink_size", 4), ("num_kv_reuse_layers", 2)):
            with self.subTest(key):
                self.refused(f"{key} is {json.dumps(value, separators=(',', ':'))}", **plain(**{key: value}))
                self.groups((None, 4, 8, 64), **plain(**{key: None}))

    def test_a_key_that_nobody_understands_in_the_fields_of_a_layer(self):
        self.refused("attn_config.sliding_window_size", **plain(attn_config={"sliding_window_size": 128}))
        self.refused("attn_config.kv_groups is 2: a key", **plain(attn_config={"kv_groups": 2}))
        self.refused("per_layer_config.1.kv_lora_rank is 512: a key of attention that is not understood",
                     **plain(per_layer_config={"1": {"kv_lora_rank": 512}}))

    def test_keys_of_other_things_refuse_nothing(self):
        self.groups((None, 4, 8, 64), **plain(
            qkv_bias=True, clip_qkv=8, attention_bias=True, attention_dropout=0.1, mlp_layer_types=["dense"] * 4,
            moe_layer_interval=2, rope_parameters={"rope_theta": 1e6}, attn_logit_softcapping=50.0,
            vision_head_dim=64, image_window_size=14, _attn_implementation="sdpa", lm_head_bias=True,
            num_nextn_predict_layers=1, max_window_layers=28, cache_implementation="hybrid", dtype="bfloat16",
            attn_config={"sliding_window_size": -1, "attn_impl": "torch"}, add_swa_attention_sink_bias=True,
            dual_chunk_attention_config={"chunk_size": 262144}, use_cla=False, cla_share_factor=2,
            context_window_size=2048))


class OtherModels(Kinds):
    def test_encoders_keep_no_k_and_v(self):
        for name in ("bert", "roberta", "xlm-roberta", "distilbert", "deberta-v2", "electra", "modernbert",
                     "nomic_bert", "eurobert", "camembert", "vit", "dinov2", "siglip", "clip_text_model", "wav2vec2", "hubert",
                     "new_vision_model", "siglip_vision_model"):
            with self.subTest(name):
                self.refused("an encoder, which reads all tokens at once", **plain(model_type=name))
        self.refused("an encoder", model_type="clip", text_config=plain())
        self.refused("an encoder", **plain(model_type="t5", architectures=["T5EncoderModel"], is_encoder_decoder=True))
        self.refused("an encoder", **plain(architectures=["NewForMaskedLM"]))
        self.refused("an encoder", **plain(image_size=224, patch_size=16))

    def test_an_encoder_made_a_decoder_keeps_k_and_v(self):
        self.groups((None, 4, 8, 64), **plain(model_type="bert", is_decoder=True))
        self.refused("add_cross_attention is true", **plain(model_type="bert", is_decoder=True,
                                                            add_cross_attention=True))

    def test_attention_both_ways_keeps_no_k_and_v(self):
        self.refused("use_bidirectional_attention is true", **plain(model_type="gemma3_text",
                                                                    use_bidirectional_attention=True))
        self.refused("is_causal is false", **plain(is_causal=False))

    def test_decoders_of_encoders_are_refused_by_their_type_alone(self):
        for name in ("t5", "mt5", "bart", "whisper", "pegasus", "marian", "t5gemma", "trocr", "mllama_text_model"):
            with self.subTest(name):
                self.refused("also reads an encoder's K and V", **plain(model_type=name))
        self.refused("is_encoder_decoder is true", model_type="x", is_encoder_decoder=True, text_config=plain())

    def test_models_of_states_are_refused_as_such(self):
        for name in ("mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv6", "xlstm", "retnet"):
            with self.subTest(name):
                self.refused("a state is kept instead of K and V", model_type=name, hidden_size=4096,
                             num_hidden_layers=64, state_size=16)
        self.refused("ssm_cfg is {}: a state is kept instead of K and V", d_model=768, n_layer=24, ssm_cfg={})
        self.refused("state_size is 16", model_type="new", hidden_size=4096, num_hidden_layers=64, state_size=16)

    def test_hybrids_say_how_many_layers_keep_a_state(self):
        self.refused("full_attn_idxs names 2 of 4 layers: the others are convolutions",
                     **plain(model_type="lfm2", conv_L_cache=3, full_attn_idxs=[1, 3]))
        self.groups((None, 4, 8, 64), **plain(model_type="lfm2", conv_L_cache=3, full_attn_idxs=[0, 1, 2, 3]))
        for names in ("layer_types", "layers_block_type"):
            self.refused(f'{names}[1] is "mamba": 2 of 4 layers keep a state instead of K and V',
                         **plain(**{names: ["attention", "mamba", "attention", "mamba"]}, mamba_d_state=16))
        self.refused('layer_types[0] is "hybrid": 4 of 4 layers keep a state beside K and V',
                     **plain(model_type="falcon_h1", layer_types=["hybrid"] * 4))
        self.refused("hybrid_override_pattern[0] is M: 2 of 4 layers keep a state",
                     **plain(model_type="nemotron_h", hybrid_override_pattern="M*-M"))
        for name in ("jamba", "bamba", "zamba2", "granitemoehybrid", "recurrent_gemma", "qwen3_next", "lfm2_moe"):
            with self.subTest(name):
                self.refused("some layers keep a state instead of K and V", **plain(model_type=name))

    def test_hybrids_whose_list_has_attention_only_are_mapped(self):
        self.groups((None, 4, 2, 64), **plain(model_type="granitemoehybrid", num_key_value_heads=2,
                                              layer_types=["attention"] * 4, mamba_d_state=128, mamba_n_heads=8))
        self.groups((None, 2, 2, 64), **plain(model_type="nemotron_h", num_key_value_heads=2, ssm_state_size=128,
                                              hybrid_override_pattern="*-*E"))

    def test_a_list_of_ones_is_softmax_attention(self):
        self.groups((None, 4, 2, 64), **plain(model_type="minimax_m2", num_key_value_heads=2, head_dim=64,
                                              attn_type_list=[1] * 4))
        self.refused("attn_type_list[0] is 0 (linear attention): 3 of 4 layers keep a state",
                     **plain(model_type="minimax", attn_type_list=[0, 0, 0, 1]))

    def rows(self, *expected, **config):
        """Groups (window or None, layers, bytes of a latent row)."""
        groups = self.result(config)["groups"]
        self.assertEqual([(g["window"], g["layers"], g["k_row_bytes"]) for g in groups], [*expected], config)
        self.assertEqual({(g["form"], g["v_row_bytes"], g["kv_heads"]) for g in groups}, {("joined", 0, None)})

    def test_latent_rows_by_the_type_alone(self):
        for name, row in (("axk1", 1152), ("deepseek_v2", 1152), ("deepseek_v3", 1152), ("kimi_k2", 1152), ("minicpm3", 576),
                          ("glm4_moe_lite", 1152), ("mistral4", 640), ("sarvam_mla", 1152), ("youtu", 1152)):
            with self.subTest(name):
                self.rows((None, 4, row), **plain(model_type=name))
                self.noted(f"in {name} it is {row // 2 - (32 if name == 'minicpm3' else 64)}", **plain(model_type=name))
        self.rows((None, 8, 1152), model_type="longcat_flash", num_layers=4)
        self.rows((None, 56, 1152), model_type="outer", text_config={"model_type": "longcat_flash"})
        self.refused("num_layers is missing", 1, model_type="longcat_flash")

    def test_latent_rows_of_a_type_that_nobody_knows(self):
        self.rows((None, 4, 160), **plain(kv_lora_rank=64, qk_rope_head_dim=16, qk_nope_head_dim=128, qk_head_dim=144,
                                          v_head_dim=128, q_lora_rank=1536))
        self.rows((None, 4, 128), **plain(kv_lora_rank=64, qk_rope_head_dim=0))
        self.rows((None, 4, 160), model_type="new", text_config=plain(kv_lora_rank=64, qk_rope_head_dim=16))
        self.refused("qk_rope_head_dim is missing beside kv_lora_rank", 1, **plain(kv_lora_rank=64))
        self.refused("qk_rope_head_dim is -1, expected", 1, **plain(kv_lora_rank=64, qk_rope_head_dim=-1))
        self.refused("kv_lora_rank is true, expected", 1, **plain(kv_lora_rank=True, qk_rope_head_dim=16))
        self.refused("per_layer_config beside kv_lora_rank", **plain(kv_lora_rank=64, qk_rope_head_dim=16,
                                                                     per_layer_config={"1": {"head_dim": 32}}))

    def test_heads_where_the_file_says_that_there_is_no_latent_row(self):
        self.groups((None, 4, 8, 64), **plain(model_type="deepseek_v2", use_mla=False, kv_lora_rank=None,
                                              v_head_dim=0, qk_rope_head_dim=0))
        self.groups((None, 4, 8, 64), **plain(use_mla=False, kv_lora_rank=512, qk_nope_head_dim=128,
                                              qk_rope_head_dim=64))
        self.refused("kv_lora_rank is null, and use_mla is not false", **plain(model_type="deepseek_v3",
                                                                               kv_lora_rank=None))
        self.refused("qk_nope_head_dim is 128: a key of attention that is not understood", **plain(qk_nope_head_dim=128))

    def test_an_indexer_beside_a_latent_row_is_refused_by_the_type_alone(self):
        for name in ("deepseek_v32", "glm_moe_dsa", "axk2", "hy_v4", "dots3_note_text", "mistral_large4_text"):
            with self.subTest(name):
                self.refused("an indexer keeps keys of its own", **plain(model_type=name, kv_lora_rank=512,
                                                                         qk_rope_head_dim=64))

    def test_other_ways_to_keep_k_and_v_are_named(self):
        for name in ("indexed_attention", "deepseek_sparse_attention", "compressed_sparse_attention",
                     "heavily_compressed_attention", "reference_sliding_attention", "something_new"):
            with self.subTest(name):
                self.refused(f'layer_types[3] is "{name}"', **plain(layer_types=[FULL, FULL, FULL, name]))
        self.refused("layers run more than once", model_type="dory", num_hidden_layers=4)
        self.refused("layers run more than once", **plain(total_ut_steps=4))
        self.groups((None, 4, 8, 64), **plain(total_ut_steps=1))
        self.refused("dense_attention_every_n_layers is 2", **plain(dense_attention_every_n_layers=2))


class Text(Kinds):
    def test_numbers_that_python_writes_and_json_has_not(self):
        text = json.dumps(plain(model_type="llama", time_step_limit=[0.0, math.inf], loss=math.nan,
                                least=-math.inf, name="NaN, Infinity and \"-Infinity\"", model_max=10 ** 30))
        self.assertIn("Infinity]", text)
        self.assertEqual(self.result(text)["layers"], 4)

    def test_a_field_that_is_no_number_is_named(self):
        for value, shown in ((math.inf, '"Infinity"'), (-math.inf, '"-Infinity"'), (math.nan, '"NaN"'),
                             (10 ** 30, "1e30")):
            with self.subTest(shown):
                self.refused(f"num_hidden_layers is {shown}, expected a whole number", 1,
                             **plain(num_hidden_layers=value))

    def test_strings_are_left_alone(self):
        self.assertEqual(self.result(plain(model_type="a\\NaN\"Infinity"))["model_type"], "a\\NaN\"Infinity")
        done = run('{"a": Nan}')
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no JSON", done.stderr)

    def test_fp8_k_and_v_of_a_quantised_model(self):
        for scheme in ({"kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False}},
                       {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}, {"kv_cache_scheme": "FP8"}):
            config = plain(torch_dtype="bfloat16", quantization_config=scheme)
            self.assertEqual({g["dtype"] for g in self.result(config)["groups"]}, {"fp8"})
            self.noted("K and V are fp8", **config)
            self.noted("K and V are fp8", model_type="x", quantization_config=scheme, text_config=plain())
        self.noted("K and V are fp8", **plain(kv_cache_dtype="fp8_e4m3"))
        self.noted("K and V are fp8", **plain(compression_config={"kv_cache_scheme": {"num_bits": 8, "type": "float"}}))
        self.assertEqual(self.result(plain(dtype="float16", kv_cache_dtype="auto"))["groups"][0]["dtype"], "f16")
        weights = plain(torch_dtype="bfloat16", quantization_config={"quant_method": "fp8", "kv_cache_scheme": None})
        self.assertEqual({g["dtype"] for g in self.result(weights)["groups"]}, {"bf16"})
        self.refused("choose one with --dtype", **plain(
            quantization_config={"kv_cache_scheme": {"num_bits": 4, "type": "int"}}))


unittest.main(argv=sys.argv[:1], verbosity=2)
