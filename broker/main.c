/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - swakvd: arguments, then broker.c */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "broker.h"
#include "config/config.h"
#include "device/plan.h"
#include "device/self_test.h"
#include "log/log.h"
#include "output.h"

int main(int argc, char **argv)
{
	static struct config config;
	struct config_arguments arguments;
	struct config_error error;

	if (argc == 2 && strcmp(argv[1], SELF_TEST_ARGUMENT) == 0)
		return self_test_child();
	output_check_at_exit("swakvd", EXIT_CODE_FAILURE);
	config_init(&config);
	if (config_parse_arguments(&config, argc, argv, &arguments, &error) < 0) {
		log_error("%s", error.text);
		return EXIT_CODE_CONFIG;
	}
	if (arguments.help) {
		config_usage(stdout);
		return EXIT_CODE_OK;
	}
	if (arguments.version) {
		printf("swakvd %s\n", SWAKV_VERSION);
		return EXIT_CODE_OK;
	}
	if (config.stray_line)
		log_warning("%s:%d: a key before any section is taken as one of [broker]: write [broker] above it",
			    arguments.file, config.stray_line);
	if (arguments.dry_run)
		return broker_dry_run(&config);
	if (arguments.check_config) {
		struct backend_pool pool;
		char why[BACKEND_WHY];
		int code = plan_check(&config, &pool, why);

		if (code) {
			log_error("%s", why);
			return code;
		}
		printf("configuration is correct\n");
		if (pool.bytes)
			printf("smallest page: 2 x %" PRIu64 " bytes\n", pool.min_page_bytes);
		return EXIT_CODE_OK;
	}
	return broker_run(&config, arguments.ready_fd);
}
