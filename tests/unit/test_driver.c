/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the fake driver can show: each function failing, late completion,
 * devices of other kinds, and that the fake itself catches what it is there to
 * catch. Whatever needs an environment of its own runs in a child.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver_private.h"
#include "launch.h"
#include "rig_device.h"

#define TEXT 4096

/* How a child ended, and everything it said on stderr. */
struct outcome {
	int exit_code; /* -1: by a signal */
	int signal;
	char text[TEXT];
};

/* Runs fn(arg) in a child with @environment ("NAME=VALUE" strings, NULL at the end). */
static struct outcome in_child(int (*fn)(void *), void *arg, const char *const *environment)
{
	struct outcome o = { .exit_code = -1 };
	size_t n = 0;
	ssize_t got;
	int out[2], status;
	pid_t child;

	cr_assert_eq(pipe(out), 0);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		dup2(out[1], STDERR_FILENO);
		close(out[0]);
		close(out[1]);
		for (; environment && *environment; environment++)
			putenv((char *)(uintptr_t)*environment);
		exit(fn(arg));
	}
	close(out[1]);
	while (n < TEXT - 1 && (got = read(out[0], o.text + n, TEXT - 1 - n)) > 0)
		n += (size_t)got;
	close(out[0]);
	waitpid(child, &status, 0);
	if (WIFEXITED(status))
		o.exit_code = WEXITSTATUS(status);
	else
		o.signal = WTERMSIG(status);
	return o;
}

static struct driver *open_fake(void)
{
	char why[DRIVER_WHY] = "";
	struct driver *d;

	if (driver_open(&d, FAKECUDA_LIBRARY, NULL, 0, why) != 0) {
		fprintf(stderr, "%s\n", why);
		exit(1);
	}
	return d;
}

/* Says what failed and ends the child. */
static void must(struct driver *d, int rc)
{
	if (rc) {
		fprintf(stderr, "%s\n", driver_why(d));
		exit(1);
	}
}

/* ---- every function fails once ------------------------------------------------------- */

static void nothing(void *arg)
{
}

/* The same memory made, exported, mapped and let go again. */
static int use_share(struct driver *d)
{
	uint64_t bytes = 4096, mapped = 4096, memory, p;
	int fd, rc;

	if ((rc = driver_share_create(d, &bytes, &memory)))
		return rc;
	if ((rc = driver_share_export(d, memory, &fd)))
		return rc;
	rc = driver_share_map(d, fd, &mapped, &p);
	close(fd);
	if (rc || (rc = driver_fill32(d, NULL, p, 1, 8)) || (rc = driver_share_unmap(d, p, mapped)))
		return rc;
	return driver_share_release(d, memory);
}

/* A fill that is captured and launched once. */
static int use_graph(struct driver *d, void *s, uint64_t p)
{
	bool capturing;
	void *exec;
	int rc;

	if ((rc = driver_capture_begin(d, s)) || (rc = driver_stream_is_capturing(d, s, &capturing)))
		return rc;
	if (!capturing)
		return -1000;
	if ((rc = driver_fill32(d, s, p, 5, 8)) || (rc = driver_capture_end(d, s, &exec)))
		return rc;
	if ((rc = driver_graph_launch(d, exec, s)) || (rc = driver_stream_synchronize(d, s))) {
		driver_stream_synchronize(d, s);
		driver_graph_destroy(d, exec);
		return rc;
	}
	return driver_graph_destroy(d, exec);
}

