/* SPDX-License-Identifier: Apache-2.0 */
/*
 * churn.c - a worker that goes through every call, again and again
 *
 * usage: churn --broker NAME die PHASE NS | lives N | again | wait
 *
 * die: kills itself with SIGKILL, NS nanoseconds after it has entered PHASE, a
 * name of the list below: in the middle of that call, or soon after it. lives: N
 * times, over ten sessions. again: until the broker has gone, and then with the
 * next broker, until standard input ends. wait: the same of one that waits for
 * pages, where its model "churn-waits" has a ceiling that one of its requests fits
 * below.
 *
 * Each session ends with a line, "begins N fds N maps N anon_kib N phase NAME
 * ns N": what this process has then, and, when the broker went away, in which
 * phase that was heard, and at what time of CLOCK_MONOTONIC. Then a line is waited
 * for. Any result but 0 and "gone" ends it with 1.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <swakv/swakv.h>

/* clang-format off */
#define PHASES(X) \
	X(attach) X(begin) X(wait) X(prefill) X(prefill_complete) X(decode) X(decode_complete) X(turn) X(extend) \
	X(extend_complete) X(rewind) X(compact) X(compact_complete) X(reserve) X(take) X(give) X(finish) X(abandon) \
	X(ping) X(close)
/* clang-format on */

#define PHASE_ENUM(name) PHASE_##name,
#define PHASE_NAME(name) #name,
enum phase { PHASES(PHASE_ENUM) N_PHASES };
static const char *const phase_names[] = { PHASES(PHASE_NAME) };

enum { BATCH = 4, WAIT_MS = 120000, N_SESSIONS = 10, MANAGED = 8, STEPS = 40 };

struct churn {
	struct swakv_attach_options attach;
	swakv_session *s;
	enum phase fatal, at;
	bool dies;
	long delay_ns;
	timer_t timer;
	uint64_t begins;
	bool gone;
};

/* Whether @call of phase @phase went well; false once the broker has gone. */
#define CALL(c, phase, call) (enter(c, PHASE_##phase), went_well(c, call))

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "churn: %s: %s\n", what, why);
	exit(1);
}

/* From here on the process has delay_ns to live, when this is the phase that it is to die in. */
static void enter(struct churn *c, enum phase phase)
{
	struct itimerspec when = { .it_value.tv_nsec = c->delay_ns + 1 };

	c->at = phase;
	if (c->dies && phase == c->fatal)
		timer_settime(c->timer, 0, &when, NULL);
}

static bool went_well(struct churn *c, int result)
{
	if (result == 0)
		return true;
	if (result != SWAKV_EGONE)
		fail(phase_names[c->at], c->s ? swakv_session_error(c->s) : swakv_error_name(result));
	c->gone = true;
	return false;
}

