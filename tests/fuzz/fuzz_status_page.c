/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_status_page.c - the status tool against a page of any content
 *
 * A good page is overwritten in places that the input names, then the tool
 * takes its sample and writes all its views. Whatever the page holds: the
 * sample's indices stay inside, JSON parses, no view has control characters.
 * The number of the snapshot is left alone: that is what says it is torn.
 */
#include <errno.h>

#include "input.h"
#include "shown.h"
#include "view.h"

enum { N_EXTENTS = 64, N_TOUCHED = 1024, MOST_RUN = 1024 };

static struct status_writer writer;
static struct status_snapshot good;
static struct status_head good_head;
static struct sample *sample;
static char name[WIRE_NAME];
static size_t touched[N_TOUCHED], n_touched; /* where a recorded snapshot has up to MOST_RUN bytes */

static void close_writer(void)
{
	status_writer_close(&writer);
}

/* Where the writer's current snapshot lies. */
static struct status_snapshot *current(void)
{
	return (void *)((char *)writer.head + good_head.head_bytes +
			(load_relaxed(&writer.head->current) & 1) * good_head.snapshot_bytes);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct status_snapshot *s;

	int e = -EEXIST;

	/* The first name that no other fuzzer lives under: what a crash left behind is taken over by the next run. */
	for (int i = 0; i < 64 && e == -EEXIST; i++) {
		snprintf(name, sizeof(name), "fuzz-%d", i);
		e = status_writer_open(&writer, name);
	}
	sample = malloc(sizeof(*sample));
	FUZZ_CHECK(sample && e == 0);
	atexit(close_writer);
	status_writer_ready(&writer);
	s = status_writer_begin(&writer);
	s->n_classes = 2;
	s->n_sessions = s->n_requests = 3;
	s->n_sequences = s->n_bindings = 8;
	for (uint32_t i = 0; i < 3; i++) {
		s->sessions[i] = (struct status_session){ .id = i,
							  .model = "model",
							  .n_groups = 1,
							  .groups = { { .class_index = i & 1 } },
							  .quarantined = i };
		s->requests[i] = (struct status_request){ .session = i, .n_sequences = 2, .first_sequence = 2 * i };
	}
	for (uint32_t i = 0; i < 8; i++)
		s->sequences[i] = (struct status_sequence){ .n_bound = 1, .first_binding = i };
	s->n_extents = s->pool_extents = N_EXTENTS;
	for (uint8_t i = 0; i < N_EXTENTS; i++)
		s->extents[i] = (struct status_extent){ .page_class = i & 1, .live = i, .session = i % 3 };
	s->events_ever = 300; /* the ring has been filled, and goes on */
	for (uint32_t i = 0; i < STATUS_MAX_EVENTS; i++)
		s->events[i] = (struct status_event){ .kind = 1 + i % (STATUS_EVENT_KIND_COUNT - 1), .session = i };
	status_writer_commit(&writer);
	memcpy(&good_head, writer.head, sizeof(good_head));
	memcpy(&good, current(), sizeof(good));
	sample_take(sample, name, NULL);
	FUZZ_CHECK(sample->verdict == VERDICT_RUNNING && sample->snapshot.n_sessions == 3);
	return 0;
}

/* One change: which part, where in the first 1024 bytes of it, what. */
static void overwrite(struct input *in)
{
	struct status_snapshot *s = current();
	struct {
		void *at;
		size_t bytes;
	} parts[] = {
		{ &writer.head->version,
		  offsetof(struct status_head, current) - offsetof(struct status_head, version) },
		{ &s->published_ns, offsetof(struct status_snapshot, classes) - sizeof(s->number) },
		{ &s->n_classes, 6 * sizeof(uint32_t) },
		{ s->classes, 1024 },
		{ s->sessions, 1024 },
		{ s->requests, 1024 },
		{ s->sequences, 1024 },
		{ s->bindings, 1024 },
		{ s->extents, sizeof(s->extents[0]) * N_EXTENTS },
		{ s->events, 1024 },
	};
	static const uint32_t edges[] = { 0, 1, UINT32_MAX, UINT32_MAX - 1, 1u << 31, STATUS_MAX_BINDINGS };
	unsigned part = input_u8(in) % (sizeof(parts) / sizeof(parts[0]));
	size_t at = input_u16(in) % parts[part].bytes, n = 1 + input_u8(in) % 8;
	uint8_t edge = input_u8(in);

	if (edge >= 128) { /* a whole field gets a value that sums overflow with */
		at &= ~(size_t)3;
		memcpy((char *)parts[part].at + at, &edges[edge % 6], sizeof(edges[0]));
		return;
	}
	if (n > parts[part].bytes - at)
		n = parts[part].bytes - at;
	input_bytes(in, (char *)parts[part].at + at, n);
}

