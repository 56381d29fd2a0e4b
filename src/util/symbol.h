/* SPDX-License-Identifier: Apache-2.0 */
/* How variables that several files share are reached. */
#ifndef NXR_UTIL_SYMBOL_H
#define NXR_UTIL_SYMBOL_H

/*
 * For declarations of variables. `-fvisibility=hidden` hides definitions only: of what is merely
 * declared the compiler must assume that another library defines it, and each access computes the
 * address first.
 */
#define NXR_HIDDEN __attribute__((visibility("hidden")))

/*
 * Thread-local data on the data path: one load from the thread pointer, also in a shared library.
 */
#define NXR_TLS_MODEL __attribute__((tls_model("initial-exec")))

/*
 * For definitions of functions on the data path. They lie side by side in the library: where many
 * processes share a core, each turn of one finds no page in the core's TLB, and pays for each that
 * it touches.
 */
#define NXR_HOT __attribute__((hot))

#endif
