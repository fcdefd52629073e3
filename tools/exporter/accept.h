/* SPDX-License-Identifier: Apache-2.0 */
/* accept.h - which of the two texts for collectors a client wants */
#ifndef SWAKV_EXPORTER_ACCEPT_H
#define SWAKV_EXPORTER_ACCEPT_H

#include <stdbool.h>

/*
 * True when @header, the value of Accept (NULL: none), asks for OpenMetrics 1.0.0 by name, and for text no more than
 * for that. What cannot be read is passed over.
 */
bool accept_openmetrics(const char *header);

#endif
