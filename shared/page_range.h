/* SPDX-License-Identifier: Apache-2.0 */
/* page_range.h - pages that follow each other */
#ifndef SWAKV_PAGE_RANGE_H
#define SWAKV_PAGE_RANGE_H

#include <stdint.h>

struct page_range {
	int32_t first, end; /* ids [first, end) */
};

#endif
