/* SPDX-License-Identifier: Apache-2.0 */
/* What is armed before what, how a stream fails, and the streams of the host backend. */
#include <signal.h>
#include <string.h>

#include "client_fixture.h"

TestSuite(client_stream, .init = client_setup, .fini = client_teardown);

/* ---- armed before anything of the step is enqueued -------------------------------------------------- */

Test(client_stream, line_is_armed_before_the_updates_are_enqueued)
{
	const struct wire_update u[] = { { CELL(0, 0), 1 } };
	const struct wire_row v[] = { { 0, 1, 0, 0 } };

	bind_custom();
	cr_expect_eq(fake_prefill(&fake, session, begin(0, 0), &DELIVERY(u, v)), 0);
	cr_assert_eq(n_events, 2);
	cr_expect_eq(events[0].what, 'u');
	cr_expect_eq(events[0].armed, 1, "on_updates may enqueue work: the line must be armed");
	cr_expect_eq(events[1].what, 'a');
	cr_expect_eq(events[1].armed, 1, "the updates were enqueued on a line that looks idle");
	cr_expect_eq(events[1].word, 0);
}

Test(client_stream, line_is_armed_before_the_write_of_its_word_is_enqueued)
{
	struct swakv_fence fence;

	bind_custom();
	for (uint64_t n = 1; n <= 3; n++) {
		cr_assert_eq(swakv_stream_mark(session, 0, &fence), 0);
		cr_expect_eq(fence.value, n);
		cr_expect_eq(fence.line, 0);
		cr_assert_eq(n_events, (int)n);
		cr_expect_eq(events[n - 1].what, 'w');
		cr_expect_eq(events[n - 1].value, n);
		cr_expect_eq(events[n - 1].armed, n, "the word was written before the line was armed");
		cr_expect(swakv_fence_reached(session, fence));
	}
	fence.value++;
	cr_expect_not(swakv_fence_reached(session, fence));
}

Test(client_stream, step_without_updates_arms_its_line_too)
{
	const struct fake_delivery none = { 0 };
	struct swakv_fence fence;

	bind_custom();
	cr_expect_eq(fake_prefill(&fake, session, begin(1, 0), &none), 0);
	cr_expect_eq(n_events, 0);
	cr_expect_eq(load_acquire(&fake.lines[1].armed), 1);
	cr_expect_eq(load_acquire(&fake.lines[0].armed), 0);
	cr_assert_eq(swakv_stream_mark(session, 1, &fence), 0);
	cr_expect_eq(fence.value, 1, "the mark is the value that was armed");
}

Test(client_stream, refused_step_arms_nothing)
{
	const struct wire_entry_fault faults[] = {
		{ 0, 0, { .code = SWAKV_EPENDING, .reason = FAULT_PAGES_PENDING, .seq = -1, .got = 1, .want = 2 } }
	};
	struct fake_delivery d = { .faults = faults, .n_faults = 1 };
	swakv_request *r;

	bind_custom();
	r = begin(1, 0);
	cr_expect_eq(decode(r, &d), SWAKV_EPENDING);
	cr_expect_not_null(strstr(swakv_session_error(session), "2 pages are needed and 1 are available"));
	cr_expect_eq(load_acquire(&fake.lines[1].armed), 0);
}

Test(client_stream, mark_of_one_step_leaves_the_line_armed_for_the_other)
{
	const struct fake_delivery none = { 0 };
	swakv_request *a, *b;
	struct swakv_fence fa, fb;

	bind_custom();
	a = begin(0, 0);
	b = begin(0, 1);
	cr_expect_eq(decode(a, &none), 0);
	cr_expect_eq(decode(b, &none), 0);
	cr_assert_eq(swakv_stream_mark(session, 0, &fa), 0);
	cr_expect_eq(fa.value, 1);
	cr_expect_eq(events[0].armed, 2, "b's step is still to come: the line must not look idle at 1");
	cr_expect_eq(complete(a, fa), 0);
	cr_expect_gt(load_acquire(&fake.lines[0].armed), load_acquire(&fake.lines[0].word));
	cr_assert_eq(swakv_stream_mark(session, 0, &fb), 0);
	cr_expect_eq(fb.value, 2);
	cr_expect_eq(complete(b, fb), 0);
	cr_expect_eq(load_acquire(&fake.lines[0].armed), 2);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 2);
}

