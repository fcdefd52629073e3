/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h */
#include "table.h"

#include <stdlib.h>

void table_free(struct table *t)
{
	free(t->mirror);
	free(t->state);
	free(t->row_scratch);
	free(t->updates);
	free(t->sorted);
}
