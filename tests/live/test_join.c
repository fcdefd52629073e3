/* SPDX-License-Identifier: Apache-2.0 */
/* A session of several processes: its pages return when all of them are through. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "atomics.h"
#include "live.h"

static struct live live;

/* What the processes of a test tell each other. */
static struct talk {
	struct swakv_token token;
	shm_u32 attached, joined, leave, left, step, stepped;
	int64_t before; /* pages that are free when nobody has any */
	int refused;    /* what a command of the member got */
	int32_t num_pages;
} * talk;

static pid_t first, member;

static void expect_alive(pid_t *pid)
{
	int status;

	if (*pid <= 0 || waitpid(*pid, &status, WNOHANG) != *pid)
		return;
	*pid = 0;
	cr_assert_fail("a process of the session has ended by itself: %x", (unsigned)status);
}

/* Set by a process of the session. */
static void wait_for(shm_u32 *word)
{
	for (int i = 0; i < LIVE_PATIENCE && !load_acquire(word); i++) {
		expect_alive(&first);
		expect_alive(&member);
		usleep(1000);
	}
	cr_assert(load_acquire(word));
}

static swakv_session *attach(const struct swakv_attach_options *o, uint32_t max_batch, int *r)
{
	const struct swakv_group g = { .size = sizeof(g),
				       .kind = SWAKV_SLIDING,
				       .window = 129,
				       .page_tokens = 128,
				       .layers = 1,
				       .kv_heads = 1,
				       .head_dim = 8,
				       .dtype = SWAKV_F16 };
	const struct swakv_model m = { .size = sizeof(m),
				       .name = "several",
				       .groups = &g,
				       .n_groups = 1,
				       .max_batch = max_batch,
				       .max_seq = 1024 };
	swakv_session *s;

	*r = swakv_session_attach(o, &m, &s, NULL, 0);
	return s;
}

static _Noreturn void be_first(void)
{
	const struct swakv_attach_options o = { .size = sizeof(o), .flags = SWAKV_ATTACH_JOINABLE };
	const struct swakv_begin_options b = { .size = sizeof(b), .slots = (int32_t[]){ 0 }, .n_slots = 1 };
	const int32_t length = 300;
	swakv_request *q;
	int r;
	swakv_session *s = attach(&o, 2, &r);

	if (r || swakv_session_free_pages(s, &talk->before) || (live_is_cuda() && swakv_stream_bind_cuda(s, 0, NULL)) ||
	    swakv_request_begin(s, &b, &q, NULL) || swakv_prefill_prepare(q, &length, 1, NULL) ||
	    swakv_prefill_complete(q, SWAKV_DONE, NULL) || swakv_session_get_token(s, &talk->token))
		_exit(1);
	store_release(&talk->attached, 1);
	while (!load_acquire(&talk->step))
		usleep(1000);
	if (swakv_decode_prepare(q, NULL) || swakv_decode_complete(q, SWAKV_DONE, NULL))
		_exit(2);
	store_release(&talk->stepped, 1);
	for (;;)
		pause();
}

static _Noreturn void be_member(void)
{
	struct swakv_attach_options o = { .size = sizeof(o), .join = &talk->token };
	struct swakv_layout l = { .size = sizeof(l) };
	swakv_session *s;
	int r;

	while (!load_acquire(&talk->attached))
		usleep(1000);
	s = attach(&o, 2, &r);
	if (r)
		_exit(1);
	talk->refused = swakv_session_ping(s, NULL);
	if (swakv_session_get_layout(s, 0, &l) || l.host_table[299 / 128] < 0) /* the row of the first's request */
		_exit(2);
	talk->num_pages = l.num_pages;
	store_release(&talk->joined, 1);
	while (!load_acquire(&talk->leave))
		usleep(1000);
	swakv_session_close(s);
	store_release(&talk->left, 1);
	for (;;)
		pause();
}

static pid_t start(void (*be)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* it must not outlive a test that failed: the runner waits for it */
		be();
	}
	cr_assert_gt(pid, 0);
	return pid;
}

static void end(pid_t *pid)
{
	int status;

	if (*pid <= 0)
		return;
	kill(*pid, SIGKILL);
	cr_assert_eq(waitpid(*pid, &status, 0), *pid);
	cr_expect(WIFSIGNALED(status), "it ended by itself: %d", WEXITSTATUS(status));
	*pid = 0;
}

static swakv_session *watch;

/* Both processes have the session, which holds pages. They are forked before this one knows the driver. */
static void setup(void)
{
	talk = mmap(NULL, sizeof(*talk), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(talk, MAP_FAILED);
	live_start_with(&live, "16M", "--reclaim-grace-ms=1");
	first = start(be_first);
	member = start(be_member);
	wait_for(&talk->joined);
	watch = live_attach(NULL, 129, 128, 1, 2, 1024);
	cr_assert_eq(talk->refused, SWAKV_EINVALID, "a member gives no commands: %d", talk->refused);
}

static void teardown(void)
{
	end(&first);
	end(&member);
	swakv_session_close(watch);
	live_stop(&live);
}

TestSuite(join, .init = setup, .fini = teardown);

static int try_join(const struct swakv_token *token, uint32_t max_batch)
{
	const struct swakv_attach_options o = { .size = sizeof(o), .join = token };
	int r;
	swakv_session *s = attach(&o, max_batch, &r);

	swakv_session_close(s);
	return r;
}

/* Until the broker has seen that the first process is dead: nobody can join any more. */
static void wait_until_nobody_may_join(void)
{
	int r;

	for (int i = 0; i < 20000 && (r = try_join(&talk->token, 2)) == 0; i++)
		usleep(1000);
	cr_assert_eq(r, SWAKV_EGONE);
}

static void expect_held(void)
{
	int64_t now;

	for (int i = 0; i < 50; i++) { /* many rounds of the broker, each of which would give them back */
		LIVE_OK(watch, swakv_session_free_pages(watch, &now));
		cr_assert_lt(now, talk->before);
		usleep(1000);
	}
}

Test(join, pages_wait_for_the_member_when_the_first_is_killed)
{
	end(&first);
	wait_until_nobody_may_join();
	expect_held();
	end(&member);
	live_expect_free(watch, talk->before);
}

Test(join, the_first_goes_on_when_the_member_is_killed)
{
	end(&member);
	store_release(&talk->step, 1);
	wait_for(&talk->stepped);
	expect_held();
	end(&first);
	live_expect_free(watch, talk->before);
}

Test(join, a_member_that_has_left_is_not_waited_for)
{
	store_release(&talk->leave, 1);
	wait_for(&talk->left);
	end(&first);
	live_expect_free(watch, talk->before);
}

Test(join, who_has_another_key_or_model_does_not_join)
{
	struct swakv_token wrong;

	for (unsigned i = 0; i < 24; i++) {
		wrong = talk->token;
		wrong.bytes[i] ^= 1;
		cr_expect_eq(try_join(&wrong, 2), SWAKV_EGONE, "byte %u", i);
	}
	cr_expect_eq(try_join(&talk->token, 1), SWAKV_EINVALID);
	cr_expect_eq(swakv_session_get_token(watch, &wrong), SWAKV_EINVALID, "it was not attached to be joined");
	for (int i = 0; i < 30; i++)
		cr_expect_eq(try_join(&talk->token, 2), 0, "those who left have no place");
}
