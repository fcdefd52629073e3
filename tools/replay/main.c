/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - swakv-replay: arguments, files one by one or several at a time
 *
 * With -j each file is played by a process of its own that writes to a memory
 * file; what it wrote is shown when its turn in the order of files has come.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "interrupt.h"
#include "report.h"
#include "usage.h"
#include "worker.h"

struct options {
	struct run_options run;
	int backend; /* enum backend_word, -1: as the file says */
	bool json;
	int jobs;
};

static const char usage_text[] =
	"usage: swakv-replay [OPTION]... FILE...\n"
	"\n"
	"Plays scenario files against a private broker and real worker processes. FILE \"-\" is standard input.\n"
	"\n"
	"  -J, --jobs N       play N files at a time (default: 1)\n"
	"  -v, --verbose      print every statement, command and answer\n"
	"      --backend host|cuda\n"
	"                     play on this one, whatever the files say\n"
	"  -k, --keep         keep the broker's log, and say where it is\n"
	"  -j, --json         one JSON object a file\n"
	"  -h, --help         this text\n"
	"      --version      the version\n"
	"\n"
	"Exit status: 0 every expectation held, 1 a difference, 2 wrong usage or a file that cannot be read,\n"
	"3 a file could not be played.\n";

/* ---- one file ------------------------------------------------------------------------ */

static void play_file(const char *path, const struct options *options, struct outcome *o)
{
	bool is_stdin = !strcmp(path, "-");
	AUTO_FCLOSE FILE *file = is_stdin ? NULL : fopen(path, "re");
	struct script_error error = { 0 };
	struct script script = { 0 };
	int e;

	*o = (struct outcome){ 0 };
	if (!file && !is_stdin) {
		o->result = RUN_UNREADABLE;
		o->message = strdup(strerror(errno));
		return;
	}
	e = script_parse(&script, is_stdin ? stdin : file, path, &error);
	if (e == 0 && options->backend >= 0)
		script_use_backend(&script, options->backend);
	if (e == 0)
		e = script_check(&script, &error);
	if (e == 0) {
		run_script(&script, &options->run, o);
	} else {
		o->result = RUN_UNREADABLE;
		o->line = error.line;
		o->message = strdup(error.text);
	}
	script_free(&script);
}

static int play_and_report(const char *path, const struct options *options)
{
	struct outcome o;
	int result;

	play_file(path, options, &o);
	if (options->json)
		report_json(path, &o, stdout);
	else
		report_text(path, &o, o.result == RUN_OK || o.result == RUN_DIFFERENCE ? stdout : stderr);
	fflush(stdout);
	result = (int)o.result;
	outcome_clear(&o);
	return result;
}

/* Of two results the one that is told: a file that could not be read or played outweighs a difference. */
static int worse(int a, int b)
{
	return a > b ? a : b;
}

/* ---- several at a time ------------------------------------------------------------------ */

struct job {
	pid_t pid; /* 0: ended, or not begun */
	int output;
	int result; /* once it has ended */
	bool begun;
};

static bool job_start(struct job *job, const char *path, const struct options *options)
{
	pid_t parent = getpid();

	job->output = memfd_create("swakv-replay", MFD_CLOEXEC);
	job->begun = true;
	job->result = RUN_BROKEN;
	if (job->output < 0)
		return false;
	job->pid = fork();
	if (job->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		dup2(job->output, STDOUT_FILENO);
		dup2(job->output, STDERR_FILENO);
		_exit(getppid() == parent ? play_and_report(path, options) : RUN_BROKEN);
	}
	if (job->pid > 0)
		return true;
	job->pid = 0;
	return false;
}

static void job_show(struct job *job)
{
	char buf[4096];
	ssize_t n;

	for (off_t at = 0; (n = pread(job->output, buf, sizeof(buf), at)) > 0; at += n)
		fwrite(buf, 1, (size_t)n, stdout);
	fflush(stdout);
	job->output = close_fd(&job->output);
}

/* Waits until one of the jobs has ended; passes a signal on. False: none runs. */
static bool jobs_wait(struct job *jobs, int n)
{
	bool passed = false;

	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, 0);

		if (pid < 0 && errno == EINTR) {
			for (int i = 0; i < n && !passed; i++)
				if (jobs[i].pid > 0)
					kill(jobs[i].pid, SIGTERM);
			passed = true;
			continue;
		}
		if (pid < 0)
			return false;
		for (int i = 0; i < n; i++) {
			if (jobs[i].pid != pid)
				continue;
			jobs[i].pid = 0;
			jobs[i].result = WIFEXITED(status) ? WEXITSTATUS(status) : RUN_BROKEN;
			return true;
		}
	}
}

