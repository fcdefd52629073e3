/* SPDX-License-Identifier: Apache-2.0 */
/* The build found no nvcc: there is no kernel image. */
#include "launch.h"

const struct driver_image kernel_image_engine;
