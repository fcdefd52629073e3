/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c - see plan.h
 *
 * The table area comes first, a multiple of 4 KiB; the rest is cut in two
 * halves. A size given in bytes is kept to 16 bytes, so that a pool of exactly
 * so many pages can be asked for; a percentage is rounded down to 2 MiB.
 *
 * V pages lie at the distance of a half from their K pages, and a V id is its K
 * id + the number of pages. When pages of a size fill the half to its end, that
 * distance is just so many pages, and both count from one base: a planar pool.
 */
#include "plan.h"

#include <inttypes.h>
#include <string.h>

#include "area.h"
#include "engine/engine.h"
#include "engine/floor_extents.h"
#include "extent.h"
#include "size.h"

#define KIB           1024ull
#define MIB           (1024 * KIB)
#define PERCENT_ALIGN (2 * MIB)
#define TABLE_ALIGN   (4 * KIB)
#define HALF_ALIGN    16ull
#define SMALL_PAGES   (1ull << 18) /* as many of the smallest pages, K and V apart, a pool of up to 1 GiB has */

uint64_t plan_table_share(uint64_t table_area_bytes)
{
	return table_area_bytes / 2 / AREA_ALIGN * AREA_ALIGN;
}

static uint64_t clamp(uint64_t n, uint64_t low, uint64_t high)
{
	return n < low ? low : n > high ? high : n;
}

static uint64_t align_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* Largest page of the configured models, 0 when there are none that fit. */
static uint64_t largest_page(const struct config *c, uint64_t half)
{
	struct geometry g[WIRE_MAX_GROUPS];
	uint64_t largest = 0;
	struct fault f;

	for (uint32_t i = 0; i < c->n_models; i++)
		if (!c->models[i].limits_only && model_check(&c->models[i].model, half, g, &f) == 0)
			for (uint32_t k = 0; k < c->models[i].model.n_groups; k++)
				largest = g[k].page_bytes > largest ? g[k].page_bytes : largest;
	return largest;
}

/*
 * A page costs the broker as much whatever its size: it is their number that is
 * kept small, and a small pool has few of any size.
 */
static uint64_t smallest_page(uint64_t pool_bytes)
{
	uint64_t bytes = 16;

	while (bytes < 4096 && 2 * bytes <= pool_bytes / SMALL_PAGES)
		bytes *= 2;
	return bytes;
}

int plan_pool(struct backend_pool *pool, const struct config *c, uint64_t free_bytes, char why[BACKEND_WHY])
{
	const struct config_pool *p = &c->pool;
	char a[SIZE_TEXT], b[SIZE_TEXT], least[SIZE_TEXT];
	uint64_t bytes = p->size.value;

	if (p->size.percent)
		bytes = free_bytes / 100 * bytes / PERCENT_ALIGN * PERCENT_ALIGN;
	pool->bytes = bytes;
	pool->table_area_bytes = p->table_area.value ? align_up(p->table_area.value, TABLE_ALIGN)
						     : align_up(clamp(bytes / 64, 64 * KIB, 64 * MIB), TABLE_ALIGN);
	if (pool->table_area_bytes >= bytes || (bytes - pool->table_area_bytes) / 2 < HALF_ALIGN) {
		snprintf(why, BACKEND_WHY, "a pool of %s has no room for pages beside a table area of %s: raise size",
			 size_text(bytes, a), size_text(pool->table_area_bytes, b));
		return EXIT_CODE_CONFIG;
	}
	pool->min_page_bytes = c->min_page_bytes ? c->min_page_bytes : smallest_page(bytes);
	pool->half_bytes = (bytes - pool->table_area_bytes) / 2 / HALF_ALIGN * HALF_ALIGN;
	if (p->planar.value % HALF_ALIGN || p->planar.value > pool->half_bytes) {
		snprintf(why, BACKEND_WHY,
			 "planar is the size of a page in bytes: a multiple of %llu, at most a half of the pool (%s); "
			 "%" PRIu64 " is not",
			 HALF_ALIGN, size_text(pool->half_bytes, a), p->planar.value);
		return EXIT_CODE_CONFIG;
	}
	if (p->planar.value)
		pool->half_bytes = pool->half_bytes / p->planar.value * p->planar.value;
	pool->extent_bytes =
		p->extent.value ? p->extent.value : extent_default(pool->half_bytes, largest_page(c, pool->half_bytes));
	if (pool->extent_bytes > pool->half_bytes) {
		snprintf(why, BACKEND_WHY, "extent of %s is larger than a half of the pool (%s)",
			 size_text(pool->extent_bytes, a), size_text(pool->half_bytes, b));
		return EXIT_CODE_CONFIG;
	}
	if ((pool->half_bytes - 1) / pool->extent_bytes >= EXTENT_MOST) {
		snprintf(why, BACKEND_WHY,
			 "extents of %s cut a half of the pool (%s) into more than %d: make them %s or larger",
			 size_text(pool->extent_bytes, a), size_text(pool->half_bytes, b), EXTENT_MOST,
			 size_text(align_up((pool->half_bytes - 1) / EXTENT_MOST + 1, TABLE_ALIGN), least));
		return EXIT_CODE_CONFIG;
	}
	return 0;
}

