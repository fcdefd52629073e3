/* SPDX-License-Identifier: Apache-2.0 */
/* assets.h - the files of the page that shows the pool, as the build put them into the program (embed.py) */
#ifndef SWAKV_EXPORTER_ASSETS_H
#define SWAKV_EXPORTER_ASSETS_H

#include <stddef.h>

struct asset {
	const char *path; /* "/page.js"; NULL: the list ends */
	const char *type;
	const unsigned char *bytes;
	size_t n;
};

extern const struct asset assets[];

#endif
