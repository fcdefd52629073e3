/* SPDX-License-Identifier: Apache-2.0 */
#include "mailbox.h"

#include <ck_ring.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "cleanup.h"
#include "engine/bug.h"

CK_RING_PROTOTYPE(mail, mail)

struct mailbox {
	ck_ring_t ring;
	struct mail *slots;
	int fd;
};

struct mailbox *mailbox_new(uint32_t n_sessions)
{
	struct mailbox *m =
		aligned_alloc(CK_MD_CACHELINE, (sizeof(*m) + CK_MD_CACHELINE - 1) / CK_MD_CACHELINE * CK_MD_CACHELINE);
	unsigned int size = 16;

	if (!m)
		return NULL;
	while (size <= n_sessions * MAILS_PER_SESSION + MAILS_BESIDE)
		size *= 2;
	ck_ring_init(&m->ring, size);
	m->slots = calloc(size, sizeof(*m->slots));
	m->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!m->slots || m->fd < 0)
		return mailbox_free(m);
	return m;
}

struct mailbox *mailbox_free(struct mailbox *m)
{
	if (m) {
		close_fd(&m->fd);
		free(m->slots);
		free(m);
	}
	return NULL;
}

int mailbox_fd(const struct mailbox *m)
{
	return m->fd;
}

static void post_spsc(struct mailbox *m, struct mail *mail)
{
	bool put = ck_ring_enqueue_spsc_mail(&m->ring, m->slots, mail);

	MUST(put); /* its size rules this out: going on would lose track of a session */
	eventfd_write(m->fd, 1);
}

void mailbox_post_spsc(struct mailbox *m, enum mail_kind kind, struct channel *channel, int64_t value)
{
	post_spsc(m, &(struct mail){ .kind = kind, .channel = channel, .value = value });
}

void mailbox_post_job_spsc(struct mailbox *m, enum mail_kind kind, struct admin_job *job)
{
	post_spsc(m, &(struct mail){ .kind = kind, .job = job });
}

bool mailbox_take_spsc(struct mailbox *m, struct mail *out)
{
	return ck_ring_dequeue_spsc_mail(&m->ring, m->slots, out);
}
