/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rewind.c - settled tokens taken back, as far as the model's bound
 *
 * What is retained reaches back max_rewind tokens further than a step needs, so
 * a rewind never wants a page that is gone. The bound counts from the highest
 * endpoint that a sequence ever had.
 */
#include "rewind.h"

#include "agenda.h"
#include "points.h"
#include "transition.h"

static int check_rewind(const struct session *s, const struct request *r, const int32_t *tokens, uint32_t n,
			struct fault *f)
{
	int32_t beyond = -1;

	if (n != r->n_seqs)
		return fault_set(f, FAULT_REWIND_COUNT, -1, n, r->n_seqs);
	for (uint32_t i = 0; i < n; i++) {
		const struct seq *q = request_seq(s, r, i);
		int64_t e = seq_endpoint(r, q);

		if (tokens[i] < 0 || tokens[i] > e)
			return fault_set(f, FAULT_REWIND_TOKENS, (int32_t)i, tokens[i], e);
		if (beyond < 0 && e - tokens[i] < seq_high(r, q) - (int64_t)s->model.max_rewind)
			beyond = (int32_t)i;
	}
	if (beyond >= 0) {
		const struct seq *q = request_seq(s, r, (uint32_t)beyond);

		return fault_set(f, FAULT_REWIND_LIMIT, beyond, seq_endpoint(r, q) - tokens[beyond],
				 seq_high(r, q) - (int64_t)s->model.max_rewind);
	}
	return 0;
}

int request_rewind(struct session *s, uint64_t handle, const int32_t *tokens, uint32_t n, struct fault *f)
{
	struct leaving leaving;
	struct request *r;
	int code;

	if ((code = request_check_executing(s, handle, &r, f)))
		return code;
	if ((code = check_rewind(s, r, tokens, n, f)))
		return code;
	leaving_init(s, r, 0, &leaving);
	for (uint32_t i = 0; i < n; i++) {
		struct seq *q = request_seq(s, r, i);
		int64_t e = seq_endpoint(r, q) - tokens[i];

		q->high = seq_high(r, q);
		seq_settle_back(s, r, q, e, &leaving);
	}
	agenda_build(s, r);
	if (page_chains_count(&leaving.staged, s->n_groups) >
	    0) /* takes no room: the request has a point of that value */
		point_open(s, r->stream, r->last_value, r, &leaving.staged);
	s->change++;
	return 0;
}