/* Uses every function of driver.h. 0, or the first failure's code with its sentence in @why. */
static int use_everything(struct driver *d, const uint8_t *handle, void *host)
{
	/* Static: after a failure the stream may still be reading and writing them. */
	static struct kernel_apply apply;
	static uint32_t word;
	uint64_t p, imported, line, a, b;
	uint8_t own[DRIVER_IPC_HANDLE];
	void *s;
	int rc;

	apply = (struct kernel_apply){ .width = 8, .num_pages = 10, .n_updates = 1, .updates = { { 3, 4 } } };
	if ((rc = use_share(d)) || (rc = driver_memory_info(d, &a, &b)) || (rc = driver_stream_create(d, &s)) ||
	    (rc = driver_alloc(d, 4096, &p)) || (rc = use_graph(d, s, p)) || (rc = driver_ipc_export(d, p, own)) ||
	    (rc = driver_ipc_import(d, handle, &imported)) || (rc = driver_host_register(d, host, 4096, &line)) ||
	    (rc = driver_fill32(d, s, p, UINT32_MAX, 1024)) || (rc = driver_fill16(d, s, imported, 1, 1)) ||
	    (rc = driver_copy_to_device(d, s, p + 64, &apply, 64)) || (rc = driver_stream_host_func(d, s, nothing, d)))
		return rc;
	apply.table = p;
	/* More shared memory than a kernel has without asking. */
	if ((rc = driver_launch(d, s, &kernel_image_table, KERNEL_NAME_APPLY, 1, 32, 64u << 10, &apply,
				sizeof(apply))) ||
	    (rc = driver_stream_write64(d, s, line, 7)) || (rc = driver_copy(d, s, imported + 64, p, 64)) ||
	    (rc = driver_copy(d, s, p, imported + 64, 64)) || (rc = driver_copy_to_host(d, s, &word, p + 12, 4)) ||
	    (rc = driver_stream_synchronize(d, s)))
		return rc;
	if (word != 4 || *(uint64_t *)host != 7)
		return -1000;
	if ((rc = driver_host_unregister(d, host)) || (rc = driver_ipc_close(d, imported)) || (rc = driver_free(d, p)))
		return rc;
	return driver_stream_destroy(d, s);
}

/*
 * Two lives of a device. Exit code 0, or 1 with code and sentence on stderr; 3
 * when the device is unusable afterwards.
 */
static int two_lives(void *handle)
{
	void *host = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char why[DRIVER_WHY] = "";
	uint64_t a, b;

	for (int life = 0; life < 2; life++) {
		struct driver *d;
		int rc = driver_open(&d, FAKECUDA_LIBRARY, NULL, 0, why);

		if (rc) {
			fprintf(stderr, "%d %s\n", rc, why);
			return d ? 4 : 1;
		}
		rc = use_everything(d, handle, host);
		if (rc) {
			fprintf(stderr, "%d %s\n", rc, driver_why(d));
			/* One failure is no end: context and counts are as before. */
			return driver_memory_info(d, &a, &b) || driver_close(d) ? 3 : 1;
		}
		driver_close(d);
	}
	return 0;
}

/* A process with an export to open; closing @stop ends it. */
static pid_t start_exporter(uint8_t handle[DRIVER_IPC_HANDLE], int *stop)
{
	int ready[2], end[2];
	uint64_t p;
	pid_t child;
	char c;

	cr_assert_eq(pipe(ready), 0);
	cr_assert_eq(pipe(end), 0);
	child = fork();
	if (child == 0) {
		struct driver *d = open_fake();

		close(end[1]);
		must(d, driver_alloc(d, 1 << 20, &p));
		must(d, driver_ipc_export(d, p, handle));
		if (write(ready[1], handle, DRIVER_IPC_HANDLE) != DRIVER_IPC_HANDLE)
			exit(1);
		/* 'f': free it, whoever has it open. */
		if (read(end[0], &c, 1) == 1 && c == 'f')
			must(d, driver_free(d, p));
		exit(0);
	}
	close(end[0]);
	close(ready[1]);
	cr_assert_eq(read(ready[0], handle, DRIVER_IPC_HANDLE), DRIVER_IPC_HANDLE);
	close(ready[0]);
	*stop = end[1];
	return child;
}

static bool have_kernels(void)
{
	if (!kernel_image_engine.data)
		cr_skip_test("this build has no GPU kernels (no nvcc)");
	return kernel_image_engine.bytes > 0;
}

