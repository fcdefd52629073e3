/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c - how this driver and this GPU answer what their documents leave open
 *
 * Each question is asked with as few calls as it takes, and answered in a line
 * with what was seen; nothing is judged. Other processes are this program in
 * one of its roles (--ROLE), which write lines and end with their input.
 *
 * The roles --imported and --beyond are for compute-sanitizer, which is started
 * round them by tests/gpu/probes: a kernel that writes memory another process
 * has exported, and one that writes behind its end.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/nvml.h"
#include "figures/child.h"
#include "figures/report.h"
#include "launch.h"

#define LIMIT_MS  60000
#define BLOCK     (4ull << 20) /* exported memory */
#define SMALL     4096ull
#define PATTERN   0x5a5a
#define MOST_PIDS 256

static struct driver *driver;
static void *stream;
static char self[512];

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "probe: %s: %s\n", what, driver ? driver_why(driver) : "no driver");
	exit(1);
}

static void must(int code, const char *what)
{
	if (code)
		give_up(what);
}

static void open_driver(void)
{
	char why[DRIVER_WHY];

	if (driver_open(&driver, NULL, NULL, 0, why)) {
		fprintf(stderr, "probe: %s\n", why);
		exit(1);
	}
	must(driver_stream_create(driver, &stream), "stream");
}

static void answer(const char *question, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void answer(const char *question, const char *format, ...)
{
	va_list args;

	printf("- %s: ", question);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	puts("");
	fflush(stdout);
}

/* ---- roles ---------------------------------------------------------------------- */

static void say_handle(const uint8_t handle[DRIVER_IPC_HANDLE])
{
	for (int i = 0; i < DRIVER_IPC_HANDLE; i++)
		printf("%02x", handle[i]);
	puts("");
	fflush(stdout);
}

static void wait_for_end(void)
{
	char line[16];

	while (fgets(line, sizeof(line), stdin))
		continue;
}

/* Exports an allocation; with @neighbour a small one, and says how far behind it lies another that holds a pattern. */
static int role_export(bool neighbour)
{
	uint8_t handle[DRIVER_IPC_HANDLE];
	uint64_t at, other = 0;

	open_driver();
	must(driver_alloc(driver, neighbour ? SMALL : BLOCK, &at), "allocation");
	if (neighbour) {
		must(driver_alloc(driver, SMALL, &other), "allocation");
		if (other < at) {
			uint64_t keep = at;

			at = other;
			other = keep;
		}
		must(driver_fill16(driver, stream, other, PATTERN + 1, SMALL / 2), "fill");
	}
	must(driver_fill16(driver, stream, at, PATTERN, SMALL / 2), "fill");
	must(driver_stream_synchronize(driver, stream), "fill");
	must(driver_ipc_export(driver, at, handle), "export");
	if (neighbour)
		printf("%" PRId64 "\n", (int64_t)(other - at));
	say_handle(handle);
	wait_for_end();
	return 0;
}

/* Registers the memory of descriptor @fd and writes its second line on a stream when told to. */
static int role_register(int fd)
{
	uint64_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), device;
	char line[16];

	if (p == MAP_FAILED)
		return 1;
	open_driver();
	if (driver_host_register(driver, p, 4096, &device)) {
		printf("refused %s\n", driver_why(driver));
		fflush(stdout);
		return 0;
	}
	puts("registered");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	must(driver_stream_write64(driver, stream, device + 64, 22), "stream write");
	must(driver_stream_synchronize(driver, stream), "stream write");
	puts("written");
	fflush(stdout);
	wait_for_end();
	return 0;
}

/* Keeps the device busy with launches until it is killed. */
static _Noreturn void role_busy(uint64_t bytes, bool imported, const uint8_t *handle)
{
	uint64_t at;

	open_driver();
	if (imported)
		must(driver_ipc_import(driver, handle, &at), "import");
	else
		must(driver_alloc(driver, bytes, &at), "allocation");
	for (int i = 0;; i++) {
		must(driver_fill32(driver, stream, at, (uint32_t)i, bytes / 4), "fill");
		if (i % 64 == 63)
			must(driver_stream_synchronize(driver, stream), "fill");
		if (i == 8) {
			puts("busy");
			fflush(stdout);
		}
	}
}

static void read_handle(const char *line, uint8_t handle[DRIVER_IPC_HANDLE])
{
	for (size_t i = 0; i < DRIVER_IPC_HANDLE && line[2 * i]; i++) {
		const char two[3] = { line[2 * i], line[2 * i + 1], '\0' };

		handle[i] = (uint8_t)strtoul(two, NULL, 16);
	}
}