/* Bytes of the device tables of @m. */
static uint64_t table_bytes(const struct model *m, const struct geometry g[])
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < m->n_groups; i++)
		bytes += area_rounded((uint64_t)m->max_batch * shape_id_rows(g[i].shape.joined) * (uint64_t)g[i].width *
				      sizeof(int32_t));
	return bytes;
}

static void print_groups(const struct config_model *m, const struct geometry g[], FILE *out)
{
	for (uint32_t i = 0; i < m->model.n_groups; i++)
		fprintf(out,
			"model %s, group %" PRIu32 " (%s): a page is %s%" PRIu64
			" bytes; one maximal sequence needs %" PRId32 " of %" PRId32 " pages\n",
			m->name, i, m->model.groups[i].kind == WIRE_GROUP_FULL ? "full" : "sliding",
			g[i].shape.joined ? "" : "2 x ", g[i].page_bytes, g[i].private_pages, g[i].num_pages);
}

static int print_model(const struct backend_pool *pool, const struct config_model *m, FILE *out)
{
	struct geometry g[WIRE_MAX_GROUPS];
	uint64_t sequence = 0, tables;
	char text[192], a[SIZE_TEXT];
	uint64_t most = plan_table_share(pool->table_area_bytes);
	struct fault f;
	bool fits;

	if (m->limits_only)
		return 0;
	if (model_check(&m->model, pool->half_bytes, g, &f) != 0 ||
	    model_check_pages(&m->model, g, pool->min_page_bytes, &f) != 0) {
		fault_format(&f, text, sizeof(text));
		fprintf(out, "model %s: does not fit: %s\n", m->name, text);
		return EXIT_CODE_POOL;
	}
	for (uint32_t i = 0; i < m->model.n_groups; i++)
		sequence += page_key_whole(geometry_key(&g[i])) * (uint64_t)g[i].private_pages;
	tables = table_bytes(&m->model, g);
	fits = model_fits(&m->model, g, pool->half_bytes, pool->extent_bytes);
	if (m->model.n_groups > 1)
		print_groups(m, g, out);
	fprintf(out, "model %s: ", m->name);
	if (m->model.n_groups == 1)
		fprintf(out, "a page is %s%" PRIu64 " bytes; ", g[0].shape.joined ? "" : "2 x ", g[0].page_bytes);
	fprintf(out, "one maximal sequence of %" PRId64 " tokens needs ", m->model.max_seq);
	if (m->model.n_groups == 1)
		fprintf(out, "%" PRId32 " of %" PRId32 " pages, ", g[0].private_pages, g[0].num_pages);
	fprintf(out,
		"%" PRIu64 " bytes (%s): %s; device table%s %" PRIu64 " bytes of %" PRIu64
		", a session's half of the table area%s\n",
		sequence, size_text(sequence, a), fits ? "fits" : "does not fit", m->model.n_groups > 1 ? "s" : "",
		tables, most, tables <= most ? "" : ": does not fit, raise table_area");
	return fits && tables <= most ? 0 : EXIT_CODE_POOL;
}

