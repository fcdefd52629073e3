/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <errno.h>
#include <stdio.h>

static int first_of(const cpu_set_t *set)
{
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, set))
			return i;
	return -1;
}

/* One CPU of @ring, when all share a last-level cache. */
static int one_cache(const cpu_set_t *ring)
{
	int first = first_of(ring);
	cpu_set_t beside, both;

	if (first < 0 || !cpu_list_beside(CPU_LIST_SYS, first, &beside))
		return -1;
	CPU_AND(&both, &beside, ring);
	return CPU_EQUAL(&both, ring) ? first : -1;
}

static void describe(struct machine *m)
{
	size_t size = sizeof(m->text), len = (size_t)snprintf(m->text, size, "%d CPUs", CPU_COUNT(&m->allowed));
	cpu_set_t left = m->allowed, beside;
	char list[CPU_LIST_TEXT];

	for (int cpu, n = 0; len < size && (cpu = first_of(&left)) >= 0; n++) {
		if (!cpu_list_beside(CPU_LIST_SYS, cpu, &beside))
			break;
		len += (size_t)snprintf(m->text + len, size - len, "%s%s", n ? " and " : ", last-level caches of ",
					cpu_list_write(&beside, list));
		CPU_SET(cpu, &beside); /* whatever the kernel says: it is done */
		for (int i = 0; i < CPU_SETSIZE; i++)
			if (CPU_ISSET(i, &beside))
				CPU_CLR(i, &left);
	}
}

int machine_look(struct machine *m, const cpu_set_t *ring)
{
	cpu_set_t both;

	*m = (struct machine){
		.ring = *ring,
	};
	if (sched_getaffinity(0, sizeof(m->allowed), &m->allowed) < 0)
		return -errno;
	CPU_AND(&both, &m->allowed, ring);
	if (!CPU_EQUAL(&both, ring))
		return -EINVAL;
	describe(m);
	m->beside = (uint32_t)(one_cache(ring) + 1);
	return 0;
}