Test(driver, each_function_failing_gives_a_sentence)
{
	static const char *const functions[] = {
#define NAME(f) #f,
		DRIVER_API(NAME)
#undef NAME
	};
	uint8_t handle[DRIVER_IPC_HANDLE];
	int stop, tried = 0;
	pid_t exporter;

	if (!have_kernels())
		return;
	exporter = start_exporter(handle, &stop);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		for (int nth = 1; nth <= 2; nth++) {
			char rule[96];
			const char *const environment[] = { rule, NULL };
			struct outcome o;

			/* Called only when something fails: see the test below. */
			if (strcmp(functions[i], "cuGetErrorName") == 0)
				continue;
			snprintf(rule, sizeof(rule), "FAKECUDA_FAIL=%s:%d:999", functions[i], nth);
			o = in_child(two_lives, handle, environment);
			tried++;
			/* On the way out there is nobody to tell. */
			if (strcmp(functions[i], "cuModuleUnload") == 0 ||
			    strcmp(functions[i], "cuDevicePrimaryCtxRelease") == 0) {
				cr_assert_eq(o.exit_code, 0, "%s: %s", rule, o.text);
				continue;
			}
			cr_assert_eq(o.exit_code, 1, "%s: exit %d, signal %d: %s", rule, o.exit_code, o.signal, o.text);
			cr_assert_eq(atoi(o.text), SWAKV_EDEVICE, "%s: %s", rule, o.text);
			cr_assert(strstr(o.text, functions[i]) && strstr(o.text, "CUDA_ERROR_UNKNOWN (999): "),
				  "%s: %s", rule, o.text);
		}
	}
	cr_assert_gt(tried, 60);
	close(stop);
	waitpid(exporter, NULL, 0);
}

Test(driver, without_faults_everything_works)
{
	uint8_t handle[DRIVER_IPC_HANDLE];
	struct outcome o;
	int stop;
	pid_t exporter;

	if (!have_kernels())
		return;
	exporter = start_exporter(handle, &stop);
	o = in_child(two_lives, handle, NULL);
	cr_assert_eq(o.exit_code, 0, "%s", o.text);
	close(stop);
	waitpid(exporter, NULL, 0);
}

Test(driver, an_error_without_a_name_keeps_its_number)
{
	const char *const environment[] = { "FAKECUDA_FAIL=cuMemGetInfo:1:2,cuGetErrorName:1:1", NULL };
	uint8_t handle[DRIVER_IPC_HANDLE] = { 0 };
	struct outcome o = in_child(two_lives, handle, environment);

	cr_assert_eq(o.exit_code, 1);
	cr_assert(strstr(o.text, "cuMemGetInfo() failed: unknown CUDA error (2): "), "%s", o.text);
}

static int register_twice(void *arg)
{
	void *host = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct driver *d = open_fake();
	uint64_t a;

	if (driver_host_register(d, host, 4096, &a) != SWAKV_EDEVICE ||
	    !strstr(driver_why(d), "cuMemHostGetDevicePointer"))
		return 2;
	must(d, driver_host_register(d, host, 4096, &a));
	return 0;
}

Test(driver, a_registration_that_failed_half_way_leaves_nothing)
{
	const char *const environment[] = { "FAKECUDA_FAIL=cuMemHostGetDevicePointer:1:1", NULL };
	struct outcome o = in_child(register_twice, NULL, environment);

	cr_assert_eq(o.exit_code, 0, "%s", o.text);
}

static int fail_often(void *arg)
{
	struct driver *d = open_fake();

	for (int i = 0; i < 20; i++) {
		if (driver_free(d, 4096) != SWAKV_EDEVICE)
			return 2;
	}
	return 0;
}

/* The fake ends a process whose thread pushes its context again and again. */
Test(driver, a_failed_call_leaves_no_context_behind)
{
	struct outcome o = in_child(fail_often, NULL, NULL);

	cr_assert_eq(o.exit_code, 0, "%s", o.text);
}

/* ---- opening ------------------------------------------------------------------------------ */

struct opening {
	const char *library;
	const uint8_t *uuid;
	int ordinal;
};

static int open_only(void *arg)
{
	const struct opening *o = arg;
	struct driver_device info;
	char why[DRIVER_WHY] = "", text[41];
	struct driver *d;
	int rc = driver_open(&d, o->library, o->uuid, o->ordinal, why);

	if (rc) {
		fprintf(stderr, "%d %s\n", rc, why);
		return d ? 4 : 1;
	}
	driver_get_device(d, &info);
	driver_uuid_format(info.uuid, text);
	fprintf(stderr, "%d %s %s version %d%s%s%s\n", info.ordinal, text, info.name, info.driver_version,
		info.mig ? " mig" : "", info.integrated ? " integrated" : "",
		info.stream_write_supported ? "" : " no-stream-write");
	driver_close(d);
	return 0;
}

/* Opens in a child with one variable set and expects @exit_code and @text. */
static void expect(struct opening opening, const char *variable, int exit_code, const char *text)
{
	const char *const environment[] = { variable, "FAKECUDA_DEVICES=3", NULL };
	struct outcome o = in_child(open_only, &opening, environment);

	cr_assert_eq(o.exit_code, exit_code, "%s", o.text);
	cr_assert(strstr(o.text, text), "no \"%s\" in: %s", text, o.text);
}

