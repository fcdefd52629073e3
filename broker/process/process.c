/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "log/log.h"

/*
 * Descriptors of a session: socket, pidfd, doorbell. Of one whose pages are back: socket, pidfd. The broker's own:
 * about 20, and a session's memory on its way.
 */
enum {
	SESSION_DESCRIPTORS = 6 /* socket and a copy of it, pidfd, doorbell, two memories */,
	LINGERING_DESCRIPTORS = 2,
	OWN_DESCRIPTORS = 32
};

static void raise_limit(int resource, struct rlimit *limit)
{
	if (getrlimit((__rlimit_resource_t)resource, limit) < 0)
		limit->rlim_max = RLIM_INFINITY; /* it shows later */
	limit->rlim_cur = limit->rlim_max;
	setrlimit((__rlimit_resource_t)resource, limit);
}

void process_set_limits(const struct config *c)
{
	uint64_t needed = OWN_DESCRIPTORS + c->max_half_open +
			  (uint64_t)c->max_sessions * (SESSION_DESCRIPTORS + LINGERING_DESCRIPTORS);
	const struct rlimit none = { 0 };
	struct rlimit files, size;

	setrlimit(RLIMIT_CORE, &none);
	raise_limit(RLIMIT_FSIZE, &size);
	raise_limit(RLIMIT_NOFILE, &files);
	if (files.rlim_max < needed)
		log_warning("this process may open %" PRIu64 " files, and %" PRIu32 " sessions with %" PRIu32
			    " more connections need %" PRIu64
			    ": workers may be refused; raise the limit (ulimit -n, LimitNOFILE), or lower "
			    "max_sessions or max_half_open",
			    (uint64_t)files.rlim_max, c->max_sessions, c->max_half_open, needed);
}

static void block(sigset_t *set, int signal)
{
	struct sigaction now;

	if (sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		sigaddset(set, signal);
}

void process_block_signals(sigset_t *set)
{
	static const int fatal[] = { SIGTERM, SIGINT,  SIGHUP, SIGQUIT, SIGUSR1,   SIGUSR2,  SIGALRM,
				     SIGXCPU, SIGPROF, SIGIO,  SIGPWR,  SIGSTKFLT, SIGVTALRM };

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGTERM, SIG_DFL); /* how it is stopped, whoever started it */
	sigemptyset(set);
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
		block(set, fatal[i]);
	for (int s = SIGRTMIN; s <= SIGRTMAX; s++)
		block(set, s);
	pthread_sigmask(SIG_BLOCK, set, NULL);
}

const char *process_error(int error)
{
	switch (error) {
	case EMFILE:
		return "Too many open files: raise the broker's limit (ulimit -n, LimitNOFILE)";
	case ENFILE:
		return "Too many open files on this machine: raise its limit (sysctl fs.file-max)";
	case EFBIG:
		return "File too large: raise the broker's limit on the size of files (ulimit -f, LimitFSIZE)";
	default:
		return strerror(error);
	}
}
