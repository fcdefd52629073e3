/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_device_sharing.c - memory that several processes have, and what a fork leaves of a driver
 *
 * A second process is always forked before either has opened the driver.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_fixture.h"
#include "launch.h"

/* ---- IPC ------------------------------------------------------------------------------- */

#define IPC_BYTES (4ull << 20)

struct ipc {
	int to_parent[2], to_child[2];
	pid_t child;
};

static void ipc_tell(int fd, const void *p, size_t bytes)
{
	cr_assert_eq(write(fd, p, bytes), (ssize_t)bytes);
}

static void ipc_hear(int fd, void *p, size_t bytes)
{
	cr_assert_eq(read(fd, p, bytes), (ssize_t)bytes);
}

/* Forks a process that exports IPC_BYTES of 0x11111111 and, told 'c', checks that word 7 is 0x77777777, then ends. */
static struct ipc start_exporter(void)
{
	struct ipc ipc;
	uint8_t handle[DRIVER_IPC_HANDLE];
	uint32_t word = 0;
	uint64_t p;
	char order;
	void *s;

	cr_assert_eq(pipe(ipc.to_parent), 0);
	cr_assert_eq(pipe(ipc.to_child), 0);
	ipc.child = fork();
	if (ipc.child == 0) {
		struct driver *d = open_device();

		close(ipc.to_child[1]);
		OK(driver_stream_create(d, &s));
		OK(driver_alloc(d, IPC_BYTES, &p));
		OK(driver_fill32(d, s, p, 0x11111111, IPC_BYTES / 4));
		OK(driver_stream_synchronize(d, s));
		OK(driver_ipc_export(d, p, handle));
		ipc_tell(ipc.to_parent[1], handle, sizeof(handle));
		if (read(ipc.to_child[0], &order, 1) == 1 && order == 'c') {
			OK(driver_copy_to_host(d, s, &word, p + 28, 4));
			OK(driver_stream_synchronize(d, s));
			OK(driver_free(d, p));
			_exit(word == 0x77777777 ? 0 : 1);
		}
		_exit(2);
	}
	close(ipc.to_child[0]);
	return ipc;
}

static int ipc_result(struct ipc *ipc)
{
	int status;

	waitpid(ipc->child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(device_sharing, two_processes_share_an_exported_allocation)
{
	struct ipc ipc = start_exporter();
	struct driver *d = open_device();
	uint8_t handle[DRIVER_IPC_HANDLE];
	uint32_t words[16];
	uint64_t p, again;
	void *s;

	ipc_hear(ipc.to_parent[0], handle, sizeof(handle));
	OK(driver_stream_create(d, &s));
	OK(driver_ipc_import(d, handle, &p));
	OK(driver_ipc_import(d, handle, &again));
	cr_assert_eq(p, again, "a second import of one handle must give the same address");
	OK(driver_ipc_close(d, again));
	/* One close of two: the memory is still there. */
	OK(driver_copy_to_host(d, s, words, p, sizeof(words)));
	OK(driver_fill32(d, s, p + 28, 0x77777777, 1));
	OK(driver_stream_synchronize(d, s));
	for (int i = 0; i < 16; i++)
		cr_assert_eq(words[i], 0x11111111);
	OK(driver_ipc_close(d, p));
	ipc_tell(ipc.to_child[1], "c", 1);
	cr_assert_eq(ipc_result(&ipc), 0, "the exporter did not see the importer's write");
	OK(driver_stream_destroy(d, s));
	driver_close(d);
}

Test(device_sharing, an_export_is_refused_in_the_process_that_made_it)
{
	struct driver *d = open_device();
	uint8_t handle[DRIVER_IPC_HANDLE];
	uint64_t p, q;

	OK(driver_alloc(d, IPC_BYTES, &p));
	OK(driver_ipc_export(d, p, handle));
	cr_assert_eq(driver_ipc_import(d, handle, &q), SWAKV_EDEVICE);
	cr_assert_eq(q, 0);
	cr_assert(strstr(driver_why(d), "cuIpcOpenMemHandle() failed"), "%s", driver_why(d));
	OK(driver_free(d, p));
	driver_close(d);
}

Test(device_sharing, an_export_cannot_be_opened_after_its_process_has_ended)
{
	struct ipc ipc = start_exporter();
	struct driver *d = open_device();
	uint8_t handle[DRIVER_IPC_HANDLE];
	uint64_t p;

	ipc_hear(ipc.to_parent[0], handle, sizeof(handle));
	close(ipc.to_child[1]);
	cr_assert_eq(ipc_result(&ipc), 2);
	cr_assert_eq(driver_ipc_import(d, handle, &p), SWAKV_EDEVICE);
	cr_assert(strstr(driver_why(d), "cuIpcOpenMemHandle() failed"), "%s", driver_why(d));
	driver_close(d);
}

/* ---- memory that a descriptor names ------------------------------------------------------ */

static struct driver *open_bare(void)
{
	char why[DRIVER_WHY] = "";
	struct driver *d;

	cr_assert_eq(driver_open_bare(&d, device_library(), NULL, 0, why), 0, "%s", why);
	return d;
}

static void send_descriptor(int socket, int fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .header = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	char c = 0;
	struct iovec iov = { &c, 1 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)
	};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	if (sendmsg(socket, &m, 0) != 1)
		_exit(20);
}

static int receive_descriptor(int socket)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char c;
	struct iovec iov = { &c, 1 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)
	};
	int fd = -1;

	cr_assert_eq(recvmsg(socket, &m, MSG_CMSG_CLOEXEC), 1);
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

