/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests whose ranks are on hosts of namespaces: change the links between them, and meet without
 * the library, also where no link works. run-mp with bed=nets or bed=engine starts such tests.
 */
#ifndef NXR_TEST_NET_BED_H
#define NXR_TEST_NET_BED_H

#include "test/mp/mptest.h"

/*
 * An order to test/net/links, as printf() makes it: "cut h%d". It is done when the call returns.
 * The test has failed where it cannot be done.
 */
void bed_link(const char *format, ...) NIXL_PRINTF(1, 2);

/*
 * A rank says by a file that it has come somewhere: also before nixl_init() and after
 * nixl_finalize(). Waiting lasts for at most MPT_PATIENCE.
 */
void bed_mark(const char *name, int rank);
bool bed_has_mark(const char *name, int rank);
void bed_await_mark(const char *name, int rank);

/* All ranks meet, each name once; for at most MPT_PATIENCE. */
void bed_meet(const char *name);

/* The same, but for one rank: it is dead. */
void bed_meet_without(const char *name, int dead);

#endif
