/* SPDX-License-Identifier: Apache-2.0 */
#include "forms.h"

#include <string.h>

#include "lifecycle.h"
#include "names.h"
#include "wire.h"

static const char *const no_words[] = { NULL };
static const char *const none_word[] = { "none", NULL };
static const char *const any_word[] = { "any", NULL };
static const char *const full_word[] = { "full", NULL };
NAMES(backend_words, BACKEND_WORD_COUNT + 1, BACKEND_WORDS, NULL);
static const char *const chunk_words[] = { "retained", "mapped", NULL };
NAMES(form_words, WIRE_FORM_COUNT + 1, WIRE_FORM_NAMES, NULL);
NAMES(order_words, WIRE_ORDER_COUNT + 1, WIRE_ORDER_NAMES, NULL);
NAMES(dtype_words, WIRE_DTYPE_COUNT, WIRE_DTYPE_NAMES, NULL);
NAMES(fence_words, FENCE_WORD_COUNT + 1, FENCE_WORDS, NULL);
NAMES(rows_words, ROWS_WORD_COUNT + 1, ROWS_WORDS, NULL);
NAMES(phase_words, PHASE_COUNT + 1, PHASE_NAMES, NULL);
static const char *const yes_words[] = { "no", "yes", NULL };

#define INT32(words)  TYPE_INT, INT32_MIN, INT32_MAX, words
#define LIST32(words) TYPE_LIST, INT32_MIN, INT32_MAX, words
#define COUNT         TYPE_INT, 0, INT64_MAX, no_words
#define COUNT32       TYPE_INT, 0, UINT32_MAX, no_words
#define WORD(words)   TYPE_WORD, 0, 0, words
#define WORDS(words)  TYPE_WORDS, 0, 0, words
#define NAME          TYPE_NAME, 0, 0, no_words
#define NAMES_OF      TYPE_NAMES, 0, 0, no_words
#define RESULTS       TYPE_RESULTS, 0, 0, no_words
#define BYTES         TYPE_BYTES, 0, INT64_MAX, no_words

/* What a broker can refuse passes here: only what does not fit the field is no number. */
static const struct key_form keys[KEY_COUNT] = {
	[KEY_ACCEPTED] = { "accepted", LIST32(no_words) },
	[KEY_ALIGN] = { "align", COUNT32 },
	[KEY_AS] = { "as", NAME },
	[KEY_BACKEND] = { "backend", WORD(backend_words) },
	[KEY_BEGIN] = { "begin", COUNT },
	[KEY_BOUND] = { "bound", COUNT },
	[KEY_BYTES] = { "bytes", BYTES },
	[KEY_CEILING] = { "ceiling", BYTES },
	[KEY_CHUNK] = { "chunk", WORD(chunk_words) },
	[KEY_COMPLETE] = { "complete", NAMES_OF },
	[KEY_DTYPE] = { "dtype", WORD(dtype_words) },
	[KEY_END] = { "end", COUNT },
	[KEY_ENDPOINT] = { "endpoint", COUNT },
	[KEY_ENTRIES] = { "entries", COUNT },
	[KEY_EXTRA_BYTES] = { "extra_bytes", TYPE_LIST, 0, UINT32_MAX, no_words },
	[KEY_FENCE] = { "fence", WORD(fence_words) },
	[KEY_FINISH] = { "finish", NAMES_OF },
	[KEY_FLOOR] = { "floor", BYTES },
	[KEY_FORM] = { "form", WORDS(form_words) },
	[KEY_FREE] = { "free", COUNT },
	[KEY_GROUP] = { "group", TYPE_INT, 0, 7, no_words },
	[KEY_GROUPS] = { "groups", TYPE_LIST, 0, INT64_MAX, full_word }, /* VALUE_NONE is full, and no number */
	[KEY_HEAD_DIM] = { "head_dim", TYPE_LIST, 0, UINT32_MAX, no_words },
	[KEY_IN_FLIGHT] = { "in_flight", COUNT32 },
	[KEY_KV_HEADS] = { "kv_heads", TYPE_LIST, 0, UINT32_MAX, no_words },
	[KEY_K_BYTES] = { "k_bytes", TYPE_LIST, 0, UINT32_MAX, no_words },
	[KEY_LAYERS] = { "layers", TYPE_LIST, 0, UINT32_MAX, no_words },
	[KEY_LEASED] = { "leased", COUNT },
	[KEY_LENS] = { "lens", LIST32(no_words) },
	[KEY_MAP] = { "map", LIST32(no_words) },
	[KEY_MAPPED] = { "mapped", TYPE_LIST_OR_NONE, 0, INT32_MAX, none_word },
	[KEY_MAX_ADVANCE] = { "max_advance", TYPE_INT, 1, INT64_MAX, any_word },
	[KEY_MAX_BATCH] = { "max_batch", COUNT32 },
	[KEY_MAX_REWIND] = { "max_rewind", COUNT32 },
	[KEY_MAX_SEQ] = { "max_seq", TYPE_INT, INT64_MIN, INT64_MAX, no_words },
	[KEY_MAX_TOKENS] = { "max_tokens", TYPE_INT, INT64_MIN, INT64_MAX, no_words },
	[KEY_MIN] = { "min", COUNT32 },
	[KEY_MODEL] = { "model", TYPE_MODEL, 0, 0, no_words },
	[KEY_NEW] = { "new", INT32(no_words) },
	[KEY_OPEN] = { "open", COUNT },
	[KEY_ORDER] = { "order", WORDS(order_words) },
	[KEY_OVERWRITES] = { "overwrites", WORD(yes_words) },
	[KEY_PAGES] = { "pages", TYPE_INT, 1, INT32_MAX, no_words },
	[KEY_PAGE_TOKENS] = { "page_tokens", COUNT32 },
	[KEY_PENDING] = { "pending", TYPE_INT, 0, INT64_MAX, none_word },
	[KEY_PHASE] = { "phase", WORD(phase_words) },
	[KEY_PREPARE] = { "prepare", NAMES_OF },
	[KEY_QUARANTINED] = { "quarantined", COUNT },
	[KEY_REFUSED] = { "refused", RESULTS },
	[KEY_REQUESTS] = { "requests", COUNT },
	[KEY_RESERVED] = { "reserved", COUNT },
	[KEY_ROWS] = { "rows", WORD(rows_words) },
	[KEY_SEQ] = { "seq", TYPE_INT, 0, INT32_MAX, no_words },
	[KEY_SLOT] = { "slot", INT32(no_words) },
	[KEY_SLOTS] = { "slots", LIST32(no_words) },
	[KEY_STAGED] = { "staged", COUNT },
	[KEY_STEPS] = { "steps", TYPE_INT, 1, INT32_MAX, no_words },
	[KEY_TOKENS] = { "tokens", LIST32(no_words) },
	[KEY_VALID] = { "valid", WORD(yes_words) },
	[KEY_V_BYTES] = { "v_bytes", TYPE_LIST, 0, UINT32_MAX, no_words },
	[KEY_WAIT] = { "wait", COUNT32 },
	[KEY_WINDOW] = { "window", TYPE_INT, INT64_MIN, INT64_MAX, no_words },
};

