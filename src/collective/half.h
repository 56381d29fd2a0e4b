/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 16-bit floating-point numbers to float and back, rounded to the nearest even; a NaN stays one.
 * Any alignment. No state.
 */
#ifndef NXR_COLLECTIVE_HALF_H
#define NXR_COLLECTIVE_HALF_H

#include <stddef.h>

#define NXR_HALF_BLOCK 256 /* values that callers convert at a time */

/* float16, on any processor. */
void nxr_widen_half(float *dst, const void *src, size_t count);
void nxr_narrow_half(void *dst, const float *src, size_t count);

/* bfloat16. */
void nxr_widen_brain(float *dst, const void *src, size_t count);
void nxr_narrow_brain(void *dst, const float *src, size_t count);

#ifdef __x86_64__
/* float16, on processors that have AVX2 and F16C. */
void nxr_widen_half_f16c(float *dst, const void *src, size_t count);
void nxr_narrow_half_f16c(void *dst, const float *src, size_t count);
#endif

#endif
