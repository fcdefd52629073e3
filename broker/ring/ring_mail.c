/* SPDX-License-Identifier: Apache-2.0 */
/* ring_mail.c - see ring_mail.h */
#include "ring_mail.h"

#include "admin_job.h"
#include "ring_end.h"
#include "ring_publish.h"
#include "ring_wake.h"

static void attach(struct ring_thread *t, struct channel *c)
{
	int code = 0;

	c->device_lost = t->device_lost_ns != 0;
	if (!channel_start(c, t->engine) || !t->edge.watch(t->edge.arg, c->doorbell, c)) {
		if (c->session && session_enlisted(c->session)) {
			session_end(c->session);
			session_reclaim(c->session);
		}
		channel_leave(c);
		code = fault_set(NULL, FAULT_BROKER_MEMORY, -1, 0, 0);
	} else {
		c->state = CHANNEL_ATTACHED;
		c->listed = true;
		tally_join(&t->tallies, c);
		TAILQ_INSERT_TAIL(&t->channels, c, link);
		t->counters.attaches++;
		event_note(&t->events, t->now, STATUS_EVENT_ATTACHED, c);
		ring_changed(t);
	}
	mailbox_post_spsc(t->outbox, MAIL_ATTACHED, c, code);
}

static void forget(struct ring_thread *t, struct channel *c)
{
	ring_wake_forget(t, c);
	t->edge.unwatch(t->edge.arg, c->doorbell);
	if (t->next_glance == c)
		t->next_glance = NULL;
	TAILQ_REMOVE(&t->channels, c, link);
	c->listed = false;
	mailbox_post_spsc(t->outbox, MAIL_FORGOTTEN, c, 0);
}

static void device_lost(struct ring_thread *t, uint64_t since)
{
	struct channel *c;

	t->device_lost_ns = since;
	event_note(&t->events, t->now, STATUS_EVENT_DEVICE_LOST, NULL);
	ring_changed(t);
	TAILQ_FOREACH (c, &t->channels, link) {
		c->device_lost = true;
		if (c->state == CHANNEL_ATTACHED)
			session_refuse_waiting(c->session, FAULT_DEVICE_LOST);
	}
}

uint32_t ring_take_mail(struct ring_thread *t)
{
	struct mail m;
	uint32_t n;

	for (n = 0; mailbox_take_spsc(t->inbox, &m); n++) {
		switch (m.kind) {
		case MAIL_ATTACH:
			attach(t, m.channel);
			break;
		case MAIL_SOCKET_ENDED:
			ring_socket_ended(t, m.channel, m.value != 0);
			break;
		case MAIL_PROCESS_GONE:
			ring_process_gone(t, m.channel);
			break;
		case MAIL_MEMORY_LOST:
			ring_memory_lost(t, m.channel);
			break;
		case MAIL_PUBLISH:
			ring_publish(t);
			break;
		case MAIL_FORGET:
			forget(t, m.channel);
			break;
		case MAIL_ADMIN:
			admin_job_run(m.job, t);
			t->snapshot_due = true; /* who has his answer may look at the page next */
			mailbox_post_job_spsc(t->outbox, MAIL_ADMIN_DONE, m.job);
			break;
		case MAIL_DEVICE_LOST:
			device_lost(t, (uint64_t)m.value);
			break;
		case MAIL_STOP:
			t->stop = true;
			break;
		default: /* the other direction's */
			break;
		}
	}
	return n;
}
