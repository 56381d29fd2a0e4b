/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The size limits at which collectives choose their algorithms. They differ between machines. The
 * defaults are estimates. `nixl_bench tune' measures better ones and writes them to a file, which
 * NIXLRUN_COLL_TABLE_FILE names; NIXLRUN_COLL_TABLE overrides both. Constant between init and
 * finalize. All ranks of a team must have the same limits; this is checked when the team is made.
 *
 * process_vm calls have a cost per page: whether they are faster than two copies through shared
 * memory differs between machines, operations and sizes, so that no one limit is right everywhere.
 * By default teams measure it themselves (collective/trial.h); process_vm_from replaces that.
 */
#ifndef NXR_UTIL_COLL_TABLE_H
#define NXR_UTIL_COLL_TABLE_H

#include "util/symbol.h"

#include <stddef.h>
#include <stdint.h>

/* clang-format off */
/* name, default, lowest, highest, description */
#define NXR_COLL_TABLE(_x)                                                                         \
    _x(cells_up_to, 32768, 64, 1048576, "small operands of all members together, in bytes")        \
    _x(flat_up_to, 16, 2, 1024, "members that look at each other, and not at one of them")         \
    _x(direct_from, 16384, 256, 1073741824, "bytes from which buffers in regions may be shared")   \
    _x(exchange_up_to, 65536, 64, 65536,                                                           \
       "bytes of what a member sends that go through its cell")                                    \
    _x(process_vm_from, 0, 0, 1073741824,                                                          \
       "bytes from which buffers in no region are shared, by process_vm calls; 0: measured")       \
    _x(process_vm_piece, 131072, 4096, 262144,                                                     \
       "bytes of a share that are combined at once where they lie in no region")                   \
    _x(reduce_piece, 65536, 4096, 262144, "bytes of a share that are combined at once")            \
    _x(ring_from, 16384, 0, 1073741824, "bytes from which reductions between hosts go in a ring")  \
    _x(copy_piece, 131072, 4096, 262144, "bytes that are copied through a slot in one round")      \
    _x(chain_from, 262144, 256, 1073741824,                                                        \
       "bytes from which members that share cores reduce in a chain")
/* clang-format on */

struct nxr_coll_table {
#define NXR_COLL_FIELD(_name, _default, _lowest, _highest, _text) size_t _name;
    NXR_COLL_TABLE(NXR_COLL_FIELD)
#undef NXR_COLL_FIELD
};
extern NXR_HIDDEN struct nxr_coll_table nxr_coll_table;

#define NXR_COLL_COUNT(_name, _default, _lowest, _highest, _text) +1
#define NXR_COLL_N_LIMITS                                         (0 NXR_COLL_TABLE(NXR_COLL_COUNT))

/*
 * Take the limits from a file, unless `path` is empty, and then from a text like
 * "cells_up_to=8192,flat_up_to=32"; the others get their defaults. NIXL_OK; or
 * NIXL_E_INVALID_ARG, or NIXL_E_NO_MEMORY for the file, and one line in `why`; the limits are
 * then unchanged.
 */
int nxr_coll_table_set(const char *path, size_t n_ranks, const char *text, char *why,
                       size_t why_nbytes);

/* Check a text without setting limits. NIXL_OK, or NIXL_E_INVALID_ARG and one line in `why`. */
int nxr_coll_table_check(const char *text, char *why, size_t why_nbytes);

/* A hash of the limits in use: equal limits have equal hashes. */
uint64_t nxr_coll_table_hash(void);

/* ---- for coll_table_file.c ---- */

/*
 * Parse one NAME=VALUE of `nbytes` characters. NIXL_OK, the limit's index and its value; or
 * NIXL_E_INVALID_ARG, and `why` says what the text has and what is allowed.
 */
int nxr_coll_table_parse(const char *text, size_t nbytes, int *limit_p, size_t *value_p, char *why,
                         size_t why_nbytes);
size_t *nxr_coll_table_at(struct nxr_coll_table *table, int limit);

/*
 * Replace each byte of a message that is not printable ASCII by a question mark. Limits contain
 * only printable ASCII, so this reveals bytes that an editor hides, such as a byte order mark.
 */
void nxr_coll_table_one_line(char *why);

/*
 * Put the limits of a file's text for a job of `n_ranks` ranks into *table. NIXL_OK; or
 * NIXL_E_INVALID_ARG, and `why` names the line, what it has and what is allowed.
 */
int nxr_coll_table_read(const char *text, size_t nbytes, size_t n_ranks,
                        struct nxr_coll_table *table, char *why, size_t why_nbytes);

/* The same for a file. Also NIXL_E_NO_MEMORY. */
int nxr_coll_table_load(const char *path, size_t n_ranks, struct nxr_coll_table *table, char *why,
                        size_t why_nbytes);

#endif