Test(client_stream, line_armed_for_clears_alone_is_marked_at_once)
{
	swakv_request *b;
	const struct wire_update ub[] = { { CELL(0, 0), -1 } };
	const struct wire_row vb[] = { { 0, 1, 0, 0 } };

	bind_custom();
	begin(1, 0);
	b = begin(0, 1);
	cr_expect_eq(decode(b, &DELIVERY(ub, vb)), 0);
	cr_assert_eq(n_events, 3);
	cr_expect_eq(events[1].what, 'a');
	cr_expect_eq(events[1].stream, 1);
	cr_expect_eq(events[1].armed, 1);
	cr_expect_eq(events[2].what, 'w');
	cr_expect_eq(load_acquire(&fake.lines[1].word), 1);
	cr_expect_eq(load_acquire(&fake.lines[0].armed), 1);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 0, "b's step is not marked by the library");
}

Test(client_stream, completion_that_is_done_lets_the_word_catch_up)
{
	const struct fake_delivery none = { 0 };
	swakv_request *r;

	bind_custom();
	r = begin(0, 0);
	cr_expect_eq(decode(r, &none), 0);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 0);
	cr_expect_eq(complete(r, SWAKV_DONE), 0);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 1);
	cr_expect_eq(load_acquire(&fake.lines[0].armed), 1);
}

Test(client_stream, completion_that_is_done_does_not_mark_anothers_step)
{
	const struct fake_delivery none = { 0 };
	swakv_request *a, *b;

	bind_custom();
	a = begin(0, 0);
	b = begin(0, 1);
	cr_expect_eq(decode(a, &none), 0);
	cr_expect_eq(decode(b, &none), 0);
	cr_expect_eq(complete(a, SWAKV_DONE), 0);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 0);
	cr_expect_eq(complete(b, SWAKV_DONE), 0);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 1);
}

Test(client_stream, abandon_marks_what_was_given_to_the_stream)
{
	const struct fake_delivery none = { 0 };
	struct fake_command c;
	struct wire_fence fence;
	swakv_request *r;
	swakv_ticket t;

	bind_custom();
	r = begin(1, 0);
	cr_expect_eq(decode(r, &none), 0);
	cr_assert_eq(swakv_request_abandon(r, &t), 0);
	cr_assert_eq(n_events, 1);
	cr_expect_eq(events[0].what, 'w');
	fake_take(&fake, WIRE_OP_ABANDON, &c);
	memcpy(&fence, c.payload, sizeof(fence));
	cr_expect_eq(fence.kind, WIRE_FENCE_LINE);
	cr_expect_eq(fence.line, 1);
	cr_expect_eq(fence.value, 1);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_assert_eq(swakv_wait(session, t), 0);
}

static uint64_t word_at_close;

static void serve_close(struct fake *f, const struct fake_command *c)
{
	if (c->head.op == WIRE_OP_CLOSE)
		word_at_close = load_acquire(&f->lines[1].word);
	fake_answer(f, c, 0, 0, NULL, 0);
}

/* Else the line would look busy for ever, and the pages wait for the end of the process. */
Test(client_stream, close_marks_what_was_given_to_the_streams)
{
	const struct fake_delivery none = { 0 };

	bind_custom();
	cr_expect_eq(decode(begin(1, 0), &none), 0);
	cr_expect_eq(load_acquire(&fake.lines[1].armed), 1);
	fake.serve = serve_close;
	fake_serve(&fake);
	swakv_session_close(session);
	session = NULL;
	cr_expect_eq(word_at_close, 1, "the word is %u", (unsigned)word_at_close);
	cr_expect_eq(load_acquire(&fake.lines[0].armed), 0, "a stream without work needs no mark");
}

