/* SPDX-License-Identifier: Apache-2.0 */
/* version.c - what this library is and what it can do (swakv.7) */
#include <string.h>

#include <swakv/swakv.h>

#include "launch.h"

#define SIZE_OF(s)                                                                                                     \
	{                                                                                                              \
#s, sizeof(struct s)                                                                                   \
	}

/* What came after version 1 of the ABI. A name stays. */
static const char *const features[] = {
	"attach-wait",   /* swakv_attach_options.wait_ms */
	"export",        /* <swakv/export.h> */
	"fence-wait",    /* swakv_fence_wait() */
	"join",          /* swakv_session_get_token(), swakv_attach_options.join */
	"moves",         /* SWAKV_GROUP_MOVABLE, swakv_request_pin(), swakv_stream_ops.move */
	"pages",         /* swakv_pages_take(), swakv_pages_give() */
	"session-fd",    /* swakv_session_fd(), swakv_session_take() */
	"sized-structs", /* spec section 9 */
	"step-cycle",    /* swakv_step_cycle() */
	"step-turn",     /* swakv_step_turn() */
	"wants-fd",      /* swakv_session_fd() tells of pages that are wanted */
	"wants-ranges",  /* swakv_pages_wanted_ranges() */
};

uint32_t swakv_version(void)
{
	return SWAKV_VERSION_NUMBER;
}

bool swakv_has(const char *feature)
{
	if (feature && strcmp(feature, "cuda") == 0)
		return kernel_image_table.data != NULL; /* an image goes into a build with a driver only */
	for (size_t i = 0; feature && i < sizeof(features) / sizeof(features[0]); i++)
		if (strcmp(features[i], feature) == 0)
			return true;
	return false;
}

size_t swakv_struct_size(const char *name)
{
	static const struct {
		const char *name;
		size_t size;
	} structs[] = {
		SIZE_OF(swakv_attach_options), SIZE_OF(swakv_begin_options),  SIZE_OF(swakv_binding),
		SIZE_OF(swakv_cuda_options),   SIZE_OF(swakv_cycle),          SIZE_OF(swakv_export_rows),
		SIZE_OF(swakv_export_style),   SIZE_OF(swakv_fence),          SIZE_OF(swakv_group),
		SIZE_OF(swakv_layout),         SIZE_OF(swakv_model),          SIZE_OF(swakv_page_range),
		SIZE_OF(swakv_request_state),  SIZE_OF(swakv_sequence_state), SIZE_OF(swakv_session_counters),
		SIZE_OF(swakv_session_info),   SIZE_OF(swakv_step),           SIZE_OF(swakv_stream_ops),
		SIZE_OF(swakv_token),          SIZE_OF(swakv_turn),           SIZE_OF(swakv_update),
	};

	for (size_t i = 0; name && i < sizeof(structs) / sizeof(structs[0]); i++)
		if (strcmp(structs[i].name, name) == 0)
			return structs[i].size;
	return 0;
}
