/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.h - what exactly was wrong, as a value that crosses the ring
 *
 * A refusal is {code, reason, sequence, got, want}: small, fixed, free of
 * strings. Whoever shows it to a person turns it into a sentence here, so the
 * sentence is the same in the client, the log and a scenario's output.
 */
#ifndef SWAKV_FAULT_H
#define SWAKV_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/error.h>

/*
 * REASON(NAME, code, sentence). In the sentence %s stands for "sequence N: ", %G for "group N: "
 * (both empty when there is none), %g for `got`, %w for `want`, %u and %U for them
 * as values of a timeline (without sign), %x for `got` in hexadecimal, %p for `got` as a phase, %t and %T for `got` and
 * `want` as a transition, %a for `got` as one with its article; %o and %d for what fault_in_flight() noted.
 */
#define FAULT_REASONS(REASON)                                                                                          \
	REASON(NONE, SWAKV_OK, "no fault")                                                                             \
	REASON(POISONED, SWAKV_EPOISONED,                                                                              \
	       "the session is poisoned: %g pages are in quarantine after a failed completion; call "                  \
	       "swakv_session_shutdown() once the device is idle")                                                     \
	REASON(COMPLETION_FAILED, SWAKV_EPOISONED,                                                                     \
	       "the completion failed: the request's %g pages are in quarantine and its handle is no longer valid")    \
	REASON(STILL_POISONED, SWAKV_EPOISONED, "completion failed again: %g pages stay in quarantine")                \
	REASON(NOT_ADMITTED, SWAKV_EPHASE,                                                                             \
	       "a request is prefilled once, and this one is in phase %p already: give later chunks to "               \
	       "swakv_extend_prepare()")                                                                               \
	REASON(NOT_EXECUTING, SWAKV_EPHASE,                                                                            \
	       "this call needs phase executing, the request is in phase %p: prefill it first")                        \
	REASON(TRANSITION_PENDING, SWAKV_EPHASE, "%a is pending: complete it first (or abandon the request)")          \
	REASON(NOT_PENDING, SWAKV_EPHASE, "nothing to complete: no %T is pending (pending: %t)")                       \
	REASON(ACTIVE_REQUESTS, SWAKV_EBUSY, "%g requests are active: finish or abandon them before shutdown")         \
	REASON(BAD_HANDLE, SWAKV_EINVALID, "request handle 0x%x was never given to this session")                      \
	REASON(STALE_HANDLE, SWAKV_EINVALID, "request handle 0x%x belongs to a request that has ended")                \
	REASON(BATCH_SIZE, SWAKV_EINVALID, "a batch has 1 to %w sequences, %g were given")                             \
	REASON(SLOT_RANGE, SWAKV_EINVALID, "%sslot %g is outside 0 to %w")                                             \
	REASON(SLOT_TWICE, SWAKV_EINVALID, "%sslot %g is named twice")                                                 \
	REASON(SLOT_BUSY, SWAKV_EBUSY, "%sslot %g is in use by another request")                                       \
	REASON(SLOT_PENDING, SWAKV_EPENDING,                                                                           \
	       "%sslot %g is still behind value %w of its former stream's timeline; retry, or use that stream")        \
	REASON(STREAM_RANGE, SWAKV_EINVALID, "stream %g is outside 0 to %w")                                           \
	REASON(MAX_TOKENS, SWAKV_EINVALID, "max_tokens %g is outside 0 to %w")                                         \
	REASON(LENGTH_COUNT, SWAKV_EINVALID, "%g lengths were given for a batch of %w sequences")                      \
	REASON(LENGTH_RANGE, SWAKV_EINVALID, "%slength %g is outside 1 to %w")                                         \
	REASON(STEP_TOKENS, SWAKV_EINVALID, "%sa step of %g tokens: a sequence advances by 1 to %w")                   \
	REASON(STEP_ACCEPTED, SWAKV_EINVALID, "%saccepted %g is outside 0 to %w")                                      \
	REASON(STEP_COUNT, SWAKV_EINVALID, "a step has 1 to %w entries, %g were given")                                \
	REASON(MAP_COUNT, SWAKV_EINVALID, "the mapping has %g entries for a batch of %w sequences")                    \
	REASON(MAP_RANGE, SWAKV_EINVALID, "%smapping %g is outside -1 to %w")                                          \
	REASON(MAP_TWICE, SWAKV_EINVALID, "%sdestination %g is used twice")                                            \
	REASON(MAP_HOLE, SWAKV_EINVALID, "no sequence goes to destination %g of %w")                                   \
	REASON(NEW_BATCH, SWAKV_EINVALID, "new batch size %g is outside 0 to %w")                                      \
	REASON(FENCE_KIND, SWAKV_EINVALID, "fence kind %g is unknown")                                                 \
	REASON(FENCE_LINE, SWAKV_EINVALID, "the fence names line %g, the request's stream is %w")                      \
	REASON(FENCE_NOT_ARMED, SWAKV_EINVALID, "fence value %u was never armed on its line (armed: %U)")              \
	REASON(FENCE_COUNT, SWAKV_EINVALID, "%g fences were given, expected %w")                                       \
	REASON(TABLE_ROW, SWAKV_EINVALID, "row %g is outside 0 to %w")                                                 \
	REASON(TABLE_ROW_TWICE, SWAKV_EINVALID, "row %g is set by update %w already")                                  \
	REASON(MAP_ROWS, SWAKV_EINVALID, "the mapping has %g entries for a table of %w rows")                          \
	REASON(TABLE_COLUMN, SWAKV_EINVALID, "%scolumn %g is outside 0 to %w")                                         \
	REASON(TABLE_ID, SWAKV_EINVALID, "%spage id %g is outside 0 to %w")                                            \
	REASON(TABLE_COUNT, SWAKV_EINVALID, "%s%g page ids were given, a row takes 0 to %w")                           \
	REASON(TABLE_NULL, SWAKV_EINVALID, "%sthe page ids are NULL, but the count is %g")                             \
	REASON(TABLE_TWICE, SWAKV_EINVALID, "%spage id %g is in the row already, at column %w")                        \
	REASON(TABLE_GAP, SWAKV_EINVALID, "%scolumn %g: a dense row has no holes, its live part ends at %w")           \
	REASON(TABLE_IDENTITY, SWAKV_EINVALID, "the identity needs %g pages, the pool has %w")                         \
	REASON(TABLE_V_ID, SWAKV_EINVALID, "%scolumn %g: the V id is not the K id plus num_pages (it is %w)")          \
	REASON(STATE_SEQUENCE, SWAKV_EINVALID, "sequence %g is outside the batch (size %w)")                           \
	REASON(GENERATION, SWAKV_EINVALID, "generation %g of the slot is stale, it is now %w")                         \
	REASON(MESSAGE, SWAKV_EINVALID, "the command is malformed: %g bytes, expected %w")                             \
	REASON(OPCODE, SWAKV_EUNSUPPORTED, "operation %g is not known to this broker")                                 \
	REASON(POINTS_FULL, SWAKV_EPENDING,                                                                            \
	       "%g completion points are open, the most this session may have: retry when one is reached")             \
	REASON(PAGES_PENDING, SWAKV_EPENDING,                                                                          \
	       "%s%w pages are needed and %g are available; the others wait behind %o open completion points (the "    \
	       "model declared in_flight %d): retry when they are reached")                                            \
	REASON(REQUESTS_FULL, SWAKV_EBUSY, "%g requests are active, the most this session may have: finish one first") \
	REASON(NEVER_FITS, SWAKV_ENEVER,                                                                               \
	       "the request needs %g pages, the pool can hold %w of this class: fewer sequences, a lower max_tokens, " \
	       "or a larger pool")                                                                                     \
	REASON(NO_PAGES, SWAKV_ENOPAGES,                                                                               \
	       "the request needs %g pages, %w are free now: retry when others have finished")                         \
	REASON(CAPACITY, SWAKV_ELIMIT, "%sat %g tokens, and may hold no more than %w: the request is finishing")       \
	REASON(MODEL_BATCH, SWAKV_EINVALID, "max_batch %g is outside 1 to %w")                                         \
	REASON(MODEL_SEQ, SWAKV_EINVALID, "max_seq %g is outside 1 to %w")                                             \
	REASON(MODEL_KIND, SWAKV_EINVALID, "%Glayer group kind %g is unknown, see enum swakv_group_kind")              \
	REASON(MODEL_WINDOW, SWAKV_EINVALID,                                                                           \
	       "%Gwindow %g is outside 1 to %w; a group that keeps every token is SWAKV_FULL, with window 0")          \
	REASON(MODEL_PAGE_TOKENS, SWAKV_EINVALID, "%Gpage_tokens %g is not a power of two from 16 to 256")             \
	REASON(MODEL_LAYERS, SWAKV_EINVALID, "%Glayers %g is outside 1 to %w")                                         \
	REASON(MODEL_DTYPE, SWAKV_EINVALID, "%Gdtype %g is unknown, see enum swakv_dtype")                             \
	REASON(MODEL_GROUPS, SWAKV_EINVALID, "a model has 1 to %w layer groups, %g were declared")                     \
	REASON(MODEL_FULL, SWAKV_EINVALID,                                                                             \
	       "%Ga full-attention group has no window, but %g was given: window 0, or SWAKV_SLIDING")                 \
	REASON(MODEL_ADVANCE, SWAKV_EINVALID, "max_advance %g is outside 0 (any) to %w")                               \
	REASON(MODEL_PAGE_BYTES, SWAKV_ENEVER,                                                                         \
	       "%Ga page of %g bytes does not fit the pool's half of %w bytes: fewer page_tokens, or a larger pool")   \
	REASON(MODEL_PAGES, SWAKV_EINVALID, "%G%g pages would exceed %w, the most whose V ids fit 32 bits")            \
	REASON(MODEL_TABLE, SWAKV_EINVALID, "%Ga table of %g entries exceeds %w: lower max_batch or max_seq")          \
	REASON(SHUTDOWN_PENDING, SWAKV_EPENDING,                                                                       \
	       "quarantined work of stream %g has not reached value %w of its timeline: retry when it has")            \
	REASON(STREAM_COUNT, SWAKV_EINVALID, "a session has 1 to %w streams, %g were declared")                        \
	REASON(POOL_NAME, SWAKV_EINVALID, "the broker has no pool of that name (it serves %w)")                        \
	REASON(VERSION, SWAKV_EVERSION, "this broker does not speak protocol version %g (it speaks %w)")               \
	REASON(STRUCT_SIZE, SWAKV_EVERSION, "a wire structure has %g bytes in the client and %w in the broker")        \
	REASON(RESERVED, SWAKV_EINVALID, "a reserved field holds %g, it must be 0")                                    \
	REASON(CREDENTIALS, SWAKV_EDENIED,                                                                             \
	       "uid %g is not on the broker's access list: see its allow_uid and allow_gid; in a container its user "  \
	       "namespace has to map that user")                                                                       \
	REASON(NO_PIDFD, SWAKV_EDENIED,                                                                                \
	       "the broker could not get a pidfd of process %g, so it would not notice its death")                     \
	REASON(SESSIONS_FULL, SWAKV_ENOPAGES,                                                                          \
	       "%g sessions are attached, and max_sessions is %w: close one, or raise that")                           \
	REASON(TABLE_AREA, SWAKV_ENOPAGES,                                                                             \
	       "the device table needs %g bytes, the largest free piece of the table area has %w: retry when another " \
	       "session has ended, or give the broker a larger table_area")                                            \
	REASON(BROKER_MEMORY, SWAKV_ENOPAGES, "the broker could not allocate %g bytes for the session")                \
	REASON(STOPPING, SWAKV_EGONE, "the broker is stopping")                                                        \
	REASON(SESSION_ENDED, SWAKV_EGONE, "the session has ended")                                                    \
	REASON(MODEL_KV_HEADS, SWAKV_EINVALID, "%Gkv_heads %g is outside 1 to %w")                                     \
	REASON(MODEL_HEAD_DIM, SWAKV_EINVALID, "%Ghead_dim %g is outside 1 to %w")                                     \
	REASON(MODEL_V_HEAD_DIM, SWAKV_EINVALID, "%Gv_head_dim %g is outside 1 to %w")                                 \
	REASON(COMPACT_FLAGS, SWAKV_EINVALID, "flags %g have an unknown bit (known: %w)")                              \
	REASON(TABLE_NEVER, SWAKV_ENEVER,                                                                              \
	       "the device tables need %g bytes, and a session may have half of the table area, %w: lower max_batch "  \
	       "or max_seq, or give the broker a larger table_area")                                                   \
	REASON(DRAINED, SWAKV_EDENIED,                                                                                 \
	       "an administrator is draining this broker or model: it takes no new sessions or requests until "        \
	       "swakv-ctl drain --off; those in progress may finish")                                                  \
	REASON(MODEL_REWIND, SWAKV_EINVALID, "max_rewind %g is outside 0 to %w")                                       \
	REASON(MODEL_IN_FLIGHT, SWAKV_EINVALID, "in_flight %g is outside 0 (the default, 2) to %w")                    \
	REASON(STATE_GROUP, SWAKV_EINVALID, "group %g is asked for, the session has %w")                               \
	REASON(STEP_COUNTS, SWAKV_EINVALID, "%g counts follow the entries of the step, which list %w together")        \
	REASON(STEP_LISTED, SWAKV_EINVALID, "the entry lists %g counts for a batch of %w sequences")                   \
	REASON(STEP_PART, SWAKV_EINVALID,                                                                              \
	       "%s%g of %w tokens were accepted: only a model with chunk=mapped may keep a part of a step")            \
	REASON(REWIND_COUNT, SWAKV_EINVALID, "%g token counts were given for a batch of %w sequences")                 \
	REASON(REWIND_TOKENS, SWAKV_EINVALID, "%sa rewind by %g tokens is outside 0 to %w")                            \
	REASON(REWIND_LIMIT, SWAKV_ELIMIT, "%sa rewind to %g tokens goes too far: max_rewind allows %w or more")       \
	REASON(RESERVE_TOKENS, SWAKV_EINVALID, "max_tokens %g is below the %w that the request has")                   \
	REASON(STEP_NEVER, SWAKV_ENEVER,                                                                               \
	       "%sthe step needs %g pages, the pool can hold %w of this class: take fewer tokens per step")            \
	REASON(NEVER_TOGETHER, SWAKV_ENEVER,                                                                           \
	       "the layer groups of the request need %g bytes together, the pool has %w, in whole extents: fewer "     \
	       "sequences, a lower max_tokens, or a larger pool")                                                      \
	REASON(STEP_NO_PAGES, SWAKV_ENOPAGES,                                                                          \
	       "%sthe step needs %g pages beyond its reservation, %w are free now: take fewer tokens, or retry when "  \
	       "others have finished")                                                                                 \
	REASON(GROUP_RANGE, SWAKV_EINVALID, "layer group %g is outside 0 to %w")                                       \
	REASON(CEILING_NEVER, SWAKV_ENEVER,                                                                            \
	       "the request needs %g bytes of K and V, and the ceiling of its model is %w: fewer sequences, or a "     \
	       "higher ceiling")                                                                                       \
	REASON(FLOORS_NEVER, SWAKV_ENEVER,                                                                             \
	       "the request needs %g bytes of K and V, and the pool has %w besides the floors of other models: fewer " \
	       "sequences, or lower floors")                                                                           \
	REASON(CEILING, SWAKV_ENOPAGES,                                                                                \
	       "the request needs %g bytes of K and V, and %w are left below the ceiling of its model now")            \
	REASON(FLOORS, SWAKV_ENOPAGES,                                                                                 \
	       "the request needs %g pages, and %w are free now besides what is kept for the floors of other models")  \
	REASON(FLOORS_EXTENTS, SWAKV_ENOPAGES,                                                                         \
	       "the request needs %g pages, and would leave fewer than %w extents for the floors of other models")     \
	REASON(CLAIMED, SWAKV_ENOPAGES,                                                                                \
	       "the request needs %g pages, and %w are free now besides what is kept for a request that has waited "   \
	       "long")                                                                                                 \
	REASON(QUEUE, SWAKV_ENOPAGES, "%g requests of this model are waiting for pages, and may not be overtaken yet") \
	REASON(WAITED, SWAKV_ENOPAGES, "the request has waited %g ms for %w pages, which did not come free")           \
	REASON(WAITS_FULL, SWAKV_EBUSY, "%g requests are waiting, the most this session may have")                     \
	REASON(LIMIT_ORDER, SWAKV_EINVALID, "a floor of %g bytes is above the ceiling of %w")                          \
	REASON(LIMIT_FLOORS, SWAKV_EINVALID,                                                                           \
	       "a floor of %g bytes is more than the %w that the floors of other models leave of the pool: lower one " \
	       "of them first")                                                                                        \
	REASON(LIMIT_NAMES, SWAKV_EBUSY,                                                                               \
	       "%g models without a session have limits, and no more are kept: free one with swakv-ctl limit MODEL "   \
	       "--floor 0 --ceiling none")                                                                             \
	REASON(FLOORS_PAGES_NEVER, SWAKV_ENEVER,                                                                       \
	       "the request needs %g pages, and an empty pool has %w besides the floors of other models")              \
	REASON(WITHDRAWN, SWAKV_ENOPAGES, "the request was withdrawn while it waited for pages")                       \
	REASON(FLOORS_EXTENTS_NEVER, SWAKV_ENEVER,                                                                     \
	       "the request needs %g pages, and in an empty pool would leave fewer than %w extents for the floors of " \
	       "other models")                                                                                         \
	REASON(MODEL_NAME, SWAKV_EINVALID,                                                                             \
	       "the model's name is not 1 to %w printable ASCII characters, no blank first or last")                   \
	REASON(BROKER_FILES, SWAKV_ENOPAGES,                                                                           \
	       "the broker cannot open more files for another session: raise its limit of open files (ulimit -n, "     \
	       "LimitNOFILE), or lower max_sessions and max_half_open")                                                \
	REASON(FLOORS_BYTES, SWAKV_EINVALID,                                                                           \
	       "the floors of all models are %g bytes together, and the pool has %w: lower one of them")               \
	REASON(LIMIT_EXTENTS, SWAKV_EINVALID,                                                                          \
	       "the floors of all models need %g extents together, whole ones for each page size, and the pool has "   \
	       "%w: lower one of them, or make extents smaller")                                                       \
	REASON(FINISHING, SWAKV_EPHASE,                                                                                \
	       "the request is in phase finishing, because of its length limit or an empty batch: only finish and "    \
	       "abandon are left")                                                                                     \
	REASON(UID_HALF_OPEN, SWAKV_ENOPAGES, "a user has %g connections that have not said hello, and may have %w")   \
	REASON(UID_SESSIONS, SWAKV_ENOPAGES, "a user has %g sessions, and may have %w")                                \
	REASON(UID_TABLES, SWAKV_ENOPAGES,                                                                             \
	       "the device tables need %g bytes, and %w are left of the user's share of the table area")               \
	REASON(PAGE_SIZES, SWAKV_ENOPAGES,                                                                             \
	       "pages of %g bytes would be one page size more than the %w that models without a section may have "     \
	       "together: end the sessions of one, or give the model a section")                                       \
	REASON(UID_PAGE_SIZES, SWAKV_ENOPAGES,                                                                         \
	       "pages of %g bytes would be one page size more than the %w that a user may have")                       \
	REASON(LIMIT_POOL, SWAKV_EINVALID, "a floor of %g bytes is more than the pool has for K and V, %w")            \
	REASON(PAGE_SMALL, SWAKV_EINVALID,                                                                             \
	       "%Ga page has %g bytes of K, and the broker takes none below %w: choose more page_tokens, or lower "    \
	       "its min_page_bytes")                                                                                   \
	REASON(MODEL_FORM, SWAKV_EINVALID, "%Gform %g is unknown, see enum swakv_form")                                \
	REASON(MODEL_ORDER, SWAKV_EINVALID, "%Gorder %g is unknown, see enum swakv_order")                             \
	REASON(MODEL_ROWS, SWAKV_EINVALID,                                                                             \
	       "%Gorder rows needs form joined: K and V of a split page lie in two halves")                            \
	REASON(MODEL_ALIGN, SWAKV_EINVALID, "%Galign %g is not a power of two from 1 to %w")                           \
	REASON(MODEL_ALIGN_HALF, SWAKV_EINVALID,                                                                       \
	       "%Galign %g: the V half begins %w bytes behind the K half, which is no multiple of it; choose another " \
	       "size of the pool")                                                                                     \
	REASON(MODEL_K_BYTES, SWAKV_EINVALID, "%Gk_bytes %g is outside 1 to %w")                                       \
	REASON(MODEL_V_BYTES, SWAKV_EINVALID, "%Gv_bytes %g is outside 0 to %w")                                       \
	REASON(MODEL_EXTRA, SWAKV_EINVALID, "%Gextra_bytes %g is outside 0 to %w")                                     \
	REASON(MODEL_BOTH, SWAKV_EINVALID,                                                                             \
	       "%Gk_bytes or v_bytes is given beside kv_heads, head_dim or dtype: declare bytes or heads, and leave "  \
	       "the "                                                                                                  \
	       "others 0")                                                                                             \
	REASON(MODEL_TAG, SWAKV_EINVALID, "%Gthe tag must be up to %w printable ASCII characters, padded with zeroes") \
	REASON(BEGIN_PENDING, SWAKV_EPENDING,                                                                          \
	       "the request needs %g pages, and those it lacks wait behind open completion points of this session: "   \
	       "retry when they are reached")                                                                          \
	REASON(WAITED_PENDING, SWAKV_EPENDING,                                                                         \
	       "the request has waited %g ms, and %w pages, or its slots, are still behind open completion points of " \
	       "this session")                                                                                         \
	REASON(JOIN, SWAKV_EGONE,                                                                                      \
	       "no session has this token (%g.%w): it or its first process has ended, it is another user's, or it "    \
	       "was attached without SWAKV_ATTACH_JOINABLE")                                                           \
	REASON(JOIN_FULL, SWAKV_ENOPAGES, "the session has %g processes, the most that one may have")                  \
	REASON(JOIN_MODEL, SWAKV_EINVALID,                                                                             \
	       "session %g.%w declared another model: a process that joins must declare the same model and streams")   \
	REASON(TAKE_COUNT, SWAKV_EINVALID,                                                                             \
	       "a take of %g to %w pages: the least must be 1 or more, and the most no less than that and up to 4096") \
	REASON(TAKE_FLAGS, SWAKV_EINVALID, "take flags 0x%x have an unknown bit")                                      \
	REASON(GIVE_COUNT, SWAKV_EINVALID, "%g pages were given back: one call takes 1 to %w")                         \
	REASON(GIVE_FENCES, SWAKV_EINVALID, "%g fences were given for %w streams: give one per stream at most")        \
	REASON(GIVE_PAGE, SWAKV_EINVALID,                                                                              \
	       "page %g is not one that this session has taken in layer group %w, or it was given back already")       \
	REASON(GIVE_TWICE, SWAKV_EINVALID, "page %g is listed twice")                                                  \
	REASON(GIVE_FAILED, SWAKV_EPOISONED, "a completion failed: the %g pages that were given are in quarantine")    \
	REASON(TURN_WHAT, SWAKV_EINVALID,                                                                              \
	       "entry %g asks for what cannot be done at once (%w): an entry completes and then prepares or "          \
	       "finishes, "                                                                                            \
	       "does one of these, or begins a request")                                                               \
	REASON(TURN_TWICE, SWAKV_EINVALID,                                                                             \
	       "entries %g and %w name the same request: give it one entry, with all that is to be done")              \
	REASON(TURN_DETAILS, SWAKV_EINVALID, "%g details follow the entries of the step, of which %w have one")        \
	REASON(TURN_WAIT, SWAKV_EINVALID,                                                                              \
	       "a begin in a step does not wait, and %g ms were given: use swakv_request_begin(), or 0")               \
	REASON(DEVICE_LOST, SWAKV_EDEVICE,                                                                             \
	       "the broker has lost its device, and takes no new sessions or requests: start it again when the "       \
	       "device works")