/* `pending` of a request is yes or no, of a sequence an endpoint. */
static const struct key_form pending_of_request = { "pending", WORD(yes_words) };
/* `begin` of a turn is a request. */
static const struct key_form begin_of_turn = { "begin", NAMES_OF };
/* Of pages that a worker takes and gives there may be none, or more than there are: that is the broker's to say. */
static const struct key_form pages_of_worker = { "pages", COUNT32 };

#define NEED(key)                                                                                                      \
	{                                                                                                              \
		KEY_##key, true                                                                                        \
	}
#define MAY(key)                                                                                                       \
	{                                                                                                              \
		KEY_##key, false                                                                                       \
	}

#define FORM(words, kind, arguments, refusable, ...)                                                                   \
	{                                                                                                              \
		words, ST_##kind, arguments, refusable,                                                                \
		{                                                                                                      \
			__VA_ARGS__                                                                                    \
		}                                                                                                      \
	}

static const struct form forms[] = {
	FORM("broker", BROKER, "", false, NEED(BACKEND), MAY(PAGES), MAY(BYTES), MAY(PAGE_TOKENS)),
	FORM("model", MODEL, "M", false, MAY(WINDOW), MAY(GROUPS), NEED(MAX_BATCH), NEED(MAX_SEQ), MAY(PAGE_TOKENS),
	     MAY(LAYERS), MAY(KV_HEADS), MAY(HEAD_DIM), MAY(DTYPE), MAY(FORM), MAY(K_BYTES), MAY(V_BYTES),
	     MAY(EXTRA_BYTES), MAY(ALIGN), MAY(ORDER), MAY(MAX_ADVANCE), MAY(IN_FLIGHT), MAY(CHUNK), MAY(MAX_REWIND),
	     MAY(FLOOR), MAY(CEILING)),
	FORM("attach", ATTACH, "W", true, NEED(MODEL)),
	FORM("detach", DETACH, "W", true),
	FORM("kill", KILL, "W", false),
	FORM("stop", STOP, "W", false),
	FORM("cont", CONT, "W", false),
	FORM("begin", BEGIN, "WR", true, NEED(SLOTS), MAY(MAX_TOKENS), MAY(WAIT)),
	FORM("queue", QUEUE, "WR", true, NEED(SLOTS), MAY(MAX_TOKENS), NEED(WAIT)),
	FORM("admitted", ADMITTED, "WR", true),
	FORM("withdraw", WITHDRAW, "WR", true),
	FORM("prefill", PREFILL, "WR", true, NEED(LENS), MAY(FENCE)),
	FORM("prefill_prepare", PREFILL_PREPARE, "WR", true, NEED(LENS)),
	FORM("prefill_complete", PREFILL_COMPLETE, "WR", true, MAY(FENCE)),
	FORM("decode", DECODE, "WR", true, MAY(STEPS)),
	FORM("decode_prepare", DECODE_PREPARE, "WR", true),
	FORM("decode_complete", DECODE_COMPLETE, "WR", true, MAY(FENCE)),
	FORM("extend", EXTEND, "WR", true, NEED(TOKENS), MAY(FENCE)),
	FORM("extend_prepare", EXTEND_PREPARE, "WR", true, NEED(TOKENS)),
	FORM("extend_complete", EXTEND_COMPLETE, "WR", true, MAY(ACCEPTED), MAY(FENCE)),
	FORM("rewind", REWIND, "WR", true, NEED(TOKENS)),
	FORM("reserve", RESERVE, "WR", true, NEED(MAX_TOKENS)),
	FORM("compact", COMPACT, "WR", true, NEED(MAP), NEED(NEW), MAY(ROWS)),
	FORM("compact_begin", COMPACT_BEGIN, "WR", true, NEED(MAP), NEED(NEW), MAY(ROWS)),
	FORM("compact_complete", COMPACT_COMPLETE, "WR", true, MAY(FENCE)),
	FORM("turn", TURN, "W", true, MAY(COMPLETE), MAY(ACCEPTED), MAY(FENCE), MAY(FINISH), MAY(BEGIN), MAY(SLOTS),
	     MAY(MAX_TOKENS), MAY(PREPARE), MAY(TOKENS), MAY(REFUSED)),
	FORM("signal", SIGNAL, "W", false),
	FORM("finish", FINISH, "WR", true),
	FORM("abandon", ABANDON, "WR", true),
	FORM("shutdown", SHUTDOWN, "W", true),
	FORM("take", TAKE, "WP", true, NEED(PAGES), MAY(MIN), MAY(GROUP), MAY(OVERWRITES), MAY(WAIT)),
	FORM("queue_take", QUEUE_TAKE, "WP", true, NEED(PAGES), MAY(MIN), MAY(GROUP), MAY(OVERWRITES), NEED(WAIT)),
	FORM("taken", TAKEN, "WP", true),
	FORM("give", GIVE, "WP", true, MAY(PAGES), MAY(FENCE)),
	FORM("offer", OFFER, "W", false, NEED(PAGES), MAY(GROUP)),
	FORM("remember", REMEMBER, "LW", false, NEED(SLOT)),
	FORM("expect row", EXPECT_ROW, "W", false, NEED(SLOT), MAY(GROUP), NEED(MAPPED)),
	FORM("expect state", EXPECT_STATE, "WR", false, NEED(SEQ), MAY(GROUP), NEED(ENDPOINT), NEED(BEGIN), NEED(END),
	     MAY(BOUND), MAY(RESERVED), MAY(STAGED), MAY(PENDING), MAY(SLOT)),
	FORM("expect request", EXPECT_REQUEST, "WR", false, NEED(PHASE), MAY(PENDING), MAY(VALID), MAY(OPEN)),
	FORM("expect private_pages", EXPECT_PRIVATE_PAGES, "", false, NEED(PAGES)),
	FORM("expect waiting", EXPECT_WAITING, "W", false, NEED(REQUESTS)),
	FORM("expect last_updates", EXPECT_LAST_UPDATES, "WR", false, NEED(ENTRIES)),
	FORM("expect taken", EXPECT_TAKEN, "WP", false, NEED(PAGES)),
	FORM("expect wanted", EXPECT_WANTED, "W", false, NEED(PAGES), MAY(GROUP)),
	FORM("expect takeable", EXPECT_TAKEABLE, "W", false, NEED(PAGES), MAY(GROUP)),
	FORM("expect same_pages", EXPECT_SAME_PAGES, "W", false, NEED(SLOT), NEED(AS)),
	FORM("expect disjoint", EXPECT_DISJOINT, "", false),
	FORM("expect", EXPECT_COUNTS, "", false, NEED(FREE), MAY(LEASED), MAY(QUARANTINED), MAY(MODEL), MAY(GROUP)),
};

