/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_scenario.c - the reader of scenario files
 *
 * The input is either the file itself or a choice of statements, keys and
 * values to make one of. A file is refused with a line and a sentence, or every
 * statement has what the player takes for granted.
 */
#include "input.h"
#include "script.h"

enum { TEXT_SIZE = 8192 };

/* A head that is right, so that statements behind it are reached. */
static const char head[] = "broker backend=host pages=40\nmodel m window=16 page_tokens=16 max_batch=4 max_seq=256\n"
			   "attach A model=m\nbegin A r slots=0,1\n";

static const char *const words[] = {
	"broker",
	"model",
	"attach",
	"detach",
	"kill",
	"stop",
	"cont",
	"begin",
	"prefill",
	"prefill_prepare",
	"prefill_complete",
	"decode",
	"decode_prepare",
	"decode_complete",
	"extend",
	"rewind",
	"compact",
	"compact_begin",
	"compact_complete",
	"signal",
	"finish",
	"abandon",
	"shutdown",
	"remember",
	"expect",
	"row",
	"state",
	"request",
	"private_pages",
	"last_updates",
	"same_pages",
	"disjoint",
	"A",
	"B",
	"m",
	"r",
	"s",
	"x",
	"->",
	"error=limit",
	"error=",
	"A=5",
	"slots=0..3",
	"slots=",
	"lens=1,2",
	"lens=4x",
	"map=1,-1,0",
	"new=2",
	"rows=move",
	"fence=pending",
	"fence=done",
	"steps=3",
	"max_tokens=9",
	"free=1",
	"leased=2",
	"quarantined=0",
	"slot=1",
	"slot=9",
	"mapped=none",
	"mapped=1..3",
	"group=0",
	"group=7",
	"seq=1",
	"endpoint=5",
	"begin=0",
	"end=1",
	"pending=none",
	"pending=yes",
	"phase=executing",
	"valid=no",
	"open=1",
	"entries=4",
	"as=x",
	"model=m",
	"model=n",
	"window=0",
	"groups=128,full",
	"groups=9",
	"max_batch=0",
	"max_seq=-1",
	"page_tokens=4294967295",
	"layers=4294967295",
	"kv_heads=4294967295",
	"head_dim=4294967295",
	"dtype=f32",
	"bytes=99T",
	"pages=2147483647",
	"backend=host",
	"a=b",
	"#",
	"=",
};

/* Makes a file of the input's choices. Returns its length. */
static size_t make_text(char *text, struct input *in)
{
	size_t len = sizeof(head) - 1;

	memcpy(text, head, len);
	while (in->left > 0 && len < TEXT_SIZE - 128) {
		uint8_t choice = input_u8(in);

		if (choice >= 224)
			text[len++] = '\n';
		else
			len += (size_t)sprintf(text + len, "%s ", words[choice % (sizeof(words) / sizeof(words[0]))]);
	}
	return len;
}

static bool text_is_printable(const char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return len > 0;
}

static void check_statement(const struct script *s, const struct statement *st)
{
	const struct value *model = statement_value(st, KEY_MODEL);

	FUZZ_CHECK(st->line > 0 && st->source[0]);
	FUZZ_CHECK((st->kind == ST_BROKER) == (st == s->statements));
	FUZZ_CHECK(st->kind != ST_ATTACH || (st->worker && model && script_model_find(s, model->text)));
	FUZZ_CHECK(st->kind != ST_BEGIN || (st->worker && st->request && statement_value(st, KEY_SLOTS)->n > 0));
	FUZZ_CHECK(st->kind != ST_COMPACT || statement_value(st, KEY_MAP)->n > 0);
	FUZZ_CHECK(st->kind != ST_EXPECT_COUNTS || s->n_models > 0);
	for (size_t i = 0; i < st->n_values; i++)
		for (size_t k = i + 1; k < st->n_values; k++)
			FUZZ_CHECK(st->values[i].key != st->values[k].key);
}

static void check_script(const struct script *s)
{
	FUZZ_CHECK(s->n_statements > 0);
	for (size_t i = 0; i < s->n_statements; i++)
		check_statement(s, &s->statements[i]);
	for (size_t i = 0; i < s->n_models; i++)
		FUZZ_CHECK(s->models[i].n_groups >= 1 && s->models[i].n_groups <= SCRIPT_MAX_GROUPS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct script_error error = { 0 };
	static char made[TEXT_SIZE];
	struct script script;
	FILE *file;
	int r;

	if (size == 0)
		return 0;
	if (input_u8(&in) & 1)
		file = fmemopen(made, make_text(made, &in), "r");
	else
		file = in.left ? fmemopen((void *)(uintptr_t)in.data, in.left, "r") : NULL;
	if (!file)
		return 0;
	r = script_parse(&script, file, "fuzz", &error);
	if (r == 0)
		r = script_check(&script, &error);
	if (r == 0)
		check_script(&script);
	else
		FUZZ_CHECK(error.line > 0 && text_is_printable(error.text));
	script_free(&script);
	fclose(file);
	return 0;
}