/* Makes @bytes without a context and sends them; stays until the socket closes. */
static void lend(int socket, uint64_t bytes)
{
	char why[DRIVER_WHY] = "", c;
	struct driver *d;
	uint64_t memory;
	int fd;

	if (driver_open_bare(&d, device_library(), NULL, 0, why) != 0)
		_exit(10);
	if (driver_share_create(d, &bytes, &memory) != 0)
		_exit(11);
	if (driver_share_export(d, memory, &fd) != 0 || !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
		_exit(12);
	send_descriptor(socket, fd);
	_exit(read(socket, &c, 1) == 0 ? 0 : 13);
}

Test(device_sharing, memory_made_without_a_context_is_mapped_by_descriptor_and_outlives_its_maker)
{
	const uint64_t asked = (3 << 20) + 4096;
	uint64_t bytes = asked, p, again;
	uint32_t words[4] = { 0 };
	int pair[2], fd, status;
	struct driver *d;
	pid_t child;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	child = fork();
	if (child == 0) {
		close(pair[0]);
		lend(pair[1], asked);
	}
	close(pair[1]);
	fd = receive_descriptor(pair[0]);
	d = open_device();
	OK(driver_share_map(d, fd, &bytes, &p));
	cr_assert(bytes >= asked && bytes % (2 << 20) == 0, "%llu bytes", (unsigned long long)bytes);
	OK(driver_fill32(d, NULL, p + asked - 16, 0xabcd1234, 4));
	OK(driver_stream_synchronize(d, NULL));
	close(pair[0]);
	waitpid(child, &status, 0);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the maker ended with %d", status);
	/* Another mapping finds what the first one wrote, with the maker gone. */
	OK(driver_share_map(d, fd, &bytes, &again));
	close(fd);
	cr_assert_neq(p, again);
	OK(driver_copy_to_host(d, NULL, words, again + asked - 16, sizeof(words)));
	OK(driver_stream_synchronize(d, NULL));
	for (int i = 0; i < 4; i++)
		cr_assert_eq(words[i], 0xabcd1234u);
	OK(driver_share_unmap(d, p, bytes));
	OK(driver_share_unmap(d, again, bytes));
	driver_close(d);
}

Test(device_sharing, no_legacy_handle_is_made_of_memory_that_a_descriptor_names)
{
	struct driver *d = open_device();
	uint64_t bytes = 2 << 20, memory, p;
	uint8_t handle[DRIVER_IPC_HANDLE];
	int fd;

	OK(driver_share_create(d, &bytes, &memory));
	OK(driver_share_export(d, memory, &fd));
	OK(driver_share_map(d, fd, &bytes, &p));
	cr_assert_eq(driver_ipc_export(d, p, handle), SWAKV_EDEVICE);
	cr_assert(strstr(driver_why(d), "cuIpcGetMemHandle"), "%s", driver_why(d));
	OK(driver_share_unmap(d, p, bytes));
	OK(driver_share_release(d, memory));
	close(fd);
	driver_close(d);
}

Test(device_sharing, what_is_no_memory_is_not_mapped)
{
	struct driver *d = open_device();
	uint64_t bytes = 2 << 20, p;
	int fd = memfd_create("no device memory", MFD_CLOEXEC);

	cr_assert_eq(ftruncate(fd, 4 << 20), 0);
	cr_assert_eq(driver_share_map(d, fd, &bytes, &p), SWAKV_EDEVICE);
	cr_assert_eq(p, 0);
	close(fd);
	driver_close(d);
}

Test(device_sharing, a_device_without_a_context_refuses_what_needs_one)
{
	struct driver *d = open_bare();
	uint64_t a, b;

	cr_assert_eq(driver_memory_info(d, &a, &b), SWAKV_EDEVICE);
	cr_assert(strstr(driver_why(d), "context"), "%s", driver_why(d));
	driver_close(d);
}

/* ---- fork --------------------------------------------------------------------------------- */

static void never_runs(void *arg)
{
	cr_assert_fail("a forked child reached the driver");
}

/* Which call did not answer SWAKV_EFORKED, 0: none. */
static int all_refused(struct driver *d)
{
	uint8_t handle[DRIVER_IPC_HANDLE] = { 0 };
	struct kernel_apply apply = { .n_updates = 1 };
	uint64_t a, b;
	char block[64];
	void *s = NULL;
	const int results[] = {
		driver_memory_info(d, &a, &b),
		driver_alloc(d, 4096, &a),
		driver_free(d, 4096),
		driver_ipc_export(d, 4096, handle),
		driver_ipc_import(d, handle, &a),
		driver_ipc_close(d, 4096),
		driver_host_register(d, block, 64, &a),
		driver_host_address(d, block, &a),
		driver_host_unregister(d, block),
		driver_stream_create(d, &s),
		driver_stream_destroy(d, s),
		driver_stream_synchronize(d, s),
		driver_stream_write64(d, s, 4096, 1),
		driver_stream_host_func(d, s, never_runs, block),
		driver_copy_to_device(d, s, 4096, block, 64),
		driver_copy_to_host(d, s, block, 4096, 64),
		driver_copy(d, s, 4096, 8192, 64),
		driver_fill32(d, s, 4096, 0, 1),
		driver_fill16(d, s, 4096, 0, 1),
		driver_load_image(d, &kernel_image_table),
		driver_run_apply(d, s, &apply),
	};

	for (int i = 0; i < (int)(sizeof(results) / sizeof(results[0])); i++) {
		if (results[i] != SWAKV_EFORKED)
			return i + 1;
	}
	return strstr(driver_why(d), "fork") ? 0 : 100;
}

Test(device_sharing, a_forked_child_is_refused_and_its_parent_unharmed)
{
	struct driver *d = open_device();
	int status;
	uint64_t p;
	pid_t child = fork();

	if (child == 0) {
		int which = all_refused(d);

		driver_close(d);
		_exit(which);
	}
	waitpid(child, &status, 0);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0, "call %d was not refused", WEXITSTATUS(status));
	OK(driver_alloc(d, 4096, &p));
	OK(driver_free(d, p));
	driver_close(d);
}
