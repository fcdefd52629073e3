/* SPDX-License-Identifier: Apache-2.0 */
#include "process_state.h"

#include <stdio.h>
#include <string.h>

#include "cleanup.h"

char process_state(int pid)
{
	AUTO_FCLOSE FILE *f = NULL;
	char path[64], line[512];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f))
		return 0;
	p = strrchr(line, ')'); /* the name before it may hold anything */
	return p && p[1] == ' ' ? p[2] : 0;
}

const char *process_silence(char buf[PROCESS_SILENCE], int pid, const char *look)
{
	char state = pid > 0 ? process_state(pid) : 0;

	if (state == 'T')
		snprintf(buf, PROCESS_SILENCE, "its process %d is stopped: resume it with 'kill -CONT %d'", pid, pid);
	else if (state == 't')
		snprintf(buf, PROCESS_SILENCE, "its process %d is held by a debugger: let that continue it, or detach",
			 pid);
	else
		snprintf(buf, PROCESS_SILENCE, "'%s' shows whether it is stuck", look);
	return buf;
}