/* Starts this program as @role; its first line, or the second where @offset is given, is a handle. */
static void start_exporter(struct child *c, const char *role, int64_t *offset, uint8_t handle[DRIVER_IPC_HANDLE])
{
	const char *const argv[] = { self, role, NULL };
	char line[256];

	if (!child_start(c, argv, NULL))
		give_up("starting an exporting process");
	if (offset) {
		if (!child_hear(c, line, sizeof(line), LIMIT_MS))
			give_up("an exporting process");
		*offset = strtoll(line, NULL, 10);
	}
	if (!child_hear(c, line, sizeof(line), LIMIT_MS))
		give_up("an exporting process");
	read_handle(line, handle);
}

/*
 * A kernel of this process fills a page in, or (@beyond) behind, what another
 * process has exported. Exit code 0: the driver saw nothing wrong.
 */
static int role_sanitized(bool beyond)
{
	uint8_t handle[DRIVER_IPC_HANDLE];
	struct kernel_fill f = { .n_pages = 1, .pattern = PATTERN };
	struct child exporter;
	uint64_t list;
	int rc;

	open_driver();
	start_exporter(&exporter, "--export", NULL, handle);
	must(driver_ipc_import(driver, handle, &f.pages.half[0]), "import");
	must(driver_alloc(driver, sizeof(int32_t), &list), "allocation");
	must(driver_fill32(driver, stream, list, 0, 1), "page list");
	f.pages.half[0] += beyond ? BLOCK - 64 : 0;
	f.pages.half[1] = f.pages.half[0];
	f.pages.page_stride = SMALL;
	f.page_list = list;
	rc = driver_run_fill(driver, stream, &f);
	rc = rc ? rc : driver_stream_synchronize(driver, stream);
	printf("%s\n", rc ? driver_why(driver) : "no error");
	child_end(&exporter, false, LIMIT_MS);
	return 0;
}

/* ---- memory between processes ------------------------------------------------------- */

static void ask_registration(void)
{
	static const char question[] = "two processes register one memfd, each writes a word of it on a stream";
	int low = memfd_create("probe", MFD_CLOEXEC),
	    fd = fcntl(low, F_DUPFD, 10); /* the first ones are the child's own */
	uint64_t *p, device;
	char number[16], line[256] = "";
	const char *const argv[] = { self, "--register", number, NULL };
	struct child c;

	if (fd < 0 || ftruncate(fd, 4096) != 0)
		give_up("memfd");
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		give_up("mmap");
	p[1] = p[9] = UINT64_MAX; /* where a checking driver looks for armed words */
	must(driver_host_register(driver, p, 4096, &device), "registering");
	snprintf(number, sizeof(number), "%d", fd);
	if (!child_start(&c, argv, NULL) || !child_hear(&c, line, sizeof(line), LIMIT_MS))
		give_up("a second process");
	if (strcmp(line, "registered") != 0) {
		answer(question, "no, the second is %s", line);
	} else {
		child_say(&c, "write");
		child_expect(&c, "written", LIMIT_MS);
		must(driver_stream_write64(driver, stream, device, 11), "stream write");
		must(driver_stream_synchronize(driver, stream), "stream write");
		answer(question, "first sees %" PRIu64 " and %" PRIu64 " (11 and 22 are right)", p[0], p[8]);
		child_kill(&c);
		must(driver_stream_write64(driver, stream, device, 33), "stream write");
		must(driver_stream_synchronize(driver, stream), "stream write");
		answer("the same after the second was killed", "first sees %" PRIu64 " (33 is right)", p[0]);
	}
	child_end(&c, false, LIMIT_MS);
	must(driver_host_unregister(driver, p), "unregistering");
	munmap(p, 4096);
	close(fd);
	close(low);
}

static void ask_neighbourhood(void)
{
	static const char question[] = "does the handle of a small allocation expose its 2 MiB neighbourhood?";
	uint8_t handle[DRIVER_IPC_HANDLE];
	uint16_t own = 0, other = 0;
	int64_t offset = 0;
	struct child c;
	uint64_t at;

	start_exporter(&c, "--export-small", &offset, handle);
	must(driver_ipc_import(driver, handle, &at), "import");
	must(driver_copy_to_host(driver, stream, &own, at, 2), "reading");
	must(driver_stream_synchronize(driver, stream), "reading");
	if (own != PATTERN)
		answer(question, "its own bytes read %#x, not %#x", own, PATTERN);
	else if (offset < 0 || offset > 2 << 20)
		answer(question, "not asked: two allocations of 4 KiB lie %" PRId64 " bytes apart", offset);
	else if (driver_copy_to_host(driver, stream, &other, at + (uint64_t)offset, 2) ||
		 driver_stream_synchronize(driver, stream))
		answer(question, "no: %s", driver_why(driver));
	else
		answer(question, "%s: another allocation, %" PRId64 " bytes behind, reads %#x (%#x is its own)",
		       other == PATTERN + 1 ? "yes" : "no", offset, other, PATTERN + 1);
	must(driver_ipc_close(driver, at), "close");
	child_end(&c, false, LIMIT_MS);
}

