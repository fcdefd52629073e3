/* SPDX-License-Identifier: Apache-2.0 */
/* stream_custom.c - a stream of the caller's making: every operation is the caller's */
#include <stdlib.h>

#include "launch.h"
#include "stream.h"

struct custom {
	struct swakv_stream_ops ops;
	void *arg;
};

static int custom_apply(struct stream *st, uint32_t group, const struct swakv_update *updates, size_t n)
{
	struct custom *c = st->impl;
	int r = c->ops.apply(c->arg, group, updates, n);

	return r == 0 ? 0 : stream_fail(st, SWAKV_EDEVICE, "the stream's own apply returned %d", r);
}

static int custom_write_word(struct stream *st, uint64_t value)
{
	struct custom *c = st->impl;
	int r = c->ops.write_word(c->arg, (uint64_t *)&st->line->word, value);

	return r == 0 ? 0 : stream_fail(st, SWAKV_EDEVICE, "the stream's own write_word returned %d", r);
}

static int scrub_part(void *arg, const struct kernel_scrub *p)
{
	struct stream *st = arg;

	return driver_run_scrub(st->driver, NULL, p) < 0 ? stream_fail(st, SWAKV_EDEVICE, "%s", driver_why(st->driver))
							 : 0;
}

/* Done before this returns, whatever the stream is: nothing of anybody uses those pages yet. */
static int custom_scrub(struct stream *st, uint32_t group, const int32_t *pages, size_t n)
{
	int r;

	if (!st->driver) {
		stream_scrub_cpu(&st->targets[group], pages, n);
		return 0;
	}
	r = stream_scrub_parts(&st->targets[group], pages, n, scrub_part, st);
	if (r == 0 && driver_stream_synchronize(st->driver, NULL) < 0)
		r = stream_fail(st, SWAKV_EDEVICE, "%s", driver_why(st->driver));
	return r;
}

static int custom_copy(struct stream *st, uint64_t dst, const void *src, size_t bytes)
{
	struct custom *c = st->impl;
	int r;

	if (!c->ops.copy)
		return stream_fail(st, SWAKV_EUNSUPPORTED, "the stream has no copy operation");
	r = c->ops.copy(c->arg, dst, src, bytes);
	return r == 0 ? 0 : stream_fail(st, SWAKV_EDEVICE, "the stream's own copy returned %d", r);
}

static int copy_share(struct stream *st, uint64_t dst, uint64_t src, size_t bytes)
{
	struct custom *c = st->impl;
	int r = c->ops.move(c->arg, dst, src, bytes);

	return r == 0 ? 0 : stream_fail(st, SWAKV_EDEVICE, "the stream's own move returned %d", r);
}

static int custom_move(struct stream *st, uint32_t group, const struct page_move *moves, size_t n)
{
	if (st->fixed)
		return stream_fail(st, SWAKV_EUNSUPPORTED, "the stream has no move operation");
	return stream_move_parts(st, group, moves, n, copy_share);
}

static int custom_synchronize(struct stream *st)
{
	struct custom *c = st->impl;
	int r = c->ops.synchronize(c->arg);

	return r == 0 ? 0 : stream_fail(st, SWAKV_EDEVICE, "the stream's own synchronize returned %d", r);
}

static void custom_deinit(struct stream *st)
{
	free(st->impl);
}

static const struct stream_backend custom_backend = {
	.name = "custom",
	.apply = custom_apply,
	.write_word = custom_write_word,
	.scrub = custom_scrub,
	.copy = custom_copy,
	.move = custom_move,
	.synchronize = custom_synchronize,
	.deinit = custom_deinit,
};

int stream_bind_custom(struct stream *st, const struct swakv_stream_ops *ops, void *arg)
{
	struct custom *c;

	if (st->backend)
		return stream_fail(st, SWAKV_EBUSY, "it is bound already (%s)", st->backend->name);
	if (!ops->apply || !ops->write_word || !ops->synchronize)
		return stream_fail(st, SWAKV_EINVALID, "apply, write_word and synchronize must all be given");
	c = malloc(sizeof(*c));
	if (!c)
		return stream_fail(st, SWAKV_ENOMEM, "out of memory");
	*c = (struct custom){ .ops = *ops, .arg = arg };
	st->impl = c;
	st->backend = &custom_backend;
	st->fixed = !ops->move;
	return 0;
}
