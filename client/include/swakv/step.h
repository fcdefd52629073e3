/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.h - what moves a request: prefill, decode, extend, rewind, compaction
 * (man 3 swakv_step; spec section 3)
 *
 * Each prepare is followed by its complete. The fence of a complete is the point
 * at which the step's device work has ended. With SWAKV_DONE the library marks
 * the stream itself. Several requests of a stream may be given the same mark if
 * it lies behind the work of all of them. A mark that was made before the prepare
 * proves nothing about the step: SWAKV_EINVALID.
 *
 * SWAKV_EDEVICE of a prepare or compaction: it has been prepared, but its table
 * entries did not all reach the device. Complete it with SWAKV_FENCE_FAILED, or
 * abandon the request.
 */
#ifndef SWAKV_STEP_H
#define SWAKV_STEP_H

#include <swakv/request.h>
#include <swakv/stream.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- prefill and decode ------------------------------------------------------------ */

/*
 * @lengths: one a sequence, in tokens, each in [1, max_tokens of begin]. @n: the
 * batch. On success the table updates are enqueued on the request's stream. Once,
 * and first; later chunks are extends.
 * Errors: common, SWAKV_EPOISONED, SWAKV_EPHASE (not the first step), SWAKV_EPENDING (too many completion points are
 * open), SWAKV_EDEVICE.
 */
int swakv_prefill_prepare(swakv_request *r, const int32_t *lengths, uint32_t n, swakv_ticket *ticket);
/* Errors: common, SWAKV_EPOISONED (@fence failed: quarantine), SWAKV_EPHASE (no prefill is pending). */
int swakv_prefill_complete(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket);
/*
 * Advances every sequence by one token, or none.
 * Errors: common, SWAKV_EPOISONED, SWAKV_EPHASE (a step is pending, not prefilled, or finishing), SWAKV_EPENDING (the
 * page lies behind an open completion point, or too many are open), SWAKV_ELIMIT (a sequence is at its length limit:
 * the request is finishing), SWAKV_EDEVICE.
 */
int swakv_decode_prepare(swakv_request *r, swakv_ticket *ticket);
/*
 * Of an extend, too: then all of its tokens stay.
 * Errors: common, SWAKV_EPOISONED (@fence failed: the pages are in quarantine), SWAKV_EPHASE (no step is pending).
 */
int swakv_decode_complete(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket);

/* ---- several tokens ------------------------------------------------------------------ */

/*
 * Advances sequence i by @tokens[i] >= 1 tokens, @n of them, the batch: a chunk
 * of a prompt, or speculated tokens. The table gets the pages that enum
 * swakv_chunk says.
 * Errors: as swakv_decode_prepare(): common, SWAKV_EPOISONED, SWAKV_EPHASE, SWAKV_EPENDING, SWAKV_ELIMIT,
 * SWAKV_EDEVICE; of a step longer than max_advance also SWAKV_ENEVER, SWAKV_ENOPAGES.
 */
int swakv_extend_prepare(swakv_request *r, const int32_t *tokens, uint32_t n, swakv_ticket *ticket);
/*
 * @accepted[i] tokens of sequence i stay, 0 to all of the step, @n of them, the
 * batch; NULL (@n 0): all. Fewer than all needs SWAKV_CHUNK_MAPPED. The pages
 * that this leaves behind are the sequence's own for its next steps; what it has
 * beyond its reservation returns when all the request's fences are reached.
 * Errors: common, SWAKV_EPOISONED (@fence failed: the pages are in quarantine), SWAKV_EPHASE (no step is pending).
 */
int swakv_extend_complete(swakv_request *r, struct swakv_fence fence, const int32_t *accepted, uint32_t n,
			  swakv_ticket *ticket);
/*
 * Takes the last @tokens[i] >= 0 settled tokens of sequence i back, @n of them,
 * the batch; between steps. Pages that become empty are the sequence's own for
 * its next steps.
 * Errors: common, SWAKV_EPOISONED, SWAKV_EPHASE (a step is pending, not prefilled, or finishing), SWAKV_ELIMIT (more
 * than max_rewind below the longest that the sequence ever was; nothing changed).
 */
int swakv_rewind(swakv_request *r, const int32_t *tokens, uint32_t n, swakv_ticket *ticket);

/* ---- many requests ------------------------------------------------------------------- */

/* One entry of a step over several requests: atomic within one, independent between them. */
struct swakv_step {
	uint32_t size;  /* sizeof(struct swakv_step), in each of a list */
	int32_t result; /* out: 0 or the code of this entry */
	swakv_request *request;
	const int32_t *tokens;    /* prepare only: [batch], as of an extend; NULL: one each, a decode */
	const int32_t *accepted;  /* complete only: [batch], as of an extend; NULL: all */
	struct swakv_fence fence; /* complete only */
};
/*
 * Decodes and extends of many requests in one command, 1 to max_batch entries.
 * Result: 0 when every entry is 0, else the first entry's code that is not; when
 * the step is refused as a whole each entry has its code, but of a count above
 * 4096. @steps stays the caller's, and in place until the result is collected;
 * what it points to is copied.
 * Errors: common, and those of swakv_extend_prepare(): SWAKV_EPOISONED, SWAKV_EPHASE, SWAKV_EPENDING, SWAKV_ENEVER,
 * SWAKV_ENOPAGES, SWAKV_ELIMIT, SWAKV_EDEVICE.
 */
int swakv_step_prepare(swakv_session *s, struct swakv_step *steps, uint32_t n, swakv_ticket *ticket);
/* Errors: common, and those of swakv_extend_complete(): SWAKV_EPOISONED, SWAKV_EPHASE. */
int swakv_step_complete(swakv_session *s, struct swakv_step *steps, uint32_t n, swakv_ticket *ticket);