static int play_parallel(char **paths, int n, const struct options *options)
{
	struct job *jobs = calloc((size_t)n, sizeof(*jobs));
	int running = 0, next = 0, shown = 0, result = RUN_OK;

	if (!jobs)
		return RUN_BROKEN;
	while (shown < n) {
		while (next < n && running < options->jobs && !interrupt_signal())
			running += job_start(&jobs[next], paths[next], options), next++;
		if (running > 0 && jobs_wait(jobs, n))
			running--;
		for (; shown < next && jobs[shown].pid == 0; shown++) {
			job_show(&jobs[shown]);
			result = worse(result, jobs[shown].result);
		}
		if (interrupt_signal() && running == 0 && shown == next)
			break;
	}
	free(jobs);
	return interrupt_signal() ? RUN_BROKEN : result;
}

static int play_in_order(char **paths, int n, const struct options *options)
{
	int result = RUN_OK;

	for (int i = 0; i < n && !interrupt_signal(); i++)
		result = worse(result, play_and_report(paths[i], options));
	return interrupt_signal() ? RUN_BROKEN : result;
}

/* ---- arguments ----------------------------------------------------------------------------- */

enum { FLAG_BACKEND = 1000, FLAG_VERSION, FLAG_WORKER };

/* "host" or "cuda"; false after a complaint. */
static bool read_backend(const char *text, int *backend)
{
	*backend = !strcmp(text, "host") ? BACKEND_HOST : !strcmp(text, "cuda") ? BACKEND_CUDA : -1;
	return *backend >= 0 || usage_error("--backend needs host or cuda, not", text);
}

static int serve_worker(const char *text)
{
	uint64_t fd;

	return usage_number("--worker-fd", text, 3, 1 << 20, &fd) ? worker_main((int)fd) : RUN_UNREADABLE;
}

/* Returns -1 to go on, else the exit code. */
static int read_arguments(int argc, char **argv, struct options *o)
{
	static const struct option flags[] = { { "jobs", required_argument, NULL, 'J' },
					       { "backend", required_argument, NULL, FLAG_BACKEND },
					       { "verbose", no_argument, NULL, 'v' },
					       { "trace", no_argument, NULL, 'v' }, /* as it was called first */
					       { "keep", no_argument, NULL, 'k' },
					       { "json", no_argument, NULL, 'j' },
					       { "help", no_argument, NULL, 'h' },
					       { "version", no_argument, NULL, FLAG_VERSION },
					       { "worker-fd", required_argument, NULL, FLAG_WORKER }, /* internal */
					       { NULL, 0, NULL, 0 } };
	uint64_t n = 1;
	int flag;

	while ((flag = getopt_long(argc, argv, "J:vjkh", flags, NULL)) != -1) {
		switch (flag) {
		case 'J':
			if (!usage_number("--jobs", optarg, 1, 256, &n))
				return RUN_UNREADABLE;
			o->jobs = (int)n;
			break;
		case FLAG_BACKEND:
			if (!read_backend(optarg, &o->backend))
				return RUN_UNREADABLE;
			break;
		case 'v':
			o->run.trace = true;
			break;
		case 'k':
			o->run.keep = true;
			break;
		case 'j':
			o->json = true;
			break;
		case 'h':
			usage_help(usage_text);
		case FLAG_VERSION:
			usage_version();
		case FLAG_WORKER:
			return serve_worker(optarg);
		default:
			usage_unknown();
			return RUN_UNREADABLE;
		}
	}
	if (optind < argc)
		return -1;
	usage_error("which file? after", argv[argc - 1]);
	return RUN_UNREADABLE;
}

int main(int argc, char **argv)
{
	struct options options = { .jobs = 1, .backend = -1 };
	int code, n;

	usage_begin("swakv-replay", RUN_BROKEN);
	code = read_arguments(argc, argv, &options);
	n = argc - optind;
	if (code >= 0)
		return code;
	/* With --json the objects alone go to standard output. */
	options.run.out = options.json ? stderr : stdout;
	interrupt_catch();
	if (n == 1 || options.jobs == 1)
		return play_in_order(argv + optind, n, &options);
	return play_parallel(argv + optind, n, &options);
}
