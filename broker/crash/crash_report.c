/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash_report.c - see crash_report.h
 *
 * The engine's own lists may be what is broken, so nothing here looks into them:
 * the pages and sessions are those of the last picture made for the status page,
 * which is flat memory, and every count in it is cut to what fits.
 */
#include "crash_report.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "names.h"

static char build_id[65] = "unknown";
static uintptr_t load_base;
static uint64_t started_ns;

/* ---- before ------------------------------------------------------------------- */

static void take_build_id(const unsigned char *note, size_t bytes)
{
	while (bytes >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *h = (const void *)note;
		size_t name = (h->n_namesz + 3u) & ~3u, length = (h->n_descsz + 3u) & ~3u;
		const unsigned char *id = note + sizeof(*h) + name;

		if (sizeof(*h) + name + length > bytes)
			return;
		if (h->n_type == NT_GNU_BUILD_ID && h->n_descsz <= 32)
			for (uint32_t i = 0; i < h->n_descsz; i++)
				snprintf(build_id + 2 * i, 3, "%02x", id[i]);
		note += sizeof(*h) + name + length;
		bytes -= sizeof(*h) + name + length;
	}
}

/* The first object is the program itself. */
static int look_at_program(struct dl_phdr_info *info, size_t size, void *arg)
{
	load_base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_NOTE)
			take_build_id((const unsigned char *)(load_base + info->dlpi_phdr[i].p_vaddr),
				      info->dlpi_phdr[i].p_memsz);
	return 1;
}

void crash_report_init(void)
{
	started_ns = clock_ns();
	dl_iterate_phdr(look_at_program, NULL);
}

/* ---- what has happened ---------------------------------------------------------- */

static const char *signal_name(int number)
{
	switch (number) {
	case SIGSEGV:
		return " (SIGSEGV)";
	case SIGBUS:
		return " (SIGBUS)";
	case SIGILL:
		return " (SIGILL)";
	case SIGFPE:
		return " (SIGFPE)";
	case SIGABRT:
		return " (SIGABRT)";
	case SIGTRAP:
		return " (SIGTRAP)";
	case SIGSYS:
		return " (SIGSYS)";
	default:
		return "";
	}
}

static void write_signal(struct dump *d, const siginfo_t *info)
{
	dump_count(d, "signal ", (uint64_t)info->si_signo, signal_name(info->si_signo));
	if (info->si_code <= 0) {
		dump_count(d, ", sent by pid ", (uint64_t)info->si_pid, "");
		dump_count(d, " of uid ", info->si_uid, "");
		return;
	}
	if (info->si_signo == SIGSYS) /* the sandbox's: which call it does not have */
		dump_count(d, ", system call ", (uint64_t)info->si_syscall, "");
	dump_text(d, " at address ");
	dump_hex(d, (uintptr_t)info->si_addr);
	dump_count(d, ", code ", (uint64_t)info->si_code, "");
}

static void write_event(struct dump *d, const struct crash_event *e)
{
	if (e->what) {
		dump_text(d, "broken invariant at ");
		dump_text(d, e->file);
		dump_count(d, ":", (uint64_t)e->line, ": ");
		dump_text(d, e->what);
	} else {
		write_signal(d, e->info);
	}
	dump_line(d);
	dump_text(d, "thread ");
	dump_text(d, e->thread);
	dump_count(d, " (tid ", (uint64_t)e->tid, ")");
	if (e->pc) {
		dump_text(d, ", pc ");
		dump_hex(d, e->pc);
		dump_text(d, " (program at ");
		dump_hex(d, load_base);
		dump_text(d, "), sp ");
		dump_hex(d, e->sp);
	}
	dump_line(d);
}

/* ---- the state ------------------------------------------------------------------- */

static uint32_t at_most(uint32_t n, uint32_t most)
{
	return n < most ? n : most;
}

static void write_age(struct dump *d, uint64_t now, uint64_t then)
{
	dump_count(d, ", ", now > then ? (now - then) / NS_PER_MS : 0, " ms ago");
}

