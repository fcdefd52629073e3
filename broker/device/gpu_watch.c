/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_watch.c - see gpu_watch.h
 *
 * That a process is absent from NVML's list proves something only when it would
 * be listed otherwise. So it counts only for a process that was seen there while
 * it lived, and only where pids mean the same to NVML as to this process: in the
 * first pid namespace, or when NVML lists this very process by its pid. All else
 * is left to the grace. Under MPS the list names the server's clients, whose
 * kernels may outlive them: not asked there at all. The server is told to end
 * what a dead client has left, and the grace is for that.
 *
 * What is asked and what is answered carry the ticket of the process that they
 * are about, so an answer about the former tenant of a place is none.
 */
#include "gpu_watch.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "log/log.h"
#include "mps.h"
#include "nvml.h"

#define FIRST_PID_NAMESPACE 0xEFFFFFFCu /* its inode number, fixed by the kernel */
#define MAX_PROCESSES       1024

enum { LOOK_DEAD_MS = 20 };

/* Low half of a place's words, beside the ticket. */
enum {
	PID_MASK = 0x3fffffff,
	ASKED_DEAD = 0x40000000, /* with the pid */
	ANSWER_SEEN = 1,
	ANSWER_GONE = 2,
	ANSWER_TOLD = 4, /* the server of MPS was */
};

static uint32_t ticket_of(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

int gpu_watch_init(struct gpu_watch *w)
{
	*w = (struct gpu_watch){ .knock = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	w->told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->knock >= 0 && w->told >= 0)
		return 0;
	gpu_watch_deinit(w);
	return -EMFILE;
}

void gpu_watch_deinit(struct gpu_watch *w)
{
	if (w->knock > 0)
		close_fd(&w->knock);
	if (w->told > 0)
		close_fd(&w->told);
}

/* ---- control thread --------------------------------------------------------------- */

void gpu_watch_begin(struct gpu_watch *w, uint32_t i, pid_t pid)
{
	if (pid > 0 && pid <= PID_MASK)
		store_release(&w->places[i].asked, (uint64_t)++w->tickets << 32 | (uint32_t)pid);
}

void gpu_watch_ended(struct gpu_watch *w, uint32_t i)
{
	uint64_t asked = load_relaxed(&w->places[i].asked);

	if (!asked)
		return;
	store_release(&w->places[i].asked, asked | ASKED_DEAD);
	eventfd_write(w->knock, 1);
}

bool gpu_watch_gone(const struct gpu_watch *w, uint32_t i)
{
	uint64_t answered = load_acquire(&w->places[i].answered);

	return ticket_of(answered) == ticket_of(load_relaxed(&w->places[i].asked)) && (answered & ANSWER_GONE);
}

void gpu_watch_end(struct gpu_watch *w, uint32_t i)
{
	store_release(&w->places[i].asked, 0);
}

/* ---- device thread ------------------------------------------------------------------ */

void gpu_watch_open(struct gpu_watch *w, const uint8_t uuid[16], bool mps)
{
	char why[NVML_WHY] = "the Multi-Process Service runs";

	w->mps = mps;
	if (!mps && nvml_open(&w->nvml, uuid, why) == 0)
		return;
	log_info("NVML is not asked about dead workers, and their pages return after the grace period: %s", why);
}

void gpu_watch_close(struct gpu_watch *w)
{
	w->nvml = nvml_close(w->nvml);
}

static bool in_first_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == FIRST_PID_NAMESPACE;
}

static bool lists(const uint32_t *pids, int n, uint32_t pid)
{
	for (int i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* Something must be asked of NVML. *@dead: and soon. */
static bool any_question(const struct gpu_watch *w, bool *dead)
{
	bool any = false;

	*dead = false;
	for (uint32_t i = 0; i < GPU_WATCH_PLACES; i++) {
		uint64_t asked = load_acquire(&w->places[i].asked), answered = load_relaxed(&w->places[i].answered);
		uint32_t known = ticket_of(answered) == ticket_of(asked) ? (uint32_t)answered : 0;

		if (!asked || (known & ANSWER_GONE))
			continue;
		if (!(asked & ASKED_DEAD) && !(known & ANSWER_SEEN))
			any = true;
		if ((asked & ASKED_DEAD) && (known & ANSWER_SEEN))
			any = *dead = true;
	}
	return any;
}

static void answer(struct gpu_watch *w, struct gpu_watch_place *p, const uint32_t *pids, int n)
{
	uint64_t asked = load_acquire(&p->asked), answered = load_relaxed(&p->answered);
	bool same = ticket_of(answered) == ticket_of(asked), listed;

	if (!asked)
		return;
	listed = lists(pids, n, (uint32_t)asked & PID_MASK);
	if (!(asked & ASKED_DEAD) && listed)
		store_release(&p->answered, (asked & ~(uint64_t)UINT32_MAX) | ANSWER_SEEN);
	if ((asked & ASKED_DEAD) && same && answered & ANSWER_SEEN && !(answered & ANSWER_GONE) && !listed) {
		store_release(&p->answered, answered | ANSWER_GONE);
		eventfd_write(w->told, 1);
	}
}

static void terminate(uint32_t pid)
{
	char why[MPS_WHY] = "";
	int n = mps_terminate_client(pid, why);

	if (n < 0)
		log_caused(LOG_NOBODY, LOG_LEVEL_WARNING,
			   "pid %u: its work under MPS was not ended, and only the grace period protects the next "
			   "owner of its pages: %s",
			   pid, why);
	else
		log_caused(LOG_NOBODY, LOG_LEVEL_INFO, "pid %u: its work under MPS %s", pid,
			   n ? "was ended" : "has ended: no server lists it");
}

/* Each process that has ended, once. */
static void terminate_dead(struct gpu_watch *w)
{
	for (uint32_t i = 0; i < GPU_WATCH_PLACES; i++) {
		struct gpu_watch_place *p = &w->places[i];
		uint64_t asked = load_acquire(&p->asked), answered = load_relaxed(&p->answered);

		if (!(asked & ASKED_DEAD) || (ticket_of(answered) == ticket_of(asked) && answered & ANSWER_TOLD))
			continue;
		store_release(&p->answered, (asked & ~(uint64_t)UINT32_MAX) | ANSWER_TOLD);
		terminate((uint32_t)asked & PID_MASK);
	}
}

int gpu_watch_look(struct gpu_watch *w, int idle_ms)
{
	static uint32_t pids[MAX_PROCESSES];
	bool dead;
	int n;

	if (w->mps)
		terminate_dead(w);
	if (!w->nvml || !any_question(w, &dead))
		return idle_ms;
	n = nvml_processes(w->nvml, pids, MAX_PROCESSES);
	if (n >= 0 && (in_first_namespace() || lists(pids, n, (uint32_t)getpid())))
		for (uint32_t i = 0; i < GPU_WATCH_PLACES; i++)
			answer(w, &w->places[i], pids, n);
	return dead && LOOK_DEAD_MS < idle_ms ? LOOK_DEAD_MS : idle_ms;
}
