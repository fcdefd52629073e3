/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, streams and timeline words of a driver. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_fixture.h"

/* ---- memory and streams -------------------------------------------------------- */

Test(device, copies_and_fills_go_in_stream_order)
{
	struct driver *d = open_device();
	uint32_t in[1024], out[1024];
	uint64_t p;
	void *s;

	for (uint32_t i = 0; i < 1024; i++)
		in[i] = i;
	OK(driver_stream_create(d, &s));
	OK(driver_alloc(d, sizeof(in), &p));
	OK(driver_copy_to_device(d, s, p, in, sizeof(in)));
	OK(driver_fill32(d, s, p + 40, 0xdeadbeef, 10));
	OK(driver_fill16(d, s, p + 400, 0x1234, 3));
	OK(driver_copy_to_host(d, s, out, p, sizeof(out)));
	OK(driver_stream_synchronize(d, s));
	for (uint32_t i = 0; i < 1024; i++) {
		uint32_t want = i >= 10 && i < 20 ? 0xdeadbeef : i == 100 ? 0x12341234 : i == 101 ? 0x1234 : i;

		cr_assert_eq(out[i], want, "word %u is %x", i, out[i]);
	}
	OK(driver_free(d, p));
	OK(driver_stream_destroy(d, s));
	driver_close(d);
}

Test(device, memory_is_counted)
{
	struct driver *d = open_device();
	uint64_t before, after, total, p;
	struct driver_device info;

	driver_get_device(d, &info);
	OK(driver_memory_info(d, &before, &total));
	cr_assert_leq(before, total);
	cr_assert_leq(total, info.total_bytes);
	OK(driver_alloc(d, 64 << 20, &p));
	OK(driver_memory_info(d, &after, &total));
	cr_assert_leq(after, before - (64 << 20));
	OK(driver_free(d, p));
	/* More than there is: refused with the size and the likely cause. */
	cr_assert_eq(driver_alloc(d, total * 2, &p), SWAKV_EDEVICE);
	cr_assert(strstr(driver_why(d), "cuMemAlloc(") && strstr(driver_why(d), "CUDA_ERROR_OUT_OF_MEMORY (2)"), "%s",
		  driver_why(d));
	driver_close(d);
}

static void *use_from_thread(void *arg)
{
	struct driver *d = arg;
	uint64_t p;

	OK(driver_alloc(d, 4096, &p));
	OK(driver_free(d, p));
	return NULL;
}

Test(device, a_thread_without_a_context_can_call)
{
	struct driver *d = open_device();
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, use_from_thread, d), 0);
	pthread_join(t, NULL);
	driver_close(d);
}

static void count_up(void *arg)
{
	atomic_fetch_add((_Atomic int *)arg, 1);
}

Test(device, host_functions_run_in_stream_order)
{
	struct driver *d = open_device();
	static _Atomic int n;
	void *s;

	OK(driver_stream_create(d, &s));
	for (int i = 0; i < 10; i++)
		OK(driver_stream_host_func(d, s, count_up, &n));
	OK(driver_stream_synchronize(d, s));
	cr_assert_eq(n, 10);
	OK(driver_stream_destroy(d, s));
	driver_close(d);
}

Test(device, found_by_uuid)
{
	struct driver *d = open_device(), *same;
	struct driver_device a, b;
	char why[DRIVER_WHY] = "";

	driver_get_device(d, &a);
	cr_assert_eq(driver_open(&same, device_library(), a.uuid, -1, why), 0, "%s", why);
	driver_get_device(same, &b);
	cr_assert_eq(a.ordinal, b.ordinal);
	cr_assert_arr_eq(a.uuid, b.uuid, 16);
	driver_close(same);
	driver_close(d);
}

/* ---- the timeline word --------------------------------------------------------------- */

/* A word in shared memory, written by the stream; a second process sees it. */
Test(device, stream_write_reaches_registered_shared_memory)
{
	int fd = memfd_create("line", MFD_CLOEXEC), status;
	_Atomic uint64_t *line;
	struct driver *d;
	uint64_t device;
	void *s;
	pid_t watcher;

	cr_assert_eq(ftruncate(fd, 4096), 0);
	watcher = fork();
	line = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (watcher == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (line[8] < 1000)
			usleep(100);
		_exit(line[0] == 0 && line[9] == 1000 ? 0 : 1);
	}
	d = open_device();
	OK(driver_stream_create(d, &s));
	OK(driver_host_register(d, (void *)line, 4096, &device));
	for (uint64_t n = 1; n <= 1000; n++) {
		line[9] = n; /* armed */
		OK(driver_stream_write64(d, s, device + 64, n));
	}
	OK(driver_stream_synchronize(d, s));
	cr_assert_eq(line[8], 1000);
	waitpid(watcher, &status, 0);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	OK(driver_host_unregister(d, (void *)line));
	OK(driver_stream_destroy(d, s));
	driver_close(d);
}

Test(device, one_piece_of_host_memory_is_registered_once)
{
	struct driver *d = open_device();
	void *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t device;

	OK(driver_host_register(d, p, 8192, &device));
	cr_assert_eq(driver_host_register(d, p, 8192, &device), SWAKV_EDEVICE);
	cr_assert(strstr(driver_why(d), "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED (712)"), "%s", driver_why(d));
	OK(driver_host_unregister(d, p));
	cr_assert_eq(driver_host_unregister(d, p), SWAKV_EDEVICE);
	driver_close(d);
}
