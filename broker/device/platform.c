/* SPDX-License-Identifier: Apache-2.0 */
#include "platform.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"

#define MPS_DIRECTORY "/tmp/nvidia-mps"

static bool exists(const char *root, const char *path)
{
	char full[512];

	snprintf(full, sizeof(full), "%s%s", root, path);
	return access(full, F_OK) == 0;
}

/* True when the first line of the file has @word in it, whatever its case. */
static bool says(const char *root, const char *path, const char *word)
{
	AUTO_FCLOSE FILE *f = NULL;
	char full[512], line[256] = "";

	snprintf(full, sizeof(full), "%s%s", root, path);
	f = fopen(full, "re");
	if (!f || !fgets(line, sizeof(line), f))
		return false;
	for (char *c = line; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return strstr(line, word) != NULL;
}

/* The daemon leaves its pid in the folder of its pipes; a stale one proves nothing. */
static void find_mps(struct platform *p, const char *root)
{
	const char *directory = getenv("CUDA_MPS_PIPE_DIRECTORY");
	AUTO_FCLOSE FILE *f = NULL;
	char full[512], proc[64];
	long pid = 0;

	snprintf(p->mps_directory, sizeof(p->mps_directory), "%s", directory && *directory ? directory : MPS_DIRECTORY);
	snprintf(full, sizeof(full), "%s%s/nvidia-cuda-mps-control.pid", root, p->mps_directory);
	f = fopen(full, "re");
	if (!f || fscanf(f, "%ld", &pid) != 1 || pid <= 0)
		return;
	snprintf(proc, sizeof(proc), "/proc/%ld", pid);
	p->mps = exists(root, proc);
}

void platform_detect(struct platform *p, const struct driver_device *device, const char *root)
{
	*p = (struct platform){
		.mig = device->mig,
		.integrated = device->integrated,
		.jetson = exists(root, "/etc/nv_tegra_release") || says(root, "/proc/device-tree/model", "jetson"),
		.wsl = says(root, "/proc/sys/kernel/osrelease", "microsoft"),
		.container = exists(root, "/.dockerenv") || exists(root, "/run/.containerenv"),
	};
	find_mps(p, root);
}

const char *platform_doubt(const struct platform *p)
{
	if (p->mig)
		return "a MIG slice";
	if (p->jetson)
		return "a Jetson's integrated GPU";
	if (p->integrated)
		return "an integrated GPU";
	return p->wsl ? "a GPU under WSL 2" : NULL;
}

const char *platform_cause(const struct platform *p, bool export_fd, char *buf, size_t size)
{
	const char *other = export_fd ? "" : "--export=fd or ";

	if (p->mig)
		snprintf(buf, size,
			 "the device is a MIG slice, which has no legacy IPC handles; use a whole GPU, %s"
			 "--backend=host",
			 other);
	else if (p->jetson || p->integrated)
		snprintf(buf, size,
			 "the device is an integrated GPU (Jetson), which cannot share memory in this way; "
			 "use a discrete GPU, %s--backend=host",
			 other);
	else if (p->wsl)
		snprintf(buf, size,
			 "WSL 2 does not let processes share device memory; use Linux on the machine "
			 "itself, or --backend=host");
	else if (p->mps)
		snprintf(buf, size,
			 "the Multi-Process Service runs (%s) and its clients share memory only with each "
			 "other, of one user; start broker and workers all under it or all without it",
			 p->mps_directory);
	else if (p->container)
		snprintf(buf, size,
			 "the container shares neither the pid nor the ipc namespace that the driver looks "
			 "at, or its seccomp profile forbids it; run it with --pid=host --ipc=host%s",
			 export_fd ? "" : ", or use --export=fd");
	else
		snprintf(buf, size,
			 "driver and kernel module do not match, or the device is in exclusive compute mode: see "
			 "nvidia-smi -q and the kernel log%s",
			 export_fd ? "" : "; --export=fd needs less of the driver");
	return buf;
}
