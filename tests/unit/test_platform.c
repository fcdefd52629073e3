/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine is told by, in a folder that stands for its root. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/platform.h"

static char root[64];

/* Makes @path below the root, its folders included, with @text in it. */
static void put(const char *path, const char *text)
{
	char full[256];
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(full, 0755);
		*slash = '/';
	}
	f = fopen(full, "w");
	cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s", full);
}

static void setup(void)
{
	unsetenv("CUDA_MPS_PIPE_DIRECTORY");
	strcpy(root, "/tmp/swakv-platform.XXXXXX");
	cr_assert(mkdtemp(root));
	put("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
}

static void teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	cr_assert_eq(system(command), 0);
}

TestSuite(platform, .init = setup, .fini = teardown);

static struct platform look(struct driver_device device)
{
	struct platform p;

	platform_detect(&p, &device, root);
	return p;
}

/* The cause must hold each of the words. */
static void says(const struct platform *p, bool export_fd, const char *word)
{
	char text[256];

	platform_cause(p, export_fd, text, sizeof(text));
	cr_assert(strstr(text, word), "no \"%s\" in: %s", word, text);
}

Test(platform, a_plain_machine_raises_no_doubt)
{
	struct platform p = look((struct driver_device){ .name = "NVIDIA H200" });

	cr_assert_null(platform_doubt(&p));
	cr_assert_not(p.mps);
	cr_assert_not(p.container);
	says(&p, false, "--export=fd");
}

Test(platform, a_slice_is_a_doubt_and_its_cause)
{
	struct platform p = look((struct driver_device){ .mig = true });

	cr_assert_str_eq(platform_doubt(&p), "a MIG slice");
	says(&p, false, "MIG");
}

Test(platform, jetson_is_told_by_its_files_and_by_the_attribute)
{
	struct platform p = look((struct driver_device){ .integrated = true });

	cr_assert(strstr(platform_doubt(&p), "integrated"));
	put("/etc/nv_tegra_release", "# R36 (release)\n");
	p = look((struct driver_device){ .integrated = false });
	cr_assert(p.jetson);
	cr_assert(strstr(platform_doubt(&p), "Jetson"));
	says(&p, true, "Jetson");
}

Test(platform, wsl_is_told_by_its_kernel)
{
	struct platform p;

	put("/proc/sys/kernel/osrelease", "5.15.153.1-Microsoft-standard-WSL2\n");
	p = look((struct driver_device){ .ordinal = 0 });
	cr_assert(p.wsl);
	cr_assert(strstr(platform_doubt(&p), "WSL"));
	says(&p, false, "WSL 2");
}

Test(platform, a_container_is_told_by_its_mark)
{
	struct platform p;

	put("/.dockerenv", "");
	p = look((struct driver_device){ .ordinal = 0 });
	cr_assert(p.container);
	cr_assert_null(platform_doubt(&p));
	says(&p, false, "--ipc=host");
}

Test(platform, mps_is_there_while_its_daemon_lives)
{
	struct platform p;

	put("/tmp/nvidia-mps/nvidia-cuda-mps-control.pid", "4711\n");
	p = look((struct driver_device){ .ordinal = 0 });
	cr_assert_not(p.mps, "a daemon that has ended");
	put("/proc/4711/comm", "nvidia-cuda-mps\n");
	p = look((struct driver_device){ .ordinal = 0 });
	cr_assert(p.mps);
	says(&p, false, "Multi-Process Service");
}

Test(platform, mps_is_looked_for_where_its_variable_says)
{
	struct platform p;

	put("/run/mps/nvidia-cuda-mps-control.pid", "4711\n");
	put("/proc/4711/comm", "nvidia-cuda-mps\n");
	p = look((struct driver_device){ .ordinal = 0 });
	cr_assert_not(p.mps);
	setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/mps", 1);
	p = look((struct driver_device){ .ordinal = 0 });
	cr_assert(p.mps);
	cr_assert_str_eq(p.mps_directory, "/run/mps");
}
