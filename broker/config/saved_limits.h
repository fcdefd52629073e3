/* SPDX-License-Identifier: Apache-2.0 */
/*
 * saved_limits.h - limits that an administrator wants to last: a file in state_dir, read after the configuration
 *
 * A line a model: "floor=SIZE ceiling=SIZE|none model=NAME", the name to the end
 * of the line. It is read anew for each change, so a line that somebody took out
 * stays out.
 */
#ifndef SWAKV_BROKER_SAVED_LIMITS_H
#define SWAKV_BROKER_SAVED_LIMITS_H

#include "config.h"

struct saved_limit {
	char name[WIRE_MODEL_NAME];
	struct config_size floor, ceiling; /* value 0: none */
};

/*
 * Puts what the file has in place of the limits of *@c, after config_finish(). No file: nothing is saved. 0, or -EINVAL
 * with the sentence.
 */
int saved_limits_read(struct config *c, struct config_error *e);
/*
 * Writes @limit to the file, in place of what it had for that model; a crash leaves the old one or the new one. 0, or
 * -EINVAL with the sentence, and then the file is as it was.
 */
int saved_limits_write(const struct config *c, const struct saved_limit *limit, struct config_error *e);

#endif
