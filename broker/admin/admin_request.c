/* SPDX-License-Identifier: Apache-2.0 */
#include "admin_request.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "model_name.h"
#include "names.h"

/* What an operation uses of a request; the rest must be zero. */
static const struct {
	uint32_t flags;
	bool session;
	bool model;
} ops[] = {
	[ADMIN_LIMIT] = { .flags = ADMIN_FLOOR | ADMIN_CEILING | ADMIN_FLOOR_PERCENT | ADMIN_CEILING_PERCENT |
				   ADMIN_SAVE,
			  .model = true },
	[ADMIN_DRAIN] = { .flags = ADMIN_OFF, .model = true },
	[ADMIN_DISCONNECT] = { .session = true },
	[ADMIN_KILL] = { .session = true },
	[ADMIN_STATUS] = { .flags = 0 },
};
_Static_assert(sizeof(ops) / sizeof(ops[0]) == ADMIN_OP_COUNT, "what each operation uses");

const char *admin_op_name(unsigned int op)
{
	NAMES(names, ADMIN_OP_COUNT, ADMIN_OP_NAMES);

	return NAME_OF(names, op);
}

static int refuse(char *why, size_t size, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, size, format, args);
	va_end(args);
	return code;
}

static bool all_zero(const void *p, size_t bytes)
{
	const unsigned char *b = p;

	for (size_t i = 0; i < bytes; i++)
		if (b[i])
			return false;
	return true;
}

static int check_head(const struct admin_request *r, size_t bytes, char *why, size_t size)
{
	if (bytes < offsetof(struct admin_request, op) || r->magic != ADMIN_MAGIC)
		return refuse(why, size, SWAKV_EINVALID, "the message is not a swakv administrator's request");
	if (r->version != ADMIN_VERSION)
		return refuse(why, size, SWAKV_EVERSION,
			      "the request has version %u, this broker speaks %d: use its own swakv-ctl", r->version,
			      ADMIN_VERSION);
	if (bytes != sizeof(*r) || r->size != sizeof(*r))
		return refuse(why, size, SWAKV_EVERSION, "the request has %zu bytes and says %" PRIu32 ", expected %zu",
			      bytes, r->size, sizeof(*r));
	return 0;
}

/* The numbers of a limit. */
static int check_limits(const struct admin_request *r, char *why, size_t size)
{
	const uint32_t floor = ADMIN_FLOOR | ADMIN_FLOOR_PERCENT, ceiling = ADMIN_CEILING | ADMIN_CEILING_PERCENT;

	if ((r->floor && !(r->flags & ADMIN_FLOOR)) || (r->ceiling && !(r->flags & ADMIN_CEILING)) ||
	    (r->flags & floor) == ADMIN_FLOOR_PERCENT || (r->flags & ceiling) == ADMIN_CEILING_PERCENT)
		return refuse(why, size, SWAKV_EINVALID, "%s does not take this limit, or the flag for it is missing",
			      admin_op_name(r->op));
	if ((r->flags & ADMIN_FLOOR_PERCENT && r->floor > 100) ||
	    (r->flags & ADMIN_CEILING_PERCENT && (r->ceiling < 1 || r->ceiling > 100)))
		return refuse(why, size, SWAKV_EINVALID,
			      "limit: a floor is 0 to 100 percent of the pool, and a ceiling 1 to 100");
	if (r->floor > INT64_MAX || r->ceiling > INT64_MAX)
		return refuse(why, size, SWAKV_EINVALID, "limit: more bytes than any pool can have");
	return 0;
}

static int check_fields(const struct admin_request *r, char *why, size_t size)
{
	const char *name = admin_op_name(r->op);

	if (r->op < ADMIN_PING || r->op >= ADMIN_OP_COUNT)
		return refuse(why, size, SWAKV_EUNSUPPORTED, "operation %u is not known to this broker", r->op);
	if (r->flags & ~ops[r->op].flags)
		return refuse(why, size, SWAKV_EINVALID,
			      "%s: flags %" PRIu32 " have an unknown bit (known: %" PRIu32 ")", name, r->flags,
			      ops[r->op].flags);
	if (ops[r->op].session && (r->session == 0 || r->session > ADMIN_MAX_SESSIONS))
		return refuse(why, size, SWAKV_EINVALID, "%s: session %" PRIu32 " is outside 1 to %d", name, r->session,
			      ADMIN_MAX_SESSIONS);
	if (!ops[r->op].session && (r->session || r->generation))
		return refuse(why, size, SWAKV_EINVALID, "%s takes no session", name);
	if (!all_zero(r->model, sizeof(r->model)) && !model_name_received(r->model))
		return refuse(why, size, SWAKV_EINVALID,
			      "%s: the model's name is not valid: it has " MODEL_NAME_RULE ", and zeroes after them",
			      name);
	if (!ops[r->op].model && r->model[0])
		return refuse(why, size, SWAKV_EINVALID, "%s takes no model", name);
	if (r->op == ADMIN_LIMIT && !r->model[0])
		return refuse(why, size, SWAKV_EINVALID, "limit needs a model");
	if (r->reserved0 || !all_zero(r->reserved, sizeof(r->reserved)))
		return refuse(why, size, SWAKV_EINVALID, "a reserved field of the request is not zero");
	return check_limits(r, why, size);
}

int admin_request_check(struct admin_request *out, const void *message, size_t bytes, char *why, size_t size)
{
	int code;

	memset(out, 0, sizeof(*out));
	memcpy(out, message, bytes < sizeof(*out) ? bytes : sizeof(*out));
	code = check_head(out, bytes, why, size);
	return code ? code : check_fields(out, why, size);
}