const struct key_form *key_form_of(const struct form *form, enum key key)
{
	if (form->kind == ST_EXPECT_REQUEST && key == KEY_PENDING)
		return &pending_of_request;
	if (form->kind == ST_TURN && key == KEY_BEGIN)
		return &begin_of_turn;
	if (key == KEY_PAGES && form->kind != ST_BROKER && form->kind != ST_EXPECT_PRIVATE_PAGES)
		return &pages_of_worker;
	return &keys[key];
}

enum key key_find(const char *name, size_t len)
{
	for (enum key k = KEY_NONE + 1; k < KEY_COUNT; k++)
		if (strlen(keys[k].name) == len && !memcmp(keys[k].name, name, len))
			return k;
	return KEY_NONE;
}

const char *key_name(enum key key)
{
	return keys[key].name;
}

static bool words_match(const char *words, const char *word, const char *second)
{
	size_t n = strcspn(words, " ");

	if (strlen(word) != n || memcmp(words, word, n))
		return false;
	return words[n] == '\0' || (second && !strcmp(words + n + 1, second));
}

const struct form *form_find(const char *word, const char *second)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (words_match(forms[i].words, word, second))
			return &forms[i];
	return NULL;
}

const char *form_word(enum statement_kind kind)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (forms[i].kind == kind)
			return forms[i].words;
	return "";
}
