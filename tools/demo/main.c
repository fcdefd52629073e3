/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "exits.h"
#include "options.h"
#include "report.h"
#include "usage.h"
#include "worker.h"

static volatile int stop;

static void on_signal(int number)
{
	stop = 1;
}

/* The first SIGTERM or SIGINT asks for an orderly end, a second one kills. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

static int exit_status(const struct worker *w)
{
	if (worker_mismatches(w) || w->stats.cells_wrong || w->stats.vectors_wrong)
		return EXIT_MISMATCH;
	switch (w->code) {
	case SWAKV_OK:
		return EXIT_FINE;
	case SWAKV_EGONE:
	case SWAKV_ETIMEDOUT:
		return EXIT_GONE;
	default:
		break;
	}
	if (!w->trace.n_rows)
		return EXIT_USAGE;
	return w->session ? EXIT_TROUBLE : EXIT_GONE;
}

static struct worker worker;

int main(int argc, char **argv)
{
	struct options opt;
	int status;

	usage_begin("swakv-demo-worker", EXIT_TROUBLE);
	status = options_parse(&opt, argc, argv);
	if (status >= 0)
		return status;
	catch_signals();
	if (worker_init(&worker, &opt) == 0)
		worker_run(&worker, &stop);
	status = exit_status(&worker);
	if (worker.code)
		fprintf(stderr, "swakv-demo-worker: %s: %s\n", opt.name, worker.why);
	if (!report_end(&worker, worker.code           ? "failed"
				 : worker.winding_down ? "stopped"
						       : "done") &&
	    status == EXIT_FINE)
		status = EXIT_TROUBLE;
	worker_deinit(&worker);
	return status;
}