/* A page as a broker has left it: runs of bytes of the head or of its snapshot. */
static void take_recorded(struct input *in)
{
	size_t number = sizeof(good.number);
	struct {
		char *at;
		size_t bytes;
	} parts[] = {
		{ (char *)&writer.head->version,
		  offsetof(struct status_head, current) - offsetof(struct status_head, version) },
		{ (char *)current() + number, sizeof(good) - number },
	};

	input_u32(in); /* the magic */
	input_u32(in);
	memset(parts[1].at, 0, offsetof(struct status_snapshot, classes) - number);
	while (in->left > 0) {
		unsigned part = input_u8(in) & 1;
		size_t at = input_u32(in) % parts[part].bytes, n = input_u16(in) % (MOST_RUN + 1);

		n = n < parts[part].bytes - at ? n : parts[part].bytes - at;
		if (n_touched == N_TOUCHED)
			return;
		if (part)
			touched[n_touched++] = number + at;
		input_bytes(in, parts[part].at + at, n);
	}
}

static void restore(void)
{
	struct status_snapshot *s = current();

	memcpy(&writer.head->version, &good_head.version,
	       offsetof(struct status_head, current) - offsetof(struct status_head, version));
	memcpy(s, &good, offsetof(struct status_snapshot, classes));
	memcpy(s->classes, good.classes, 1024);
	memcpy(s->sessions, good.sessions, 1024);
	memcpy(s->requests, good.requests, 1024);
	memcpy(s->sequences, good.sequences, 1024);
	memcpy(s->bindings, good.bindings, 1024);
	memcpy(s->extents, good.extents, sizeof(s->extents[0]) * N_EXTENTS);
	memcpy(s->events, good.events, 1024);
	for (; n_touched > 0; n_touched--) {
		size_t at = touched[n_touched - 1], n = sizeof(good) - at < MOST_RUN ? sizeof(good) - at : MOST_RUN;

		memcpy((char *)s + at, (char *)&good + at, n);
	}
}

static void check_indices(const struct status_snapshot *s)
{
	for (uint32_t i = 0; i < s->n_sessions; i++) {
		FUZZ_CHECK(s->sessions[i].n_groups >= 1 && s->sessions[i].n_groups <= WIRE_MAX_GROUPS);
		for (uint32_t k = 0; k < s->sessions[i].n_groups; k++)
			FUZZ_CHECK(s->sessions[i].groups[k].class_index < s->n_classes);
	}
	for (uint32_t i = 0; i < s->n_extents; i++)
		FUZZ_CHECK(s->extents[i].page_class == STATUS_NO_CLASS || s->extents[i].page_class < s->n_classes);
	for (uint32_t i = 0; i < s->n_requests; i++) {
		FUZZ_CHECK(s->requests[i].session < s->n_sessions);
		FUZZ_CHECK(s->requests[i].first_sequence == STATUS_NOT_LISTED ||
			   s->requests[i].first_sequence + (uint64_t)s->requests[i].n_sequences *
								   s->sessions[s->requests[i].session].n_groups <=
				   s->n_sequences);
	}
	for (uint32_t i = 0; i < s->n_sequences; i++)
		FUZZ_CHECK(s->sequences[i].first_binding == STATUS_NOT_LISTED ||
			   (uint64_t)s->sequences[i].first_binding + s->sequences[i].n_bound +
					   s->sequences[i].n_retiring <=
				   s->n_bindings);
}

/* Writes the view in @format and checks that it is text; JSON must parse. */
static void check_view(struct view *v, enum view_format format)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	FUZZ_CHECK(f);
	v->format = format;
	view_write(f, v, sample);
	FUZZ_CHECK(fclose(f) == 0);
	shown_check(text, size, format == VIEW_JSON);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	bool recorded = input_is_recorded(&in, STATUS_MAGIC);
	uint8_t what = recorded ? 1 | 2 | 4 : input_u8(&in);
	struct view v = { .sessions = what & 1,
			  .requests = what & 2,
			  .quarantine = what & 4,
			  .one_session = what & 8,
			  .session = 1,
			  .one_request = what & 16 };

	if (recorded)
		take_recorded(&in);
	while (in.left > 0)
		overwrite(&in);
	sample_take(sample, name, NULL);
	if (sample->has_snapshot) {
		check_indices(&sample->snapshot);
		view_found(&v, &sample->snapshot);
	}
	for (int format = VIEW_TABLE; format <= VIEW_PROMETHEUS; format++)
		check_view(&v, format);
	restore();
	return 0;
}
