/* SPDX-License-Identifier: Apache-2.0 */
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
static volatile sig_atomic_t caught;

static void note(int signal)
{
	caught = signal;
}

static void set_all(void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler }; /* no SA_RESTART: blocking calls end */

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
}

void interrupt_catch(void)
{
	caught = 0;
	set_all(note);
}

int interrupt_signal(void)
{
	return caught;
}

void interrupt_reset(void)
{
	set_all(SIG_DFL);
}
