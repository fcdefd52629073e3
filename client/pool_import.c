/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_import.c - see pool_import.h
 *
 * One lock covers look-up, import and close: a close that overlaps an import of
 * the same handle is what breaks in other libraries. Imports can be slow; only
 * attaches and closes of this process wait for each other.
 */
#include "pool_import.h"

#include <bsd/sys/queue.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <swakv/error.h>

#include "driver.h"
#include "incarnation.h"
#include "welcome.h"

struct entry {
	struct pool_import import; /* first: handed out */
	LIST_ENTRY(entry) link;
	uint32_t refs;
	uint32_t incarnation; /* entries of a parent process are not this one's */
	uint8_t boot_id[16];
	char name[WIRE_NAME];
};

static LIST_HEAD(, entry) entries = LIST_HEAD_INITIALIZER(entries); /* guarded by the process lock */

/* ---- host -------------------------------------------------------------------- */

static int import_host(struct pool_import *p, const struct pool_request *q, struct text *why)
{
	int r = welcome_check_memory(q->fd, q->pool->bytes, "pool", why);
	void *m;

	if (r < 0)
		return r;
	m = mmap(NULL, q->pool->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, q->fd, 0);
	if (m == MAP_FAILED)
		return text_set(why, SWAKV_ESYSTEM, "mapping the %llu bytes of pool '%s' failed: %s",
				(unsigned long long)q->pool->bytes, q->pool->name, strerror(errno));
	(void)madvise(m, q->pool->bytes, MADV_DONTFORK);
	p->host = m;
	p->address = (uint64_t)(uintptr_t)m;
	return 0;
}

/* ---- CUDA -------------------------------------------------------------------- */

/* "ipc:[4026531839]" of a process, or "unknown". */
static const char *ipc_namespace(const char *process, char *buf, size_t size)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%s/ns/ipc", process);
	n = readlink(path, buf, size - 1);
	if (n < 0)
		return "unknown";
	buf[n] = '\0';
	return buf;
}

/* The UUID of the first device this process sees, for the text of a failed attach. */
static void first_device(const char *library, char uuid[41])
{
	struct driver *d = NULL;
	struct driver_device device;
	char ignored[DRIVER_WHY];

	if (driver_open(&d, library, NULL, 0, ignored) < 0) {
		snprintf(uuid, 41, "none");
		return;
	}
	driver_get_device(d, &device);
	driver_uuid_format(device.uuid, uuid);
	driver_close(d);
}

static int cuda_failed(const struct pool_request *q, int code, const char *what, const char *reason, const char *cause,
		       struct text *why)
{
	char theirs[41], ours[41], here[64], there[64], pid[16];

	driver_uuid_format(q->pool->device_uuid, theirs);
	first_device(q->cuda_library, ours);
	snprintf(pid, sizeof(pid), "%d", q->broker_pid);
	return text_set(why, code,
			"%s of pool '%s' failed: %s. Broker '%s': pid %d, device %s (%s), %s. This process: pid %d, "
			"first device %s, %s. Likely cause: %s. Next: '%s' and 'nvidia-smi -L'",
			what, q->pool->name, reason, q->broker, q->broker_pid, theirs, q->pool->device,
			ipc_namespace(pid, there, sizeof(there)), (int)getpid(), ours,
			ipc_namespace("self", here, sizeof(here)), cause, q->look);
}

static int import_memory(struct pool_import *p, const struct pool_request *q)
{
	if (q->pool->export_kind != WIRE_EXPORT_CUDA_FD)
		return driver_ipc_import(p->driver, q->pool->ipc_handle, &p->address);
	p->mapped = q->pool->bytes;
	return driver_share_map(p->driver, q->fd, &p->mapped, &p->address);
}

static void unimport_memory(struct pool_import *p)
{
	if (p->mapped)
		(void)driver_share_unmap(p->driver, p->address, p->mapped);
	else
		(void)driver_ipc_close(p->driver, p->address);
}

static int import_cuda(struct pool_import *p, const struct pool_request *q, struct text *why)
{
	char reason[DRIVER_WHY] = "";
	int r = driver_open(&p->driver, q->cuda_library, q->pool->device_uuid, 0, reason);

	if (r < 0)
		return cuda_failed(q, r, "opening the device", reason,
				   r == SWAKV_EUNSUPPORTED
					   ? "this library was built without CUDA"
					   : "CUDA_VISIBLE_DEVICES or a container hides the broker's device from this "
					     "process, or there is no driver",
				   why);
	r = import_memory(p, q);
	if (r < 0) {
		snprintf(reason, sizeof(reason), "%s", driver_why(p->driver));
		p->driver = driver_close(p->driver);
		return cuda_failed(
			q, r, "importing the memory", reason,
			q->pool->export_kind == WIRE_EXPORT_CUDA_FD
				? "the device or its driver cannot share memory by descriptors, or a container keeps "
				  "this process from it"
				: "the broker has just been restarted, this process is the one that exported it, or "
				  "the two run in different containers or as different users",
			why);
	}
	return 0;
}

/* ---- the registry -------------------------------------------------------------- */

static struct entry *entry_find(const struct pool_request *q)
{
	struct entry *e;

	LIST_FOREACH (e, &entries, link)
		if (e->incarnation == q->incarnation && memcmp(e->boot_id, q->boot_id, sizeof(e->boot_id)) == 0 &&
		    strcmp(e->name, q->pool->name) == 0)
			return e;
	return NULL;
}

static int entry_make(const struct pool_request *q, struct entry **out, struct text *why)
{
	struct entry *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return text_set(why, SWAKV_ENOMEM, "out of memory");
	e->incarnation = q->incarnation;
	memcpy(e->boot_id, q->boot_id, sizeof(e->boot_id));
	memcpy(e->name, q->pool->name, sizeof(e->name));
	e->import.bytes = q->pool->bytes;
	r = q->pool->backend == WIRE_BACKEND_CUDA ? import_cuda(&e->import, q, why) : import_host(&e->import, q, why);
	if (r < 0) {
		free(e);
		return r;
	}
	LIST_INSERT_HEAD(&entries, e, link);
	*out = e;
	return 0;
}

int pool_import_get(const struct pool_request *q, struct pool_import **out, struct text *why)
{
	struct entry *e;
	int r = 0;

	process_lock();
	e = entry_find(q);
	if (!e)
		r = entry_make(q, &e, why);
	else if (e->import.bytes != q->pool->bytes)
		r = text_set(why, SWAKV_EVERSION, "pool '%s' has another size than at this process's first attach",
			     q->pool->name);
	if (r == 0) {
		e->refs++;
		*out = &e->import;
	}
	process_unlock();
	return r;
}

struct pool_import *pool_import_put(struct pool_import *p)
{
	struct entry *e = (struct entry *)p;

	if (!p)
		return NULL;
	process_lock();
	if (--e->refs == 0) {
		LIST_REMOVE(e, link);
		if (p->host)
			munmap(p->host, p->bytes);
		if (p->driver) {
			unimport_memory(p);
			driver_close(p->driver);
		}
		free(e);
	}
	process_unlock();
	return NULL;
}
