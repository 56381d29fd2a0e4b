/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether bulk is spread over the rails of an endpoint. That pays where the network is the limit;
 * where a core is, which feeds all rails, or where the plan's round trip takes longer than the
 * bytes, it costs. Neither follows from what the kernel tells, so the time is measured, for each
 * class of sizes: a few operations go by all rails and by the first alone, in turns, and again
 * after a while. Until that is known, bulk is spread. Pure.
 */
#ifndef NXR_TCP_CHOICE_H
#define NXR_TCP_CHOICE_H

#include "util/clock.h"

#include <stdbool.h>
#include <stdint.h>

enum nxr_tcp_way {
    NXR_TCP_SPREAD, /* in pieces, by all rails */
    NXR_TCP_ALONE,  /* in pieces, by the first: to compare, since the acks tell how long it takes */
    NXR_TCP_WHOLE,  /* behind its message, without pieces or acks */
};

/*
 * Operations that go one behind the other are measured together, up to so many bytes. By the first
 * rail alone goes only what takes no longer than that, if the others carry nothing.
 */
#define NXR_TCP_TRIAL_NBYTES ((uint64_t)16 * 1024 * 1024)
#define NXR_TCP_TRIAL_NS     (200 * NXR_MS)

#define NXR_TCP_N_CLASSES 8 /* sizes from 256 KiB, 512 KiB, 1 MiB, ... 32 MiB */
#define NXR_TCP_N_TRIALS  5 /* of each of the two ways, in turns, before each rest */
#define NXR_TCP_REST      256
#define NXR_TCP_LAST_REST 4096 /* operations; a rest is twice as long as the one before */

struct nxr_tcp_choice {
    struct nxr_tcp_class {
        struct nxr_tcp_trials {
            uint64_t fs[NXR_TCP_N_TRIALS]; /* per byte, sorted */
            unsigned n;
        } trials[2];      /* since the last rest, by enum nxr_tcp_way */
        unsigned n_begun; /* ... of both */
        unsigned n_to_rest;
        unsigned rest; /* how long the next one is; 0: NXR_TCP_REST */
        bool is_whole; /* found to be faster */
    } classes[NXR_TCP_N_CLASSES];
};

unsigned nxr_tcp_class_of(uint64_t nbytes);

/*
 * By which way the next operation goes, if there are up to so many rails, and by which way one that
 * cannot be measured.
 */
enum nxr_tcp_way nxr_tcp_choose(struct nxr_tcp_choice *choice, uint64_t nbytes, unsigned n_rails);
enum nxr_tcp_way nxr_tcp_best(const struct nxr_tcp_choice *choice, uint64_t nbytes);

/* Operations of a class, of so many bytes in all, went by one way, and took so long. */
void nxr_tcp_learn(struct nxr_tcp_choice *choice, unsigned class, enum nxr_tcp_way way,
                   uint64_t nbytes, int64_t took_ns);

/* Other rails carry bulk now: measure anew. */
void nxr_tcp_choice_renew(struct nxr_tcp_choice *choice);

#endif
