/* SPDX-License-Identifier: Apache-2.0 */
#include "client_fixture.h"

#include <string.h>
#include <unistd.h>

struct fake fake;
swakv_session *session;

struct event events[64];
int n_events;
int apply_result, write_result;

static struct event *event_add(char what, uint32_t stream)
{
	struct event *e = &events[n_events++];

	cr_assert_lt(n_events, 64);
	*e = (struct event){ .what = what,
			     .stream = stream,
			     .armed = load_acquire(&fake.lines[stream].armed),
			     .word = load_acquire(&fake.lines[stream].word) };
	return e;
}

static void on_updates(void *arg, uint32_t stream, uint32_t group, const struct swakv_update *updates, size_t n)
{
	struct event *e = event_add('u', stream);

	e->n = n;
	e->first = updates[0];
}

uint32_t streams[FAKE_STREAMS] = { 0, 1 };

static int custom_apply(void *arg, uint32_t group, const struct swakv_update *updates, size_t n)
{
	struct event *e = event_add('a', *(uint32_t *)arg);

	cr_expect_eq(group, 0);
	e->n = n;
	e->first = updates[0];
	return apply_result;
}

static int custom_write_word(void *arg, uint64_t *word, uint64_t value)
{
	struct event *e = event_add('w', *(uint32_t *)arg);

	e->value = value;
	if (write_result == 0)
		store_release((shm_u64 *)word, value);
	return write_result;
}

static int custom_synchronize(void *arg)
{
	event_add('s', *(uint32_t *)arg);
	return apply_result || write_result;
}

static int custom_copy(void *arg, uint64_t dst, const void *src, size_t bytes)
{
	event_add('c', *(uint32_t *)arg)->n = bytes;
	memcpy((void *)(uintptr_t)dst, src, bytes);
	return 0;
}

const struct swakv_stream_ops ops = { .size = sizeof(ops),
				      .apply = custom_apply,
				      .write_word = custom_write_word,
				      .synchronize = custom_synchronize,
				      .copy = custom_copy };

void client_setup(void)
{
	struct swakv_attach_options o = { .size = sizeof(o), .on_updates = on_updates };

	fake_open(&fake);
	session = fake_attach(&fake, &o);
}

shm_u32 gate;

void wait_for_gate(void *arg)
{
	while (!load_acquire(&gate))
		usleep(1000);
}

void client_teardown(void)
{
	store_release(&gate, 1);
	fake_end(&fake, session);
}

void bind_custom(void)
{
	for (uint32_t i = 0; i < FAKE_STREAMS; i++)
		cr_assert_eq(swakv_stream_bind_custom(session, i, &ops, &streams[i]), 0);
}

uint64_t row_faults(void)
{
	struct swakv_session_counters c = { .size = sizeof(c) };

	swakv_session_get_counters(session, &c);
	return c.row_faults;
}

int32_t device(int row, int half, int column)
{
	return fake.device[(row * 2 + half) * FAKE_WIDTH + column];
}

void assert_device_row(int row, const int32_t k[FAKE_WIDTH])
{
	for (int i = 0; i < FAKE_WIDTH; i++) {
		cr_expect_eq(device(row, 0, i), k[i], "row %d column %d: K is %d", row, i, device(row, 0, i));
		cr_expect_eq(device(row, 1, i), k[i] < 0 ? -1 : k[i] + FAKE_PAGES, "row %d column %d: V is %d", row, i,
			     device(row, 1, i));
	}
}

int decode(swakv_request *r, const struct fake_delivery *d)
{
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_decode_prepare(r, &t), 0);
	fake_take(&fake, WIRE_OP_STEP_PREPARE, &c);
	fake_deliver(&fake, &c, d);
	return swakv_wait(session, t);
}

int complete(swakv_request *r, struct swakv_fence fence)
{
	const struct fake_delivery none = { 0 };
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_decode_complete(r, fence, &t), 0);
	fake_take(&fake, WIRE_OP_STEP_COMPLETE, &c);
	fake_deliver(&fake, &c, &none);
	return swakv_wait(session, t);
}

swakv_request *begin(uint32_t stream, int32_t slot)
{
	return fake_begin(&fake, session, stream, &slot, 1);
}

const struct wire_row row0[] = { { 0, 1, 0, 0 } };

void assert_refused(const struct fake_delivery *d, const char *words)
{
	swakv_request *r;

	bind_custom();
	r = begin(0, 0);
	cr_expect_eq(fake_prefill(&fake, session, r, d), SWAKV_EGONE);
	cr_expect_not_null(strstr(swakv_session_error(session), words), "%s", swakv_session_error(session));
	cr_expect_eq(n_events, 0);
	cr_expect_not(swakv_request_valid(r));
}
