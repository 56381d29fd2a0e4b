/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: parts of the library that are linked with something which not every host has, and so are
 * loaded only when they are wanted. A module is found beside the library, in the folder nixlrun/,
 * or in NIXLRUN_MODULE_DIR. It is opened with local symbols, so that the library depends on nothing
 * that a module needs and two copies of that do not clash. No state; any thread.
 */
#ifndef NXR_UTIL_MODULE_H
#define NXR_UTIL_MODULE_H

#include <stddef.h>

/*
 * Load the module of that name and find its symbol; *library_p is for dlclose(). NULL: it cannot be
 * loaded or has no such symbol, and `why` says so in words.
 */
void *nxr_module_load(const char *name, const char *symbol, void **library_p, char *why,
                      size_t why_nbytes);

/* `why` for a module whose table has another number than this library expects. */
void nxr_module_is_of_other_version(const char *name, char *why, size_t why_nbytes);

#endif
