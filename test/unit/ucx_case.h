/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of bulk over UCX have in common: a core that takes bulk in, each into memory of its
 * own.
 */
#ifndef TEST_UNIT_UCX_CASE_H
#define TEST_UNIT_UCX_CASE_H

#include "transports/ucx/ucx.h"

#include "test/unit/unit.h"

/* The size of every bulk, and how many a test takes in at most. */
#define UCX_BULK_NBYTES 300
#define UCX_N_BULKS     4

/* What the core was asked for, and what came of it; NIXL_INPROGRESS: it has not landed. */
struct ucx_landing {
    char bytes[UCX_BULK_NBYTES];
    int status;
};
extern struct ucx_landing ucx_landings[UCX_N_BULKS];

extern bool ucx_core_refuses;

/* The `incoming` and `landed` of struct nxr_net_core. */
void *ucx_core_incoming(const void *header, size_t header_nbytes, size_t nbytes, void **cookie_p);
void ucx_core_landed(void *cookie, int status);

#endif