/*
 * What a turn does with one request, in one entry: it completes the last step,
 * and prepares the next or finishes; or one of these; or it begins.
 */
enum swakv_turn_what {
	SWAKV_TURN_COMPLETE = 1,
	SWAKV_TURN_PREPARE = 2,
	SWAKV_TURN_FINISH = 4,
	SWAKV_TURN_BEGIN = 8,
};
struct swakv_turn {
	uint32_t size;                           /* sizeof(struct swakv_turn), in each of a list */
	uint32_t what;                           /* enum swakv_turn_what, bits */
	swakv_request *request;                  /* begin: out, owned by the caller; NULL unless `result` is 0 */
	const int32_t *tokens;                   /* prepare: [batch], as of an extend; NULL: one each, a decode */
	const int32_t *accepted;                 /* complete: [batch], as of an extend; NULL: all */
	struct swakv_fence fence;                /* complete */
	const struct swakv_begin_options *begin; /* begin; wait_ms is 0 */
	int32_t completed;                       /* out: 0 or the code of the complete */
	int32_t result;                          /* out: of the prepare, the finish or the begin */
};
/*
 * One command a step, 1 to max_batch entries, each request in one: all completes
 * in order, then all finishes, begins and prepares, each as its own call would do
 * it (begins that do not wait, decodes and extends). Where a complete is refused,
 * what its entry asks for besides is not tried: SWAKV_EPHASE. A failed fence
 * poisons: all begins and prepares of the turn are SWAKV_EPOISONED.
 * With a @ticket nothing waits: call it behind the mark of the step's work, collect
 * it before the next step's work is enqueued.
 * Result, @turns, and a turn that is refused as a whole: as with swakv_step_prepare().
 * Errors: common, and of single entries those of swakv_extend_complete(), swakv_request_finish(),
 * swakv_request_begin() and swakv_extend_prepare(): SWAKV_EDENIED, SWAKV_EPOISONED, SWAKV_EPHASE, SWAKV_EBUSY,
 * SWAKV_EPENDING, SWAKV_ENEVER, SWAKV_ENOPAGES, SWAKV_ELIMIT, SWAKV_EDEVICE.
 */
int swakv_step_turn(swakv_session *s, struct swakv_turn *turns, uint32_t n, swakv_ticket *ticket);

/* A step that comes again and again. Kept from one call to the next. */
struct swakv_cycle {
	uint32_t size;       /* sizeof(struct swakv_cycle) */
	uint32_t stream;     /* of all requests that complete a step */
	swakv_ticket ticket; /* of the turn that prepares this step, 0: it is prepared; out: of the next, 0: none */
	void *graph;         /* the step's work, as of swakv_stream_replay(); NULL: it has been enqueued */
	struct swakv_turn *turns; /* [n], what comes behind it; the fences are set here */
	uint32_t n;
	uint32_t wait_ms; /* at most, for the answer of `ticket`; 0: timeout_ms of the session */
};
/*
 * Three calls in one: collects `ticket`, launches `graph` (swakv_stream_set_replay() is on meanwhile) or marks the
 * stream, and sends `turns` with that fence. Where something is refused, what comes behind it is not done:
 * of the collect: SWAKV_ETIMEDOUT with `ticket` as it was; else `ticket` is 0, and the turns say what was refused;
 * of the launch or the mark: the step is still prepared, and without work: complete it with SWAKV_FENCE_FAILED;
 * of the turn: the work is enqueued, and the fences are those of the step.
 * A @cycle that is refused as a whole (EINVALID, EPHASE) has changed nothing, and keeps its ticket.
 * Errors: common (also requests of several streams), those of swakv_wait_for(), swakv_stream_replay(),
 * swakv_stream_mark() and swakv_step_turn(): SWAKV_ETIMEDOUT, SWAKV_EDENIED, SWAKV_EPOISONED, SWAKV_EPHASE (also:
 * @graph on a stream not bound with graph_steps), SWAKV_EBUSY, SWAKV_EPENDING, SWAKV_ENEVER, SWAKV_ENOPAGES,
 * SWAKV_ELIMIT, SWAKV_EDEVICE.
 */
int swakv_step_cycle(swakv_session *s, struct swakv_cycle *cycle);

/* ---- compaction ---------------------------------------------------------------------- */

enum { SWAKV_COMPACT_MOVE_ROWS = 1 };
/*
 * @old_to_new: int32[@n], @n the batch: destination of each sequence, or -1 to
 * drop it; each destination in [0, @new_batch) exactly once. @device_mapping: 0,
 * or the address of int32[@n] in the stream's memory that gets a copy of the
 * mapping in stream order. @flags: SWAKV_COMPACT_MOVE_ROWS or 0. After
 * compact_complete the sequences are numbered anew.
 * Errors: common, SWAKV_EPOISONED, SWAKV_EPHASE (a step is pending, not prefilled, or finishing), SWAKV_EPENDING (too
 * many completion points are open), SWAKV_EDEVICE (also when the mapping could not be copied).
 */
int swakv_compact_begin(swakv_request *r, const int32_t *old_to_new, uint32_t n, int32_t new_batch, uint32_t flags,
			uint64_t device_mapping, swakv_ticket *ticket);
/*
 * Errors: common, SWAKV_EPOISONED (@fence failed: the pages are in quarantine), SWAKV_EPHASE (no compaction is
 * pending), SWAKV_EDEVICE.
 */
int swakv_compact_complete(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