/* ---- a stream that fails ------------------------------------------------------------------------------ */

Test(client_stream, failed_updates_are_told_and_the_row_is_written_again)
{
	const struct wire_update u1[] = { { CELL(0, 0), 1 } }, u2[] = { { CELL(0, 1), 2 } },
				 u3[] = { { CELL(0, 1), 3 } };
	const struct wire_row v1[] = { { 0, 1, 0, 0 } }, v2[] = { { 0, 2, 0, 0 } }, v3[] = { { 0, 3, 0, 0 } };
	swakv_request *r;

	bind_custom();
	r = begin(0, 0);
	apply_result = 5;
	cr_expect_eq(decode(r, &DELIVERY(u1, v1)), SWAKV_EDEVICE);
	cr_expect_not_null(strstr(swakv_session_error(session), "apply returned 5"), "%s",
			   swakv_session_error(session));
	cr_expect(swakv_request_valid(r));
	cr_expect_eq(swakv_stream_mark(session, 0, NULL), SWAKV_EDEVICE, "nothing more is proven on this stream");
	cr_expect_eq(load_acquire(&fake.lines[0].armed), 1);
	apply_result = 0;
	cr_expect_eq(swakv_stream_synchronize(session, 0), 0);
	cr_expect_eq(swakv_stream_mark(session, 0, NULL), 0);
	n_events = 0;
	fake_row(&fake, 0, (int32_t[]){ 1, 2, -1, -1 }, 2);
	cr_expect_eq(decode(r, &DELIVERY(u2, v2)), 0);
	cr_assert_eq(n_events, 2);
	cr_expect_eq(events[1].n, FAKE_WIDTH);
	cr_expect_eq(row_faults(), 0);
	n_events = 0;
	cr_expect_eq(decode(r, &DELIVERY(u3, v3)), 0);
	cr_expect_eq(events[1].n, 1, "once written whole, the row is known again");
}

static struct wire_fence shutdown_fences[FAKE_STREAMS];

static void serve_shutdown(struct fake *f, const struct fake_command *c)
{
	if (c->head.op == WIRE_OP_SHUTDOWN) {
		cr_expect_eq(c->head.n, FAKE_STREAMS);
		memcpy(shutdown_fences, c->payload, sizeof(shutdown_fences));
	}
	if (c->head.op == WIRE_OP_SHUTDOWN && shutdown_fences[0].kind == WIRE_FENCE_FAILED)
		fake_refuse(f, c, FAULT_STILL_POISONED, 5, 0);
	else
		fake_answer(f, c, 0, 0, NULL, 0);
}

Test(client_stream, shutdown_tells_which_streams_failed)
{
	const struct fake_delivery none = { 0 };

	bind_custom();
	cr_expect_eq(decode(begin(0, 0), &none), 0);
	write_result = 1;
	cr_expect_eq(swakv_stream_mark(session, 0, NULL), SWAKV_EDEVICE);
	fake.serve = serve_shutdown;
	fake_serve(&fake);
	cr_expect_eq(swakv_session_shutdown(session), SWAKV_EPOISONED);
	cr_expect_str_eq(swakv_session_error(session), "completion failed again: 5 pages stay in quarantine");
	cr_expect_eq(shutdown_fences[0].kind, WIRE_FENCE_FAILED);
	write_result = 0;
	cr_expect_eq(swakv_session_shutdown(session), 0);
	cr_expect_eq(shutdown_fences[0].kind, WIRE_FENCE_DONE);
	cr_expect_eq(shutdown_fences[1].kind, WIRE_FENCE_DONE);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 1, "the word catches up with what was synchronised");
}

