/* SPDX-License-Identifier: Apache-2.0 */
/* How far two names are apart, to hint at the one that was meant. */
#ifndef NXR_UTIL_NEAREST_H
#define NXR_UTIL_NEAREST_H

/* Edits that turn a into b; only the first 63 bytes of each are looked at. */
unsigned nxr_edit_distance(const char *a, const char *b);

#endif