enum fault_reason {
#define FAULT_ENUM(name, code, text) FAULT_##name,
	FAULT_REASONS(FAULT_ENUM)
#undef FAULT_ENUM
		FAULT_REASON_COUNT
};

/* Flat, fixed width: travels in replies and in the welcome. `seq` is -1 when no sequence is meant. */
struct fault {
	int32_t code;    /* enum swakv_code */
	uint32_t reason; /* enum fault_reason */
	int32_t seq;     /* index of the sequence (or step entry, or a model's group) at fault, -1: none */
	uint32_t more;   /* PAGES_PENDING: points open, and steps declared, by fault_in_flight(); else 0 */
	int64_t got;
	int64_t want;
};
_Static_assert(sizeof(struct fault) == 32, "struct fault is part of the protocol");

/* Fills *@f with @reason, its code and the values; returns the code (negative). @f may be NULL. */
int fault_set(struct fault *f, enum fault_reason reason, int32_t seq, int64_t got, int64_t want);

/* The steps that are in flight, and those that were declared: what PAGES_PENDING says beside its values. Returns @code.
 */
int fault_in_flight(struct fault *f, int code, uint32_t open, uint32_t declared);

/* Name of a reason, as "NO_PAGES"; NULL when there is none of that number. Static. */
const char *fault_reason_name(uint32_t reason);

/* Writes the sentence of *@f to @buf (always terminated); returns its length. A bad reason gives the code's text. */
size_t fault_format(const struct fault *f, char *buf, size_t size);

#endif
