/* SPDX-License-Identifier: Apache-2.0 */
/* screen.c - see screen.h */
#include "screen.h"

#include <ncurses.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "dashboard.h"

struct screen {
	struct dashboard *d;
	int top; /* line of the scrolled part that is shown first */
	bool colours;
};

static bool start(struct screen *x, bool plain)
{
	const char *no_color = getenv("NO_COLOR");

	x->d = calloc(1, sizeof(*x->d));
	if (!x->d)
		return false;
	initscr();
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	if (plain || (no_color && no_color[0]) || !has_colors())
		return true;
	x->colours = true;
	start_color();
	use_default_colors();
	init_pair(TONE_HEAD, COLOR_CYAN, -1);
	init_pair(TONE_WARN, COLOR_YELLOW, -1);
	init_pair(TONE_BAD, COLOR_RED, -1);
	init_pair(TONE_DIM, COLOR_GREEN, -1);
	return true;
}

static int attributes(const struct screen *x, enum tone tone)
{
	if (x->colours)
		return tone == TONE_PLAIN ? A_NORMAL : COLOR_PAIR(tone);
	return tone == TONE_HEAD ? A_BOLD : A_NORMAL;
}

static void draw_line(const struct screen *x, int row, const struct dashboard_line *l)
{
	attrset(attributes(x, l->tone));
	mvaddnstr(row, 0, l->text, COLS);
	attrset(A_NORMAL);
	if (!l->bar || !x->colours || l->bar + l->bar_used + l->bar_quarantined > COLS)
		return;
	mvchgat(row, l->bar, l->bar_used, A_NORMAL, TONE_DIM, NULL);
	mvchgat(row, l->bar + l->bar_used, l->bar_quarantined, A_NORMAL, TONE_BAD, NULL);
}

/* Rows between the head and the line with the keys. */
static int room(const struct screen *x)
{
	int rows = LINES - (int)x->d->n_head - 1;

	return rows > 0 ? rows : 0;
}

static void keep_in_range(struct screen *x)
{
	int most = (int)x->d->n - (int)x->d->n_head - room(x);

	x->top = x->top > most ? most : x->top;
	x->top = x->top < 0 ? 0 : x->top;
}

static void draw_all(struct screen *x)
{
	char keys[DASHBOARD_WIDTH + 1];
	int rows = room(x);

	keep_in_range(x);
	erase();
	for (uint32_t i = 0; i < x->d->n_head && (int)i < LINES - 1; i++)
		draw_line(x, (int)i, &x->d->lines[i]);
	for (int i = 0; i < rows && x->d->n_head + (uint32_t)(x->top + i) < x->d->n; i++)
		draw_line(x, (int)x->d->n_head + i, &x->d->lines[(int)x->d->n_head + x->top + i]);
	snprintf(keys, sizeof(keys), "q quit  s sort: %s  r reverse%s  arrows, PgUp, PgDn, Home scroll",
		 dashboard_sort_name(x->d->sort), x->d->reverse ? " (on)" : "");
	attrset(A_REVERSE);
	mvaddnstr(LINES - 1, 0, keys, COLS);
	attrset(A_NORMAL);
	refresh();
}

enum answer { NOTHING, DRAW, SORTED, QUIT };

static enum answer answer_key(struct screen *x, int key)
{
	switch (key) {
	case 'q':
		return QUIT;
	case 's':
		x->d->sort = (x->d->sort + 1) % SORT_COUNT;
		return SORTED;
	case 'r':
		x->d->reverse = !x->d->reverse;
		return SORTED;
	case KEY_UP:
		x->top--;
		return DRAW;
	case KEY_DOWN:
		x->top++;
		return DRAW;
	case KEY_PPAGE:
		x->top -= room(x);
		return DRAW;
	case KEY_NPAGE:
		x->top += room(x);
		return DRAW;
	case KEY_HOME:
		x->top = 0;
		return DRAW;
	case KEY_RESIZE:
		return DRAW;
	default:
		return NOTHING;
	}
}

/* Answers keys until the next sample is due. False: quit. */
static bool answer_keys(struct screen *x, const struct sample *s, int wait_ms, const volatile sig_atomic_t *interrupted)
{
	uint64_t start_ns = clock_ns();
	int left = wait_ms;

	for (; left > 0 && !*interrupted; left = wait_ms - (int)((clock_ns() - start_ns) / NS_PER_MS)) {
		enum answer a;

		timeout(left);
		a = answer_key(x, getch());
		if (a == QUIT)
			return false;
		if (a == SORTED)
			dashboard_make(x->d, s);
		if (a != NOTHING)
			draw_all(x);
	}
	return !*interrupted;
}

void screen_run(struct sample *s, const struct watch_options *o, const volatile sig_atomic_t *interrupted)
{
	struct screen x = { 0 };

	if (!start(&x, o->plain))
		return;
	for (unsigned long n = 0; !*interrupted;) {
		sample_take(s, o->instance, o->socket);
		dashboard_make(x.d, s);
		draw_all(&x);
		if (++n == o->count || !answer_keys(&x, s, (int)(o->seconds * 1000), interrupted))
			break;
	}
	endwin();
	free(x.d);
}