static bool begin(struct churn *c, enum phase phase, uint32_t first, uint32_t n, int64_t max_tokens, swakv_request **r)
{
	static const int32_t slots[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	const struct swakv_begin_options o = {
		.size = sizeof(o), .slots = slots + first, .n_slots = n, .max_tokens = max_tokens, .wait_ms = WAIT_MS
	};

	enter(c, phase);
	if (!went_well(c, swakv_request_begin(c->s, &o, r, NULL)))
		return false;
	c->begins++;
	return true;
}

static bool decode(struct churn *c, swakv_request *r)
{
	struct swakv_turn turn = { .size = sizeof(turn),
				   .what = SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE,
				   .request = r };

	if (!CALL(c, decode, swakv_decode_prepare(r, NULL)))
		return false;
	for (int i = 0; i < STEPS; i++) {
		turn.fence = SWAKV_DONE;
		if (!CALL(c, turn, swakv_step_turn(c->s, &turn, 1, NULL)))
			return false;
	}
	return CALL(c, decode_complete, swakv_decode_complete(r, SWAKV_DONE, NULL));
}

static bool extend(struct churn *c, swakv_request *r)
{
	static const int32_t tokens[BATCH] = { 70, 1, 33, 5 }, accepted[BATCH] = { 60, 0, 33, 1 },
			     back[BATCH] = { 4, 0, 3, 1 };

	return CALL(c, extend, swakv_extend_prepare(r, tokens, BATCH, NULL)) &&
	       CALL(c, extend_complete, swakv_extend_complete(r, SWAKV_DONE, accepted, BATCH, NULL)) &&
	       CALL(c, rewind, swakv_rewind(r, back, BATCH, NULL));
}

static bool manage(struct churn *c)
{
	int32_t ids[MANAGED];
	uint32_t n = 0;

	return CALL(c, take, swakv_pages_take(c->s, 0, 0, 0, 1, MANAGED, WAIT_MS, ids, &n, NULL)) &&
	       CALL(c, give, swakv_pages_give(c->s, 0, ids, n, NULL, 0, NULL));
}

/* All that a batch can go through. */
static bool batch(struct churn *c, swakv_request *r)
{
	static const int32_t lengths[BATCH] = { 200, 1, 128, 33 }, map[BATCH] = { 1, -1, 0, 2 };
	struct swakv_fence fence;

	return CALL(c, prefill, swakv_prefill_prepare(r, lengths, BATCH, NULL)) &&
	       CALL(c, prefill_complete,
		    swakv_stream_mark(c->s, 0, &fence) ?: swakv_prefill_complete(r, fence, NULL)) &&
	       decode(c, r) && extend(c, r) && CALL(c, reserve, swakv_request_reserve(r, 800, NULL)) &&
	       CALL(c, compact, swakv_compact_begin(r, map, BATCH, BATCH - 1, SWAKV_COMPACT_MOVE_ROWS, 0, NULL)) &&
	       CALL(c, compact_complete, swakv_compact_complete(r, SWAKV_DONE, NULL)) &&
	       CALL(c, finish, swakv_request_finish(r, NULL));
}

/* Two requests side by side; where the model has a ceiling, the second waits for the first, and that is where it dies.
 */
static bool life(struct churn *c)
{
	swakv_request *r = NULL, *other = NULL;
	bool well = begin(c, PHASE_begin, 0, BATCH, 600, &r);

	if (well && c->fatal == PHASE_wait)
		well = begin(c, PHASE_wait, BATCH, BATCH, 0, &other);
	well = well && batch(c, r) && begin(c, PHASE_begin, BATCH, 1, 100, &other) &&
	       CALL(c, abandon, swakv_request_abandon(other, NULL)) && manage(c) &&
	       CALL(c, ping, swakv_session_ping(c->s, NULL));
	swakv_request_free(r);
	swakv_request_free(other);
	return well;
}

static bool attach(struct churn *c)
{
	static const struct swakv_group groups[] = {
		{ .size = sizeof(groups[0]),
		  .kind = SWAKV_SLIDING,
		  .window = 128,
		  .page_tokens = 32,
		  .layers = 2,
		  .kv_heads = 1,
		  .head_dim = 32,
		  .dtype = SWAKV_F16 },
		{ .size = sizeof(groups[0]),
		  .kind = SWAKV_FULL,
		  .page_tokens = 64,
		  .layers = 1,
		  .kv_heads = 1,
		  .head_dim = 32,
		  .dtype = SWAKV_F16 },
	};
	const struct swakv_model model = { .size = sizeof(model),
					   .name = c->fatal == PHASE_wait ? "churn-waits" : "churn",
					   .groups = groups,
					   .n_groups = sizeof(groups) / sizeof(groups[0]),
					   .max_batch = 2 * BATCH,
					   .max_seq = 1024,
					   .max_rewind = 64,
					   .chunk = SWAKV_CHUNK_MAPPED };
	char why[512] = "";
	int r;

	c->gone = false;
	enter(c, PHASE_attach);
	r = swakv_session_attach(&c->attach, &model, &c->s, why, sizeof(why));
	if (r && r != SWAKV_EGONE)
		fail("attach", why);
	return went_well(c, r);
}

/* What this process has: the lines of @path that begin with @word, or their number. */
static long lines(const char *path, const char *word)
{
	FILE *file = fopen(path, "re");
	char line[4096];
	long n = 0;

	while (file && fgets(line, sizeof(line), file))
		if (!word)
			n++;
		else if (!strncmp(line, word, strlen(word)))
			n = strtol(line + strlen(word), NULL, 10);
	if (file)
		fclose(file);
	return n;
}

static long n_fds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	long n = 0;

	while (folder && readdir(folder))
		n++;
	if (folder)
		closedir(folder);
	return n - 3; /* ".", ".." and the folder's own */
}

/* False when nobody is left to hear it. */
static bool report(struct churn *c)
{
	const char *phase = c->gone ? phase_names[c->at] : "none";
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	enter(c, PHASE_close);
	swakv_session_close(c->s);
	c->s = NULL;
	printf("begins %" PRIu64 " fds %ld maps %ld anon_kib %ld phase %s ns %" PRIu64 "\n", c->begins, n_fds(),
	       lines("/proc/self/maps", NULL), lines("/proc/self/status", "RssAnon:"), phase,
	       (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
	return fflush(stdout) == 0 && getchar() != EOF;
}

static void session(struct churn *c, uint64_t begins)
{
	uint64_t before = c->begins;

	if (attach(c))
		while (c->begins - before < begins && life(c))
			continue;
}

static void die(struct churn *c, const char *phase, const char *delay)
{
	struct sigevent kill_me = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };

	c->fatal = PHASE_attach;
	while (c->fatal < N_PHASES && strcmp(phase, phase_names[c->fatal]))
		c->fatal++;
	c->delay_ns = strtol(delay, NULL, 10);
	if (c->fatal == N_PHASES || c->delay_ns < 0 || c->delay_ns >= 1000000000)
		fail(phase, "not a phase, or the delay is not below a second");
	if (timer_create(CLOCK_MONOTONIC, &kill_me, &c->timer))
		fail("timer_create", strerror(errno));
	c->dies = true;
	session(c, c->fatal == PHASE_close ? 20 : UINT64_MAX);
	report(c);
	pause();
}

int main(int argc, char **argv)
{
	struct churn c = { .attach.size = sizeof(c.attach), .fatal = N_PHASES };
	uint64_t lives;

	if (argc < 4 || strcmp(argv[1], "--broker"))
		fail("usage", "churn --broker NAME die PHASE NS | lives N | again | wait");
	c.attach.broker = argv[2];
	if (argc == 6 && !strcmp(argv[3], "die")) {
		die(&c, argv[4], argv[5]);
	} else if (argc == 5 && !strcmp(argv[3], "lives")) {
		lives = strtoull(argv[4], NULL, 10);
		for (bool heard = true; heard && c.begins < lives;) {
			session(&c, lives / N_SESSIONS);
			heard = report(&c);
		}
	} else if (argc == 4 && (!strcmp(argv[3], "again") || !strcmp(argv[3], "wait"))) {
		c.fatal = argv[3][0] == 'w' ? PHASE_wait : N_PHASES;
		c.attach.wait_ms = WAIT_MS;
		do
			session(&c, UINT64_MAX);
		while (report(&c));
	} else {
		fail("usage", "churn --broker NAME die PHASE NS | lives N | again | wait");
	}
	return 0;
}