static void ask_imports(void)
{
	uint8_t handle[DRIVER_IPC_HANDLE], own[DRIVER_IPC_HANDLE];
	uint64_t first, second, mine, again;
	uint16_t value = 0;
	struct child c;
	int rc;

	start_exporter(&c, "--export", NULL, handle);
	must(driver_ipc_import(driver, handle, &first), "import");
	rc = driver_ipc_import(driver, handle, &second);
	answer("a second import in one process", "%s",
	       rc                ? driver_why(driver)
	       : first == second ? "the same address"
				 : "another address");
	if (rc == 0)
		must(driver_ipc_close(driver, second), "close");
	must(driver_alloc(driver, BLOCK, &mine), "allocation");
	must(driver_ipc_export(driver, mine, own), "export");
	rc = driver_ipc_import(driver, own, &again);
	answer("an import in the exporting process", "%s", rc ? driver_why(driver) : "allowed");
	must(driver_free(driver, mine), "free");
	child_kill(&c);
	rc = driver_copy_to_host(driver, stream, &value, first, 2);
	rc = rc ? rc : driver_stream_synchronize(driver, stream);
	if (rc)
		answer("imported memory after its exporter was killed", "%s", driver_why(driver));
	else
		answer("imported memory after its exporter was killed", "still there, reads %#x (%#x is right)", value,
		       PATTERN);
	rc = driver_ipc_close(driver, first);
	answer("and closing it", "%s", rc ? driver_why(driver) : "no error");
	rc = driver_ipc_import(driver, handle, &second);
	answer("an import after the exporter was killed", "%s", rc ? driver_why(driver) : "allowed");
}

/* ---- streams ----------------------------------------------------------------------------- */

