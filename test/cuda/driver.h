/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver for test programs: NVIDIA's or the stand-in, whichever libcuda.so.1 is found. `cu` has
 * its functions, by the names of functions.h.
 */
#ifndef TEST_CUDA_DRIVER_H
#define TEST_CUDA_DRIVER_H

#include "test/cuda/functions.h"

struct cuda_functions {
#define CUDA_MEMBER(_name, _version, _function) __typeof__(&_function) _name;
    FAKE_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
};
extern struct cuda_functions cu;

/* Open and start it, once. NULL, or why it cannot be used. */
const char *cuda_load(const char *path);

#endif
