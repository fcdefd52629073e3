/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "ring/operation.h"
#include "ring/session_memory.h"

static struct session_memory m;

static void make(int32_t max_batch, int32_t width, uint32_t n_streams)
{
	struct model model = { .n_groups = 1, .n_streams = n_streams, .max_batch = max_batch };
	struct geometry g[WIRE_MAX_GROUPS] = { { .width = width } };
	struct session_layout l;

	session_layout_init(&l, &model, g);
	cr_assert_eq(session_memory_init(&m, &l), 0);
}

static void setup(void)
{
	make(8, 64, 3);
}

static void teardown(void)
{
	session_memory_deinit(&m);
	session_memory_deinit(&m);
}

TestSuite(session_memory, .init = setup, .fini = teardown);

Test(session_memory, tables_cannot_be_mapped_writable)
{
	void *p = mmap(NULL, m.layout.tables_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m.tables_fd, 0);

	cr_assert_eq(p, MAP_FAILED);
	cr_assert_eq(fcntl(m.tables_fd, F_GETFL) & O_ACCMODE, O_RDONLY, "the descriptor itself can write");
	p = mmap(NULL, m.layout.tables_bytes, PROT_READ, MAP_SHARED, m.tables_fd, 0);
	cr_assert_neq(p, MAP_FAILED);
	cr_assert_lt(mprotect(p, m.layout.tables_bytes, PROT_READ | PROT_WRITE), 0);
	munmap(p, m.layout.tables_bytes);
}

/* Whoever holds a read-only descriptor can open the file again for writing: the seal must still hold. */
Test(session_memory, tables_opened_again_for_writing_are_still_sealed)
{
	AUTO_CLOSE int again = -1;
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", m.tables_fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	if (again < 0) /* even better */
		return;
	cr_assert_lt(pwrite(again, "x", 1, 0), 0);
	cr_assert_eq(errno, EPERM);
	cr_assert_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
	cr_assert_lt(ftruncate(again, 0), 0);
}

Test(session_memory, the_reader_sees_what_the_broker_writes)
{
	const unsigned char *p = mmap(NULL, m.layout.tables_bytes, PROT_READ, MAP_SHARED, m.tables_fd, 0);

	cr_assert_neq(p, MAP_FAILED);
	m.tables[100] = 42;
	cr_assert_eq(p[100], 42);
	munmap((void *)(uintptr_t)p, m.layout.tables_bytes);
}

Test(session_memory, neither_memory_can_change_its_size)
{
	cr_assert_lt(ftruncate(m.session_fd, 0), 0);
	cr_assert_eq(errno, EPERM);
	cr_assert_lt(ftruncate(m.session_fd, (off_t)m.layout.session_bytes + 4096), 0);
	cr_assert_eq(errno, EPERM);
	cr_assert_lt(fallocate(m.session_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 0), 0);
	cr_assert_lt(fcntl(m.session_fd, F_ADD_SEALS, F_SEAL_WRITE), 0, "seals can be added");
}

Test(session_memory, all_of_it_is_allocated)
{
	struct stat st;

	cr_assert_eq(fstat(m.session_fd, &st), 0);
	cr_assert_geq((uint64_t)st.st_blocks * 512, m.layout.session_bytes);
	cr_assert_eq(fstat(m.tables_fd, &st), 0);
	cr_assert_geq((uint64_t)st.st_blocks * 512, m.layout.tables_bytes);
}

Test(session_memory, descriptors_do_not_survive_exec)
{
	cr_assert(fcntl(m.session_fd, F_GETFD) & FD_CLOEXEC);
	cr_assert(fcntl(m.tables_fd, F_GETFD) & FD_CLOEXEC);
}

/* Every region inside its memory, none over another, rings on pages of their own. */
Test(session_memory, regions_do_not_overlap, .init = NULL, .fini = NULL)
{
	static const int32_t batches[] = { 1, 3, 256, WIRE_MAX_BATCH };

	for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
		struct model model = { .n_groups = 1, .n_streams = WIRE_MAX_STREAMS, .max_batch = batches[i] };
		struct geometry g[WIRE_MAX_GROUPS] = { { .width = 33 } };
		struct session_layout l;

		session_layout_init(&l, &model, g);
		cr_assert_geq(l.replies_control, l.commands_control + sizeof(struct ring_control));
		cr_assert_geq(l.wait, l.replies_control + sizeof(struct ring_control));
		cr_assert_geq(l.lines, l.wait + sizeof(shm_u32));
		cr_assert_eq(l.lines % CACHELINE, 0);
		cr_assert_geq(l.commands_slots, l.lines + WIRE_MAX_STREAMS * sizeof(struct wire_line));
		cr_assert_geq(l.replies_slots, l.commands_slots + (uint64_t)l.ring_slots * RING_SLOT);
		cr_assert_geq(l.session_bytes, l.replies_slots + (uint64_t)l.ring_slots * RING_SLOT);
		cr_assert_geq(l.rows[0], l.cells[0] + l.cells_bytes[0]);
		cr_assert_geq(l.tables_bytes, l.rows[0] + (uint64_t)batches[i] * sizeof(struct wire_row_head));
		cr_assert_eq(l.ring_slots & (l.ring_slots - 1), 0);
	}
}

/* The largest reply, of any operation with any count, fits the ring; n_slots fits its 16 bits. */
Test(session_memory, the_largest_reply_fits_the_ring, .init = NULL, .fini = NULL)
{
	for (uint32_t batch = 1; batch <= WIRE_MAX_BATCH; batch *= 2) {
		struct model model = { .n_groups = 1, .n_streams = 1, .max_batch = (int32_t)batch };
		struct geometry g[WIRE_MAX_GROUPS] = { { .width = 1 } };
		uint64_t full = sizeof(struct wire_delivery) + batch * sizeof(struct wire_entry_fault) +
				WIRE_MAX_INLINE_UPDATES * sizeof(struct wire_update) +
				batch * (sizeof(struct wire_row) + sizeof(struct wire_scrub));
		struct session_layout l;

		session_layout_init(&l, &model, g);
		for (int op = 0; op < WIRE_OP_COUNT + 3; op++)
			cr_assert_leq(reply_slots((uint32_t)op, batch, batch), l.max_reply_slots);
		cr_assert_geq(l.max_reply_slots, message_slots(full));
		cr_assert_leq(2 * l.max_reply_slots, l.ring_slots);
		cr_assert_leq(2 * l.max_command_slots, l.ring_slots);
		cr_assert_leq(l.ring_slots, UINT16_MAX);
	}
}