/* "fake-cuda-gpu-0", and the device's number in the last byte */
static const uint8_t uuid_2[16] = { 'f', 'a', 'k', 'e', '-', 'c', 'u', 'd', 'a', '-', 'g', 'p', 'u', '-', '0', 2 };

Test(driver, opening_failures_say_what_and_what_to_do)
{
	static const uint8_t none[16] = { 1 };

	expect((struct opening){ "/no/such/libcuda.so.1", NULL, 0 }, "X=", 1, "/no/such/libcuda.so.1");
	expect((struct opening){ "libm.so.6", NULL, 0 }, "X=", 1, "no cuGetProcAddress_v2");
	expect((struct opening){ FAKECUDA_LIBRARY, NULL, 3 }, "X=", 1, "no device 3, 3 are visible");
	expect((struct opening){ FAKECUDA_LIBRARY, NULL, -1 }, "X=", 1, "no device -1");
	expect((struct opening){ FAKECUDA_LIBRARY, none, 0 }, "X=", 1,
	       "no device GPU-01000000-0000-0000-0000-000000000000 among the 3 visible");
	expect((struct opening){ FAKECUDA_LIBRARY, NULL, 0 }, "CUDA_VISIBLE_DEVICES=", 1,
	       "CUDA_ERROR_NO_DEVICE (100): no GPU is visible");
	expect((struct opening){ FAKECUDA_LIBRARY, uuid_2, 0 }, "CUDA_VISIBLE_DEVICES=0,1", 1, "among the 2 visible");
}

Test(driver, library_comes_from_the_environment)
{
	expect((struct opening){ NULL, NULL, 0 }, "SWAKV_CUDA_LIBRARY=" FAKECUDA_LIBRARY, 0,
	       "Fake GPU 0 version 13000");
	expect((struct opening){ NULL, NULL, 0 }, "SWAKV_CUDA_LIBRARY=/no/such", 1, "/no/such");
}

/* CUDA_VISIBLE_DEVICES permutes ordinals, a UUID means one device. */
Test(driver, a_uuid_is_one_device_whatever_its_ordinal)
{
	expect((struct opening){ FAKECUDA_LIBRARY, uuid_2, 0 }, "X=", 0, "2 GPU-66616b65");
	expect((struct opening){ FAKECUDA_LIBRARY, uuid_2, 0 }, "CUDA_VISIBLE_DEVICES=2,0", 0, "0 GPU-66616b65");
	expect((struct opening){ FAKECUDA_LIBRARY, uuid_2, 0 }, "CUDA_VISIBLE_DEVICES=2,0", 0, "Fake GPU 2");
}

Test(driver, device_kinds_are_told)
{
	struct opening o = { FAKECUDA_LIBRARY, NULL, 0 };

	expect(o, "FAKECUDA_NAME=NVIDIA H200 MIG 1g.18gb", 0, " mig");
	expect(o, "FAKECUDA_INTEGRATED=1", 0, " integrated");
	expect(o, "FAKECUDA_STREAM_WRITE=0", 0, " no-stream-write");
	expect(o, "X=", 0, "version 13000\n");
}

/* ---- lateness ---------------------------------------------------------------------------------- */

static int write_late(void *arg)
{
	_Atomic uint64_t *host = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct driver *d = open_fake();
	uint64_t line, seen;
	void *s;

	must(d, driver_stream_create(d, &s));
	must(d, driver_host_register(d, (void *)host, 4096, &line));
	must(d, driver_stream_write64(d, s, line, 1));
	must(d, driver_stream_synchronize(d, s));
	must(d, driver_stream_write64(d, s, line, 2));
	must(d, driver_stream_write64(d, s, line, 3));
	seen = host[0];
	must(d, driver_stream_synchronize(d, s));
	return seen == 1 && host[0] == 3 ? 0 : 2;
}

Test(driver, a_late_write_holds_up_its_stream)
{
	const char *const environment[] = { "FAKECUDA_LATE=cuStreamWriteValue64:2:500", NULL };
	struct outcome o = in_child(write_late, NULL, environment);

	cr_assert_eq(o.exit_code, 0, "%s", o.text);
}

