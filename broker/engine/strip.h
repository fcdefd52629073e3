/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strip.h - pages that lie side by side
 *
 * Pages that come and go together mostly do. What is noted of each page is noted
 * for a strip at once, several pages with one instruction.
 */
#ifndef SWAKV_ENGINE_STRIP_H
#define SWAKV_ENGINE_STRIP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct strip {
	int32_t first; /* the lowest */
	int32_t n;     /* 1 at least */
	bool down;     /* in order from the highest id to the lowest */
};

/* Four numbers, at any address. */
typedef uint32_t strip_lanes __attribute__((vector_size(16), aligned(1), may_alias));
enum { STRIP_LANES = 4, STRIP_BLOCK = 4 * STRIP_LANES };

/* @id, @id + @step and so on. */
static inline strip_lanes strip_ids(uint32_t id, uint32_t step)
{
	return (strip_lanes){ id, id + step, id + 2 * step, id + 3 * step };
}

static inline bool strip_any(strip_lanes lanes)
{
	uint64_t half[2];

	memcpy(half, &lanes, sizeof(half));
	return half[0] | half[1];
}

/* How many of the @n numbers are @id, @id + @step and so on, from the first on. */
static inline int32_t strip_count(const uint32_t *a, int32_t n, uint32_t id, uint32_t step)
{
	strip_lanes want = strip_ids(id, step), more = (strip_lanes){ 0 } + STRIP_LANES * step;
	int32_t i = 0;

	for (; i + STRIP_BLOCK <= n; i += STRIP_BLOCK) {
		const strip_lanes *at = (const strip_lanes *)(a + i);
		strip_lanes w1 = want + more, w2 = w1 + more, w3 = w2 + more;

		if (strip_any((at[0] ^ want) | (at[1] ^ w1) | (at[2] ^ w2) | (at[3] ^ w3)))
			break;
		want = w3 + more;
	}
	while (i < n && a[i] == id + (uint32_t)i * step)
		i++;
	return i;
}

/* Of the @n (1 at least) @ids, which may be any numbers, as many as lie side by side from the first on, up or down. */
static inline struct strip strip_find(const int32_t *ids, int32_t n)
{
	const uint32_t *a = (const uint32_t *)ids;
	uint32_t step = n > 1 ? a[1] - a[0] : 0;
	struct strip s = { ids[0], 1, false };

	if (step != 1 && step != UINT32_MAX)
		return s;
	s.n = strip_count(a, n, a[0], step);
	s.down = step != 1;
	if (s.down)
		s.first = ids[s.n - 1];
	return s;
}

/* Writes @n numbers: @id, @id + @step and so on. */
static inline void strip_write(uint32_t *a, int32_t n, uint32_t id, uint32_t step)
{
	strip_lanes lanes = strip_ids(id, step), more = (strip_lanes){ 0 } + STRIP_LANES * step;
	int32_t i = 0;

	for (; i + STRIP_BLOCK <= n; i += STRIP_BLOCK) {
		strip_lanes *at = (strip_lanes *)(a + i);

		at[0] = lanes;
		at[1] = lanes += more;
		at[2] = lanes += more;
		at[3] = lanes += more;
		lanes += more;
	}
	for (; i < n; i++)
		a[i] = id + (uint32_t)i * step;
}

/* @n numbers become their complements. */
static inline void strip_invert(uint32_t *a, int32_t n)
{
	int32_t i = 0;

	for (; i + STRIP_LANES <= n; i += STRIP_LANES)
		*(strip_lanes *)(a + i) = ~*(strip_lanes *)(a + i);
	for (; i < n; i++)
		a[i] = ~a[i];
}

/* The ids of @s in their order. */
static inline void strip_list(struct strip s, int32_t *ids)
{
	strip_write((uint32_t *)ids, s.n, (uint32_t)(s.down ? s.first + s.n - 1 : s.first), s.down ? UINT32_MAX : 1);
}

/* ---- a byte for each page --------------------------------------------------------- */

/* All of the @n bytes are @from, but for the bits of @any; now they are @to. False: some were not, and all are @to. */
static inline bool strip_turn(uint8_t *bytes, int32_t n, uint8_t from, uint8_t any, uint8_t to)
{
	const uint32_t each = 0x01010101;
	strip_lanes was = (strip_lanes){ 0 } + from * each, is = (strip_lanes){ 0 } + to * each, lanes = { 0 };
	uint8_t wrong = 0;
	int32_t i = 0;

	for (; i + (int32_t)sizeof(lanes) <= n; i += (int32_t)sizeof(lanes)) {
		lanes |= *(strip_lanes *)(bytes + i) ^ was;
		*(strip_lanes *)(bytes + i) = is;
	}
	for (; i < n; i++) {
		wrong |= bytes[i] ^ from;
		bytes[i] = to;
	}
	return !strip_any(lanes & ~((strip_lanes){ 0 } + any * each)) && !(wrong & ~any);
}

/* ---- a bit for each page ---------------------------------------------------------- */

enum { STRIP_WORD = 64 };

/* The bits of the pages of @s in the word that the first of them is in, and *@n: how many those are. */
static inline uint64_t strip_bits(struct strip s, int32_t *n)
{
	int32_t at = (int32_t)((uint32_t)s.first % STRIP_WORD);

	*n = s.n < STRIP_WORD - at ? s.n : STRIP_WORD - at;
	return ~UINT64_C(0) >> (STRIP_WORD - *n) << at;
}

/* The bits of all pages of @s are set. */
static inline bool strip_is_set(const uint64_t *bits, struct strip s)
{
	uint64_t lacking = 0;

	for (int32_t n; s.n > 0; s.first += n, s.n -= n)
		lacking |= strip_bits(s, &n) & ~bits[(uint32_t)s.first / STRIP_WORD];
	return lacking == 0;
}

/* Sets them, or clears them. */
static inline void strip_set(uint64_t *bits, struct strip s)
{
	for (int32_t n; s.n > 0; s.first += n, s.n -= n)
		bits[(uint32_t)s.first / STRIP_WORD] |= strip_bits(s, &n);
}

static inline void strip_clear(uint64_t *bits, struct strip s)
{
	for (int32_t n; s.n > 0; s.first += n, s.n -= n)
		bits[(uint32_t)s.first / STRIP_WORD] &= ~strip_bits(s, &n);
}

#endif