/* ---- host streams ---------------------------------------------------------------------------------------------- */

static shm_u32 seen[3];
static void look(void *arg)
{
	store_release((shm_u32 *)arg, (uint32_t)fake.device[0] * 100 + (uint32_t)load_acquire(&fake.lines[0].word));
}

Test(client_stream, threaded_stream_keeps_the_order)
{
	const struct wire_update u[] = { { CELL(0, 0), 7 } };
	const struct wire_row v[] = { { 0, 1, 0, 0 } };
	struct swakv_fence fence;
	swakv_request *r;

	cr_assert_eq(swakv_stream_bind_host(session, 0, true), 0);
	r = begin(0, 0);
	cr_assert_eq(swakv_stream_launch_host(session, 0, wait_for_gate, NULL), 0);
	cr_expect_eq(decode(r, &DELIVERY(u, v)), 0);
	cr_assert_eq(swakv_stream_launch_host(session, 0, look, &seen[0]), 0);
	cr_assert_eq(swakv_stream_mark(session, 0, &fence), 0);
	cr_assert_eq(swakv_stream_launch_host(session, 0, look, &seen[1]), 0);
	cr_expect_eq(fake.device[0], -1, "the update waits for the work before it");
	cr_expect_not(swakv_fence_reached(session, fence));
	store_release(&gate, 1);
	cr_expect_eq(swakv_stream_synchronize(session, 0), 0);
	cr_expect(swakv_fence_reached(session, fence));
	cr_expect_eq(load_acquire(&seen[0]), 700);
	cr_expect_eq(load_acquire(&seen[1]), 701);
}

static void look_at_signals(void *arg)
{
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	store_release((shm_u32 *)arg, sigismember(&mask, SIGTERM) && sigismember(&mask, SIGUSR1) ? 1 : 2);
}

Test(client_stream, signals_stay_with_the_callers_threads)
{
	sigset_t before, after;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	cr_assert_eq(swakv_stream_bind_host(session, 0, true), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	cr_expect_eq(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM), "the caller's own mask stays");
	cr_assert_eq(swakv_stream_launch_host(session, 0, look_at_signals, &seen[0]), 0);
	cr_expect_eq(swakv_stream_synchronize(session, 0), 0);
	cr_expect_eq(load_acquire(&seen[0]), 1, "a signal could be handled on the stream's thread");
}

Test(client_stream, close_waits_for_the_streams)
{
	cr_assert_eq(swakv_stream_bind_host(session, 0, true), 0);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(swakv_stream_launch_host(session, 0, i ? look : wait_for_gate, &seen[i]), 0);
	cr_expect_eq(load_acquire(&seen[2]), 0);
	store_release(&gate, 1);
	fake_serve(&fake);
	swakv_session_close(session);
	cr_expect_neq(load_acquire(&seen[2]), 0);
	session = NULL;
}

Test(client_stream, stream_is_bound_once)
{
	cr_expect_eq(swakv_stream_bind_host(session, 1, false), 0);
	cr_expect_eq(swakv_stream_bind_host(session, 1, true), SWAKV_EBUSY);
	cr_expect_eq(swakv_stream_bind_custom(session, 1, &ops, NULL), SWAKV_EBUSY);
	cr_expect_eq(swakv_stream_bind_custom(session, 0, NULL, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_bind_cuda(session, 0, NULL), SWAKV_EUNSUPPORTED);
	cr_expect_eq(swakv_stream_bind_host(session, FAKE_STREAMS, false), SWAKV_EINVALID);
	cr_expect_not_null(strstr(swakv_session_error(session), "stream 2 is outside 0 to 1"));
	cr_expect_null(swakv_stream_cuda(session, 1));
	cr_expect_eq(swakv_stream_bind_custom(session, 0, &ops, &streams[0]), 0);
	cr_expect_eq(swakv_stream_launch_host(session, 0, look, &seen[0]), SWAKV_EUNSUPPORTED);
}