/* ---- what the fake driver is there to catch ---------------------------------------------------- */

static void expect_abort(int (*fn)(void *), void *arg, const char *variable, const char *text)
{
	const char *const environment[] = { variable, NULL };
	struct outcome o = in_child(fn, arg, environment);

	cr_assert_eq(o.signal, SIGABRT, "exit code %d: %s", o.exit_code, o.text);
	cr_assert(strstr(o.text, text), "no \"%s\" in: %s", text, o.text);
}

static int write_armed(void *arg)
{
	uint64_t *host = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), line;
	struct driver *d = open_fake();
	void *s;

	host[1] = *(uint64_t *)arg;
	must(d, driver_stream_create(d, &s));
	must(d, driver_host_register(d, host, 4096, &line));
	must(d, driver_stream_write64(d, s, line, 5));
	must(d, driver_stream_synchronize(d, s));
	return host[0] == 5 ? 0 : 2;
}

Test(fake, a_write_that_was_not_armed_aborts)
{
	const char *const environment[] = { "FAKECUDA_CHECK_ARMED=1", NULL };
	uint64_t armed = 4;

	expect_abort(write_armed, &armed, environment[0], "write of 5 enqueued while the armed word holds 4");
	armed = 5;
	cr_assert_eq(in_child(write_armed, &armed, environment).exit_code, 0);
	armed = 0;
	cr_assert_eq(in_child(write_armed, &armed, NULL).exit_code, 0, "without the switch nothing is checked");
}

static int open_only_fake(void *arg)
{
	driver_close(open_fake());
	return 0;
}

Test(fake, a_rule_for_an_unknown_function_aborts)
{
	expect_abort(open_only_fake, NULL, "FAKECUDA_FAIL=cuMemAllot:1:2", "no function cuMemAllot");
	expect_abort(open_only_fake, NULL, "FAKECUDA_LATE=cuMemAlloc", "is not NAME:NTH:VALUE");
}

static int import_and_wait(void *arg)
{
	struct driver *d = open_fake();
	uint32_t word;
	uint64_t p;
	void *s;

	must(d, driver_ipc_import(d, arg, &p));
	must(d, driver_stream_create(d, &s));
	fprintf(stderr, "open\n");
	for (;;) {
		must(d, driver_copy_to_host(d, s, &word, p, 4));
		must(d, driver_stream_synchronize(d, s));
		usleep(1000);
	}
	return 0;
}

Test(fake, memory_freed_while_it_is_imported_aborts_both)
{
	uint8_t handle[DRIVER_IPC_HANDLE];
	int stop, status, out[2];
	char text[TEXT] = "";
	size_t n = 0;
	pid_t exporter, importer;

	exporter = start_exporter(handle, &stop);
	cr_assert_eq(pipe(out), 0);
	importer = fork();
	if (importer == 0) {
		dup2(out[1], STDERR_FILENO);
		exit(import_and_wait(handle));
	}
	close(out[1]);
	while (!strchr(text, '\n') && n < TEXT - 1)
		n += (size_t)read(out[0], text + n, 1);
	cr_assert_eq(write(stop, "f", 1), 1);
	waitpid(exporter, &status, 0);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "the free of imported memory passed");
	waitpid(importer, &status, 0);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "the use after free passed");
}

Test(fake, memory_may_be_freed_when_its_importer_was_killed)
{
	uint8_t handle[DRIVER_IPC_HANDLE];
	int stop, status, out[2];
	char c = 0;
	pid_t exporter, importer;

	exporter = start_exporter(handle, &stop);
	cr_assert_eq(pipe(out), 0);
	importer = fork();
	if (importer == 0) {
		dup2(out[1], STDERR_FILENO);
		exit(import_and_wait(handle));
	}
	while (c != '\n')
		cr_assert_eq(read(out[0], &c, 1), 1);
	kill(importer, SIGKILL);
	/* Not reaped: a zombie maps nothing. */
	siginfo_t info;
	cr_assert_eq(waitid(P_PID, (id_t)importer, &info, WEXITED | WNOWAIT), 0);
	cr_assert_eq(write(stop, "f", 1), 1);
	waitpid(exporter, &status, 0);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	waitpid(importer, &status, 0);
}

