/* SPDX-License-Identifier: Apache-2.0 */
#include "step_list.h"

#include <inttypes.h>

#include "wire.h"

/* Most lists are of the library's own version: then a look at each size is enough. */
static bool are_own(const struct sized *kind, const void *list, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && sized_of((const char *)list + (size_t)i * kind->size) == kind->size)
		i++;
	return i == n;
}

bool step_list_check(struct swakv_session *s, const struct sized *kind, const char *name, const void *list, uint32_t n,
		     int *r)
{
	char why[SESSION_ERROR];
	uint32_t bad = 0;

	if (list && n <= WIRE_MAX_BATCH && /* no list has more, and nothing of such a one is touched */
	    (are_own(kind, list, n) || sized_check_list(kind, list, n, &bad, why, sizeof(why))))
		return true;
	if (*r < 0)
		return false;
	if (!list)
		*r = session_error(s, SWAKV_EINVALID, "%s is NULL, and a count of %" PRIu32 " was given", name, n);
	else if (n > WIRE_MAX_BATCH)
		*r = session_error(s, SWAKV_EINVALID, "a step has 1 to %d entries, %" PRIu32 " were given",
				   WIRE_MAX_BATCH, n);
	else
		*r = session_error(s, SWAKV_EINVALID, "entry %" PRIu32 ": %s", bad, why);
	return false;
}

void step_request_refuse(struct swakv_session *s, uint32_t i, const struct swakv_request *request)
{
	session_error(s, SWAKV_EINVALID, "entry %" PRIu32 " %s", i,
		      request ? "is a request of another session" : "has no request");
}