/* What a plain dlsym() finds may be an older version of the entry point. */
static void ask_plain_symbol(void)
{
	static const char question[] = "cuStreamWriteValue64 as a plain dlsym() finds it";
	const char *library = getenv("SWAKV_CUDA_LIBRARY");
	void *lib = dlopen(library && *library ? library : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	CUresult (*retain)(CUcontext *, CUdevice), (*push)(CUcontext), (*pop)(CUcontext *),
		(*write)(CUstream, CUdeviceptr, cuuint64_t, unsigned);
	void *symbols[] = { lib ? dlsym(lib, "cuDevicePrimaryCtxRetain") : NULL,
			    lib ? dlsym(lib, "cuCtxPushCurrent_v2") : NULL,
			    lib ? dlsym(lib, "cuCtxPopCurrent_v2") : NULL,
			    lib ? dlsym(lib, "cuStreamWriteValue64") : NULL };
	CUcontext context;
	CUresult result;
	uint64_t at;

	memcpy(&retain, &symbols[0], sizeof(retain));
	memcpy(&push, &symbols[1], sizeof(push));
	memcpy(&pop, &symbols[2], sizeof(pop));
	memcpy(&write, &symbols[3], sizeof(write));
	if (!symbols[0] || !symbols[1] || !symbols[2] || !symbols[3]) {
		answer(question, "not there");
		return;
	}
	must(driver_alloc(driver, SMALL, &at), "allocation");
	if (retain(&context, 0) != CUDA_SUCCESS || push(context) != CUDA_SUCCESS)
		give_up("context");
	result = write(stream, at, 1, 0);
	pop(&context);
	answer(question, "answers %d (0 success, 801 not supported)", (int)result);
	must(driver_stream_synchronize(driver, stream), "stream write");
	must(driver_free(driver, at), "free");
}

/* ---- the end of a process ------------------------------------------------------------------- */

/* 1 listed, 0 not, -1 unknown. */
static int nvml_lists(struct nvml *n, pid_t pid)
{
	uint32_t pids[MOST_PIDS];
	int found = n ? nvml_processes(n, pids, MOST_PIDS) : -1;

	for (int i = 0; i < found; i++) {
		if (pids[i] == (uint32_t)pid)
			return 1;
	}
	return found < 0 ? -1 : 0;
}

/* Milliseconds from a kill to each sign of the end. */
struct endings {
	struct series pidfd, nvml, memory;
	bool listed;  /* NVML listed every one while it lived */
	int overtook; /* NVML stopped listing it before the pidfd was readable */
};

static uint64_t free_memory(void)
{
	uint64_t bytes, total;

	must(driver_memory_info(driver, &bytes, &total), "memory");
	return bytes;
}

static void one_ending(struct endings *e, struct nvml *n, const char *const *argv)
{
	uint64_t before = free_memory();
	double from, pidfd = 0, nvml = 0, memory = 0;
	struct pollfd p = { .events = POLLIN };
	struct child c;
	pid_t pid;

	if (!child_start(&c, argv, NULL) || !child_expect(&c, "busy", LIMIT_MS))
		give_up("a busy process");
	pid = c.pid;
	e->listed &= nvml_lists(n, pid) == 1;
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	from = now_us();
	kill(pid, SIGKILL);
	while ((pidfd == 0 || (e->listed && nvml == 0) || memory == 0) && now_us() - from < 10e6) {
		if (pidfd == 0 && poll(&p, 1, 0) == 1)
			pidfd = now_us() - from;
		if (e->listed && nvml == 0 && nvml_lists(n, pid) == 0)
			nvml = now_us() - from;
		if (memory == 0 && free_memory() >= before)
			memory = now_us() - from;
	}
	close(p.fd);
	child_kill(&c);
	series_add(&e->pidfd, pidfd / 1e3);
	series_add(&e->nvml, nvml / 1e3);
	series_add(&e->memory, memory / 1e3);
	e->overtook += nvml > 0 && nvml < pidfd;
}

static void tell_ending(const char *what, const struct series *s)
{
	answer(what, "%.1f ms (%.1f - %.1f)", series_median(s), series_min(s), series_max(s));
}

/* Processes that own their memory, and processes that write what another one exports. */
static void ask_endings(void)
{
	static const char *const kinds[] = { "--busy", "--busy-imported" };
	struct driver_device device;
	char why[NVML_WHY] = "";
	struct nvml *n = NULL;

	driver_get_device(driver, &device);
	nvml_open(&n, device.uuid, why);
	for (int i = 0; i < 2; i++) {
		struct endings e = { .listed = n != NULL };
		const char *const argv[] = { self, kinds[i], NULL };

		printf("a process killed with kernels queued%s:\n",
		       i ? ", which write memory that another exports" : "");
		for (int k = 0; k < SAMPLES; k++)
			one_ending(&e, n, argv);
		tell_ending("kill to pidfd readable", &e.pidfd);
		if (e.listed)
			tell_ending("kill to NVML listing it no longer", &e.nvml);
		else
			answer("kill to NVML listing it no longer", "%s",
			       n ? "it does not list the process while it lives" : why);
		if (e.listed)
			answer("NVML stopped listing it before its pidfd was readable", "%d of %d times", e.overtook,
			       SAMPLES);
		tell_ending("kill to its memory being free (0: it was not within 10 s)", &e.memory);
	}
	nvml_close(n);
}

/* An exporter of its own, whose memory is written until this process is killed; the exporter dies with it. */
static _Noreturn void role_busy_imported(void)
{
	uint8_t handle[DRIVER_IPC_HANDLE];
	struct child c;

	start_exporter(&c, "--export", NULL, handle);
	role_busy(BLOCK, true, handle);
}

/* ---- main --------------------------------------------------------------------------------------- */

static int ask_all(void)
{
	struct driver_device device;

	open_driver();
	driver_get_device(driver, &device);
	printf("%s, driver for CUDA %d.%d\n", device.name, device.driver_version / 1000,
	       device.driver_version % 1000 / 10);
	ask_registration();
	ask_neighbourhood();
	ask_imports();
	ask_plain_symbol();
	ask_endings();
	driver_stream_destroy(driver, stream);
	driver_close(driver);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "export", no_argument, NULL, 'e' },         { "export-small", no_argument, NULL, 's' },
		{ "register", required_argument, NULL, 'r' }, { "busy", no_argument, NULL, 'b' },
		{ "busy-imported", no_argument, NULL, 'B' },  { "imported", no_argument, NULL, 'i' },
		{ "beyond", no_argument, NULL, 'o' },         { 0 },
	};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return 1;
	switch (getopt_long(argc, argv, "", options, NULL)) {
	case 'e':
		return role_export(false);
	case 's':
		return role_export(true);
	case 'r':
		return role_register(atoi(optarg));
	case 'b':
		role_busy(16ull << 20, false, NULL);
	case 'B':
		role_busy_imported();
	case 'i':
		return role_sanitized(false);
	case 'o':
		return role_sanitized(true);
	case -1:
		return ask_all();
	default:
		return 2;
	}
}