static void write_pool(struct dump *d, const struct status_snapshot *s, uint64_t now)
{
	if (s->published_ns) {
		dump_text(d, "pages and sessions as they were");
		write_age(d, now, s->published_ns);
		dump_line(d);
	}
	dump_count(d, "pool: ", s->pool_total, " bytes, ");
	dump_count(d, "", s->pool_held, " held, ");
	dump_count(d, "", s->pool_free, " free, ");
	dump_count(d, "", s->pool_unusable, " unusable");
	dump_line(d);
	for (uint32_t i = 0; i < at_most(s->n_classes, STATUS_MAX_CLASSES); i++) {
		const struct status_class *c = &s->classes[i];

		dump_count(d, "class ", i, ": ");
		dump_count(d, "", c->page_bytes, c->joined ? " bytes a joined page, " : " bytes a page, ");
		dump_count(d, "", (uint64_t)c->pages, " pages in ");
		dump_count(d, "", c->extents, " extents: ");
		dump_count(d, "", (uint64_t)c->free, " free, ");
		dump_count(d, "", (uint64_t)c->leased, " leased, ");
		dump_count(d, "", (uint64_t)c->quarantined, " quarantined");
		dump_line(d);
	}
	dump_count(d, "counters: ", s->attaches, " attaches, ");
	dump_count(d, "", s->deaths, " deaths, ");
	dump_count(d, "", s->kicked, " ended, ");
	dump_count(d, "", s->commands, " commands, ");
	dump_count(d, "", s->refusals, " refusals, ");
	dump_count(d, "", s->rounds, " rounds");
	dump_line(d);
}

NAMES(op_names, WIRE_OP_COUNT, WIRE_OP_NAMES);
NAMES(state_names, STATUS_SESSION_STATE_COUNT, STATUS_SESSION_STATE_NAMES);

static void write_session(struct dump *d, struct status_session *x, uint64_t now)
{
	x->model[sizeof(x->model) - 1] = '\0';
	dump_count(d, "session ", x->id, ".");
	dump_count(d, "", x->generation, ": pid ");
	dump_signed(d, x->pid);
	dump_count(d, " uid ", x->uid, " ");
	dump_text(d, NAME_OF(state_names, x->state));
	dump_text(d, x->poisoned ? ", poisoned" : "");
	dump_count(d, ", ", x->n_requests, " requests, ");
	dump_count(d, "", (uint64_t)x->leased, " leased, ");
	dump_count(d, "", (uint64_t)x->quarantined, " quarantined, last ");
	dump_text(d, NAME_OF(op_names, x->last_op));
	dump_text(d, " -> ");
	dump_signed(d, x->last_code);
	if (x->last_ns)
		write_age(d, now, x->last_ns);
	dump_text(d, ", model ");
	dump_text(d, x->model);
	dump_line(d);
}

/* Newest first: that one may have been under way. */
static void write_commands(struct dump *d, const struct ring_trace *t)
{
	uint32_t n = at_most(t->n, RING_TRACE_COMMANDS);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = (t->n - 1 - i) % RING_TRACE_COMMANDS;

		dump_count(d, i ? "before it session " : "last command: session ", t->last[at].session, ", ");
		dump_text(d, NAME_OF(op_names, t->last[at].op));
		dump_line(d);
	}
}

void crash_report(struct dump *d, const struct crash_event *e, const struct crash_subject *s)
{
	uint64_t now = clock_ns();

	dump_text(d, "swakvd " SWAKV_VERSION ", build ");
	dump_text(d, build_id);
	dump_count(d, ", pid ", (uint64_t)getpid(), ", ");
	dump_count(d, "up ", (now - started_ns) / NS_PER_S, " s");
	dump_line(d);
	write_event(d, e);
	if (s->trace)
		write_commands(d, s->trace);
	if (!s->picture)
		return;
	write_pool(d, s->picture, now);
	for (uint32_t i = 0; i < at_most(s->picture->n_sessions, STATUS_MAX_SESSIONS); i++)
		write_session(d, &s->picture->sessions[i], now);
}