static int close_twice(void *arg)
{
	struct driver *d = open_fake();
	uint64_t p;

	must(d, driver_ipc_import(d, arg, &p));
	must(d, driver_ipc_close(d, p));
	must(d, driver_ipc_close(d, p));
	return 0;
}

Test(fake, an_import_closed_twice_aborts)
{
	uint8_t handle[DRIVER_IPC_HANDLE];
	int stop;
	pid_t exporter = start_exporter(handle, &stop);

	expect_abort(close_twice, handle, "X=", "fakecuda: the import at");
	close(stop);
	waitpid(exporter, NULL, 0);
}

static int same_cell_twice(void *arg)
{
	struct kernel_apply p = { .width = 8, .num_pages = 9, .n_updates = 2, .updates = { { 3, 4 }, { 3, -1 } } };
	struct driver *d = open_fake();
	void *s;

	must(d, driver_stream_create(d, &s));
	must(d, driver_alloc(d, 4096, &p.table));
	must(d, driver_run_apply(d, s, &p));
	must(d, driver_stream_synchronize(d, s));
	return 0;
}

Test(fake, one_cell_twice_in_a_launch_aborts)
{
	if (have_kernels())
		expect_abort(same_cell_twice, NULL, "X=", "cell 3 twice in one launch");
}

static int kernel_with_host_pointer(void *arg)
{
	static int32_t table[64];
	struct kernel_apply p = { .width = 8, .num_pages = 9, .n_updates = 1, .updates = { { 3, 4 } } };
	struct driver *d = open_fake();
	uint64_t a, b;
	void *s;

	p.table = (uint64_t)(uintptr_t)table;
	must(d, driver_stream_create(d, &s));
	must(d, driver_run_apply(d, s, &p));
	if (driver_stream_synchronize(d, s) != SWAKV_EDEVICE)
		return 2;
	fprintf(stderr, "%s\n", driver_why(d));
	/* For good: the context is lost. */
	return driver_memory_info(d, &a, &b) == SWAKV_EDEVICE && table[3] == 0 ? 0 : 3;
}

Test(fake, an_illegal_address_loses_the_context)
{
	struct outcome o;

	if (!have_kernels())
		return;
	o = in_child(kernel_with_host_pointer, NULL, NULL);
	cr_assert_eq(o.exit_code, 0, "exit code %d: %s", o.exit_code, o.text);
	cr_assert(strstr(o.text,
			 "cuStreamSynchronize() failed: CUDA_ERROR_ILLEGAL_ADDRESS (700): a kernel of this process"),
		  "%s", o.text);
}

static int write_to_unregistered(void *arg)
{
	static uint64_t word;
	struct driver *d = open_fake();
	void *s;

	must(d, driver_stream_create(d, &s));
	return driver_stream_write64(d, s, (uint64_t)(uintptr_t)&word, 1) == SWAKV_EDEVICE && word == 0 ? 0 : 1;
}

Test(fake, a_write_to_memory_that_is_not_registered_is_refused)
{
	cr_assert_eq(in_child(write_to_unregistered, NULL, NULL).exit_code, 0);
}

static void *named_thread(void *arg)
{
	uint64_t p;

	pthread_setname_np(pthread_self(), "device thread");
	must(arg, driver_alloc(arg, 4096, &p));
	must(arg, driver_alloc(arg, 4096, &p));
	return NULL;
}

static int count_calls(void *arg)
{
	struct driver *d = open_fake();
	pthread_t t;

	pthread_setname_np(pthread_self(), "main");
	pthread_create(&t, NULL, named_thread, d);
	pthread_join(t, NULL);
	return 0;
}

Test(fake, calls_are_counted_by_thread)
{
	char path[] = "/tmp/fakecuda-count-XXXXXX", variable[64], text[TEXT] = "";
	const char *const environment[] = { variable, NULL };
	int fd = mkstemp(path);
	struct outcome o;

	snprintf(variable, sizeof(variable), "FAKECUDA_COUNT=%s", path);
	o = in_child(count_calls, NULL, environment);
	cr_assert_eq(o.exit_code, 0, "%s", o.text);
	cr_assert_gt(read(fd, text, sizeof(text) - 1), 0);
	unlink(path);
	close(fd);
	cr_assert(strstr(text, " device_thread cuMemAlloc_v2 2\n"), "%s", text);
	cr_assert_not(strstr(text, " main cuMemAlloc_v2"), "%s", text);
}
