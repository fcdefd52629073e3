/* SPDX-License-Identifier: Apache-2.0 */
/* The build found no nvcc: there are no kernel images. */
#include "launch.h"

const struct driver_image kernel_image_table, kernel_image_engine;
