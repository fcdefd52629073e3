#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What swakv-geometry prints to paste is taken by the broker and the library, and all three count alike."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

GEOMETRY, SWAKVD, CC, *INCLUDES = sys.argv[1:]
GEOMETRY, SWAKVD = os.path.abspath(GEOMETRY), os.path.abspath(SWAKVD)
HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20
PLAIN = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8,
         "max_position_embeddings": 8192, "dtype": "bfloat16"}


def run(*arguments, text=None):
    return subprocess.run([GEOMETRY, *map(str, arguments)], input=text, capture_output=True, text=True, check=False,
                          cwd=HERE)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
        return path

    def good(self, *arguments, text=None):
        done = run(*arguments, text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def broker(self, ini, *arguments):
        return subprocess.run([SWAKVD, "--backend=host", "-c", self.write("broker.ini", ini), *arguments],
                              capture_output=True, text=True, check=False)


class Paste(Folder):
    def test_the_section_has_all_groups_and_the_broker_takes_it(self):
        for name in ("gemma-3-27b", "gpt-oss-20b", "mimo-v2-flash", "gemma-4-e2b", "qwen2.5-7b", "mistral-7b-v0.1"):
            with self.subTest(name):
                ini = self.good("--ini", "-t", 32768, "-B", 4, f"{name}.json")
                self.assertTrue(ini.startswith(f"[model {name}]\n"), ini)
                groups = json.loads(self.good("--json", f"{name}.json"))["groups"]
                said = [dict(w.split("=") for w in line.split() if w.count("=") and w != "=")
                        for line in ini.splitlines() if line.startswith("group = ")]
                self.assertEqual([(g.get("window", "None"), g["layers"], g["kv_heads"], g["head_dim"],
                                   g.get("v_head_dim", g["head_dim"]), g["dtype"]) for g in said],
                                 [tuple(str(g[k]) for k in ("window", "layers", "kv_heads", "k_head_dim", "v_head_dim",
                                                            "dtype")) for g in groups])
                done = self.broker(ini, "--check-config")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_section_of_a_latent_row_says_bytes_form_and_tag(self):
        ini = self.good("--ini", "-t", 32768, "-B", 4, "deepseek-v3.json")
        self.assertIn("group = full page_tokens=128 layers=61 k_bytes=1152 form=joined tag=mla-512+64-bf16\n", ini)
        self.assertEqual(self.broker(ini, "--check-config").returncode, 0)
        ini = self.good("--ini", "--form=joined", "-t", 32768, "gpt-oss-20b.json")
        self.assertEqual(len(re.findall(r" dtype=bf16 form=joined\n", ini)), 2)
        self.assertEqual(self.broker(ini, "--check-config").returncode, 0)

    def test_tool_and_broker_count_joined_pages_the_same(self):
        answers = set()
        for name, form in (("deepseek-v3", []), ("minicpm3-4b", []), ("gemma-3-27b", ["--form=joined"]),
                           ("mimo-v2-flash", ["--form=joined"])):
            for tokens in (16, 256):
                ini = self.good("--ini", *form, "-P", tokens, "-t", 4096, "-B", 1, f"{name}.json")
                bytes_ = json.loads(self.good("--json", *form, "-P", tokens, "-t", 4096,
                                              f"{name}.json"))["sequence"][0]["bytes"]
                for pool in (1008 * MIB, 64 << 30, bytes_, bytes_ * 17 // 16 // 16 * 16):
                    with self.subTest(name=name, page_tokens=tokens, pool=pool):
                        answers.add(self.count_both(name, tokens, ini, pool - pool % 32, *form))
        self.assertEqual(answers, {True, False})

    def test_tool_and_broker_count_the_same(self):
        """Extents, pages, what a sequence of any steps reserves, and whether one fits: of pools small and large, and of
        small and large pages, and at the very number of pages that a sequence needs."""
        answers = set()
        for name in ("gpt-oss-20b", "gemma-3-27b", "gemma-3-1b", "mimo-v2-flash", "gemma-4-31b"):
            for tokens in (16, 64, 256):
                ini = self.good("--ini", "-P", tokens, "-t", 4096, "-B", 1, f"{name}.json")
                bytes_ = json.loads(self.good("--json", "-P", tokens, "-t", 4096, f"{name}.json"))["sequence"][0]["bytes"]
                for pool in (1008 * MIB, 64 << 30, 1 << 40, bytes_, bytes_ + 16 * 77, bytes_ * 17 // 16 // 16 * 16):
                    with self.subTest(name=name, page_tokens=tokens, pool=pool):
                        answers.add(self.count_both(name, tokens, ini, pool - pool % 32))
        self.assertEqual(answers, {True, False})

    def count_both(self, name, tokens, ini, pool, *form):
        counted = json.loads(self.good("--json", *form, "-P", tokens, "-t", 4096, "-p", pool, f"{name}.json"))
        done = self.broker(ini, "--dry-run", f"--size={pool + 64 * MIB}", "--table-area=64M")
        extent = int(re.search(r"extents of (\d+) bytes", done.stdout)[1])
        self.assertEqual(extent, counted["pool"]["extent_bytes"])
        needs = [tuple(map(int, n)) for n in re.findall(r" needs (\d+) of (\d+) pages", done.stdout)]
        self.assertEqual([n for n, _ in needs], counted["sequence"][0]["pages"])
        self.assertEqual([n for _, n in needs], [g["num_pages"] for g in counted["groups"]])
        self.assertIn(f" {counted['sequence'][0]['bytes']} bytes", done.stdout)
        self.assertEqual(": fits;" in done.stdout, counted["sequence"][0]["sequences"] > 0, done.stdout)
        return counted["sequence"][0]["sequences"] > 0

    def test_tokens_that_may_be_taken_back_cost_pages_whatever_the_steps(self):
        config = json.dumps({**PLAIN, "model_type": "mistral", "sliding_window": 256})
        results = [json.loads(self.good("--json", "-P", 64, "-r", rewind, "-", text=config)) for rewind in (0, 64)]
        pages = [[r["pages"] for r in result["sequence"]] for result in results]
        self.assertEqual(pages, [[[11], [5]], [[13], [6]]])
        self.assertIn("any, max_rewind 64: pages 13", self.good("-P", 64, "-r", 64, "-", text=config))

    def test_the_initialisers_compile_and_hold_the_same(self):
        source = self.good("--c", "-a", 4, "-f", 3, "-r", 5, "-B", 7, "-t", 9000, "mimo-v2-flash.json")
        self.write("check.c", f"""
#include <swakv/swakv.h>
{source}
int main(void)
{{
    const struct swakv_model *m = &mimo_v2_flash;
    const struct swakv_group *full = &m->groups[0], *sliding = &m->groups[1];

    return !(m->n_groups == 2 && m->max_batch == 7 && m->max_seq == 9000 && m->max_advance == 4 &&
         m->in_flight == 3 && m->max_rewind == 5 && full->kind == SWAKV_FULL && full->window == 0 &&
         full->layers == 9 && full->kv_heads == 4 && full->head_dim == 192 && full->v_head_dim == 128 &&
         sliding->kind == SWAKV_SLIDING && sliding->window == 129 && sliding->layers == 39 &&
         sliding->kv_heads == 8 && sliding->page_tokens == 128 && sliding->dtype == SWAKV_BF16);
}}
""")
        self.compiled()

    def test_the_initialisers_of_a_latent_row_compile_and_hold_the_same(self):
        source = self.good("--c", "-t", 9000, "deepseek-v3.json") + self.good("--c", "--form=joined", "gpt-oss-20b.json")
        self.write("check.c", f"""
#include <string.h>
#include <swakv/swakv.h>
{source}
int main(void)
{{
    const struct swakv_group *g = deepseek_v3.groups;

    return !(deepseek_v3.n_groups == 1 && g->kind == SWAKV_FULL && g->layers == 61 && g->k_bytes == 1152 &&
         g->v_bytes == 0 && g->kv_heads == 0 && g->head_dim == 0 && g->dtype == 0 && g->form == SWAKV_JOINED &&
         strcmp(g->tag, "mla-512+64-bf16") == 0 && gpt_oss_20b.groups[1].form == SWAKV_JOINED &&
         gpt_oss_20b.groups[1].kv_heads == 8 && !gpt_oss_20b.groups[1].tag);
}}
""")
        self.compiled()

    def compiled(self):
        program = self.folder / "check"
        subprocess.run([*CC.split(), "-Wall", "-Wextra", "-Werror", "-std=c11", *(f"-I{i}" for i in INCLUDES),
                        self.folder / "check.c", "-o", program], check=True)
        self.assertEqual(subprocess.run([program], check=False).returncode, 0)

    def test_names_fit_both(self):
        for path, name, identifier in (("My Model/config.json", "My_Model", "My_Model"), ("7b.json", "7b", "_7b"),
                                       (".hidden/config.json", "_hidden", "_hidden"), ("a;b].x", "a_b_.x", "a_b__x"),
                                       ("x" * 90 + ".json", "x" * 43, "x" * 43)):
            with self.subTest(path):
                self.write(path, PLAIN)
                ini = self.good("--ini", self.folder / path)
                self.assertTrue(ini.startswith(f"[model {name}]\n"), ini)
                self.assertEqual(self.broker(ini, "--check-config").returncode, 0)
                self.assertIn(f"swakv_model {identifier} = {{", self.good("--c", self.folder / path))
        self.assertTrue(self.good("--ini", "-", text=json.dumps(PLAIN)).startswith("[model llama]\n"))

    def test_what_a_file_does_not_say_is_asked_for(self):
        text = json.dumps({**PLAIN, "model_type": "new", "max_position_embeddings": None})
        for form in ("--c", "--ini"):
            done = run(form, "-", text=text)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("say --max-seq", done.stderr)

    def test_notes_are_not_pasted(self):
        done = run("--ini", "gemma-3-27b.json")
        self.assertNotIn("note", done.stdout)
        self.assertIn("note: the file does not say which layers slide", done.stderr)


class Files(Folder):
    def test_several_files_are_shown_one_after_another(self):
        one, two = self.good("gpt-oss-20b.json"), self.good("olmo-3-7b.json")
        self.assertEqual(self.good("gpt-oss-20b.json", "olmo-3-7b.json"), one + "\n" + two)
        objects = self.good("--json", "gpt-oss-20b.json", "olmo-3-7b.json")
        first, end = json.JSONDecoder().raw_decode(objects)
        second = json.loads(objects[end:])
        self.assertEqual((first["file"], second["file"]), ("gpt-oss-20b.json", "olmo-3-7b.json"))

    def test_a_bad_file_among_several_does_not_hide_the_others(self):
        for bad, status in (("nosuch.json", 1), ("deepseek-v3.2.json", 3)):
            with self.subTest(bad):
                done = run("gpt-oss-20b.json", bad, "olmo-3-7b.json")
                self.assertEqual(done.returncode, status)
                self.assertEqual(done.stdout, self.good("gpt-oss-20b.json", "olmo-3-7b.json"))
                self.assertIn(bad, done.stderr)
        self.assertEqual(run("deepseek-v3.2.json", "nosuch.json").returncode, 3)

    def test_standard_input(self):
        text = (HERE / "gpt-oss-20b.json").read_text(encoding="utf-8")
        self.assertEqual(self.good("-", text=text).replace("-:", "gpt-oss-20b.json:", 1), self.good("gpt-oss-20b.json"))
        done = run("-", text="{")
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard input: no JSON", done.stderr)
        done = run("-", "-", text=text)
        self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_options_that_would_be_ignored_are_wrong_usage(self):
        for options, sentence in ((["--extent", "1M"], "--size is needed"), (["--max-batch", "4"], "--c and --ini"),
                                  (["--ini", "--size", "1G"], "--size"), (["-p", "1G", "-e", "513M"], "a half of the pool"),
                                  (["--json", "-B", "4"], "--c and --ini")):
            with self.subTest(options):
                done = run(*options, "gpt-oss-20b.json")
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(sentence, done.stderr)
        self.good("-p", "1G", "-e", "512M", "gpt-oss-20b.json")

    def test_one_form_at_a_time(self):
        for forms in (("--json", "--c"), ("--c", "--ini"), ("--ini", "-j")):
            done = run(*forms, "gpt-oss-20b.json")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("only one of", done.stderr)
        for batch in ("0", "4097", "many"):
            self.assertEqual(run("-B", batch, "--ini", "gpt-oss-20b.json").returncode, 2)


unittest.main(argv=sys.argv[:1], verbosity=2)