int plan_floors(const struct backend_pool *pool, const struct config *c, char why[BACKEND_WHY])
{
	struct floors floors;
	struct fault f;

	floors_init(&floors, pool->half_bytes, pool->extent_bytes);
	for (uint32_t i = 0; i < c->n_models; i++) {
		const struct config_model *m = &c->models[i];
		uint64_t floor = config_limit_bytes(&m->floor, pool->half_bytes);
		uint64_t ceiling = config_limit_bytes(&m->ceiling, pool->half_bytes);
		struct floor_share shares[WIRE_MAX_GROUPS];
		struct geometry g[WIRE_MAX_GROUPS];
		uint32_t n = 0;

		if (!m->limits_only && model_check(&m->model, pool->half_bytes, g, &f) == 0)
			for (; n < m->model.n_groups; n++)
				shares[n] = (struct floor_share){ geometry_key(&g[n]), (uint64_t)g[n].private_pages };
		if (ceiling && floor > ceiling) {
			snprintf(why, BACKEND_WHY,
				 "[model %s]: the floor of %" PRIu64 " bytes is above the ceiling of %" PRIu64,
				 m->label, floor, ceiling);
			return EXIT_CODE_CONFIG;
		}
		if (floor)
			floors_add(&floors, floor, shares, n);
	}
	if (floors_check(&floors, &f) == 0)
		return 0;
	fault_format(&f, why, BACKEND_WHY);
	return EXIT_CODE_CONFIG;
}

int plan_check(const struct config *c, struct backend_pool *pool, char why[BACKEND_WHY])
{
	int code;

	*pool = (struct backend_pool){ 0 };
	if (c->pool.size.percent)
		return 0;
	code = plan_pool(pool, c, 0, why);
	return code ? code : plan_floors(pool, c, why);
}

/* Limits of the models, and whether the floors go together. */
static int print_limits(const struct backend_pool *pool, const struct config *c, FILE *out)
{
	char a[SIZE_TEXT], b[SIZE_TEXT], why[BACKEND_WHY];

	for (uint32_t i = 0; i < c->n_models; i++) {
		const struct config_model *m = &c->models[i];

		if (m->floor.value || m->ceiling.value)
			fprintf(out, "model %s: floor %s, ceiling %s\n", m->name,
				size_text(config_limit_bytes(&m->floor, pool->half_bytes), a),
				m->ceiling.value ? size_text(config_limit_bytes(&m->ceiling, pool->half_bytes), b)
						 : "none");
	}
	if (plan_floors(pool, c, why) == 0)
		return 0;
	fprintf(out, "floors do not fit: %s\n", why);
	return EXIT_CODE_POOL;
}

int plan_print(const struct backend_pool *pool, const struct config *c, FILE *out)
{
	char total[SIZE_TEXT], area[SIZE_TEXT], half[SIZE_TEXT], extent[SIZE_TEXT];
	int code = 0;

	fprintf(out,
		"pool %s: would allocate %" PRIu64 " bytes (%s) on %s, backend %s: table area %s, halves of %s, "
		"extents of %" PRIu64 " bytes (%s), pages of 2 x %" PRIu64 " bytes or more\n",
		pool->name, pool->bytes, size_text(pool->bytes, total), pool->device, backend_name(pool->backend),
		size_text(pool->table_area_bytes, area), size_text(pool->half_bytes, half), pool->extent_bytes,
		size_text(pool->extent_bytes, extent), pool->min_page_bytes);
	for (uint32_t i = 0; i < c->n_models; i++)
		if (print_model(pool, &c->models[i], out) != 0)
			code = EXIT_CODE_POOL;
	return print_limits(pool, c, out) ? EXIT_CODE_POOL : code;
}
