/* SPDX-License-Identifier: Apache-2.0 */
/* The distance between two names, to suggest the one that was meant. */
#ifndef NXR_UTIL_NEAREST_H
#define NXR_UTIL_NEAREST_H

/* Edits that turn a into b; only the first 63 bytes of each are compared. */
unsigned nxr_edit_distance(const char *a, const char *b);

#endif
