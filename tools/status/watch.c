/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include <errno.h>
#include <math.h>
#include <ncurses.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "screen.h"

enum { SCROLL_COLUMNS = 8, MAX_LEFT = 400 };

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
	interrupted = 1;
}

static void catch_signals(void)
{
	struct sigaction a = { .sa_handler = interrupt };

	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
	signal(SIGPIPE, SIG_IGN); /* the write's error ends the watch */
}

static void watch_plain(struct sample *s, const struct view *v, const struct watch_options *o)
{
	struct timespec pause = { .tv_sec = (time_t)o->seconds, .tv_nsec = (long)(fmod(o->seconds, 1) * 1e9) };

	for (unsigned long n = 0; !interrupted;) {
		sample_take(s, o->instance, o->socket);
		view_write(stdout, v, s);
		if (v->format == VIEW_TABLE)
			fputc('\n', stdout);
		if (fflush(stdout) != 0) {
			if (errno == EPIPE) /* the reader has seen enough: no failure */
				clearerr(stdout);
			break;
		}
		if (++n == o->count)
			break;
		nanosleep(&pause, NULL);
	}
}

/* What of a text is on the screen: its line and column in the upper left corner. */
struct corner {
	int top, left;
};

/* Draws as much of @text as fits. Returns how many lines it has. */
static int draw(char *text, const struct corner *at)
{
	int n = 0;

	erase();
	for (char *line = strsep(&text, "\n"); line; line = strsep(&text, "\n"), n++)
		if (n >= at->top && n - at->top < LINES && strlen(line) > (size_t)at->left)
			mvaddnstr(n - at->top, 0, line + at->left, COLS);
	refresh();
	return n;
}

/* The table and, below it, the hint; NULL when memory is short. The caller frees it. */
static char *render(const struct view *v, const struct sample *s)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	table_write(f, v, s);
	if (s->hint[0])
		fprintf(f, "\nhint: %s\n", s->hint);
	fprintf(f, "\nq quits, arrows scroll");
	return fclose(f) == 0 ? text : NULL;
}

/* False: @key is none that scrolls. */
static bool scroll_by(struct corner *at, int key)
{
	switch (key) {
	case KEY_UP:
		at->top -= at->top > 0;
		return true;
	case KEY_DOWN:
		at->top += 1;
		return true;
	case KEY_LEFT:
		at->left -= at->left >= SCROLL_COLUMNS ? SCROLL_COLUMNS : at->left;
		return true;
	case KEY_RIGHT:
		at->left += at->left < MAX_LEFT ? SCROLL_COLUMNS : 0;
		return true;
	default:
		return false;
	}
}

/* Answers keys until the next sample is due. False: quit. */
static bool keys(int wait_ms, struct corner *at)
{
	uint64_t start = clock_ns();
	int left = wait_ms;

	while (left > 0 && !interrupted) {
		int key;

		timeout(left);
		key = getch();
		if (key == 'q')
			return false;
		if (key == KEY_RESIZE || scroll_by(at, key))
			return true;
		left = wait_ms - (int)((clock_ns() - start) / NS_PER_MS);
	}
	return !interrupted;
}

static void open_screen(void)
{
	initscr();
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
}

/* Parts of a sample in full: as the table has them. */
static void watch_text(struct sample *s, const struct view *v, const struct watch_options *o)
{
	struct corner at = { 0, 0 };

	open_screen();
	for (unsigned long n = 0; !interrupted;) {
		AUTO_FREE char *text = NULL;
		int lines;

		sample_take(s, o->instance, o->socket);
		text = render(v, s);
		if (!text)
			break;
		lines = draw(text, &at);
		if (++n == o->count)
			break;
		if (!keys((int)(o->seconds * 1000), &at))
			break;
		if (at.top > lines - 1)
			at.top = lines - 1;
	}
	endwin();
}

static bool watches_all(const struct view *v)
{
	return !v->sessions && !v->requests && !v->quarantine && !v->map && !v->events;
}

void watch(struct sample *s, const struct view *v, const struct watch_options *o)
{
	catch_signals();
	if (v->format != VIEW_TABLE || !isatty(STDOUT_FILENO))
		watch_plain(s, v, o);
	else if (watches_all(v))
		screen_run(s, o, &interrupted);
	else
		watch_text(s, v, o);
}
