/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of several rails is cut in the midst of a transfer: every byte arrives, soon, by the others.
 *
 *     rails put|get [BOUND_S]
 *     rails gone
 *     rails first
 *     rails hole
 *
 * Rank 0 moves a large block to or from the last rank, on another host. The .mp file has limited
 * the rate of the rails, so that the cut comes while bytes are on their way. On a slow machine it
 * may come late, when nothing is left to go there: then there is a next time. A cut that comes in
 * time pauses the rail, and once it is joined it must come back. Then it is cut again, on the other
 * host's side. The log reports that.
 *
 * With tcp the side that sends the bytes learns of a cut rail, and joins it again; the other one
 * hears only that it was joined.
 *
 * gone: puts, and the interface of rank 0 loses its address too, so that the rail cannot be opened
 * again. As long as that lasts rank 0 must not be kept busy by it.
 *
 * hole: puts, and the .mp file has made rail 1 lose long packets, but no short ones. Once it has
 * shown that, no further block waits for it.
 *
 * first: puts, and rail 0 of tcp is cut, for less than NIXLRUN_PEER_TIMEOUT: what it carries waits,
 * and nobody is lost.
 */
#include "test/net/bed.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAG_BLOCK 0x9e01
#define TAG_RIGHT 0x9e02
#define TAG_AGAIN 0x9e03
#define TAG_NEVER 0x9e04

#define NBYTES ((64ull << 20) + 4099) /* the last piece is a short one */

#define MAX_TRIES 20

/* What the log says of the rail that is cut. */
static atomic_uint n_paused, n_back;

static int other;
static bool is_put, is_gone, is_first, is_hole;
static int64_t bound_ns;
static struct nixl_region *region;
static unsigned char *memory;

static void hear_log(enum nixl_log_level level, const char *subsystem, const char *text, void *arg)
{
    (void)level;
    (void)arg;
    n_paused += strcmp(text, "ofi: eth1 is silent where another rail answers; not used now") == 0 ||
                strncmp(text, "ofi: a connection by eth1 has failed", 36) == 0 ||
                strncmp(text, "tcp: a connection by eth1 has failed", 36) == 0;
    n_back += strcmp(text, "ofi: eth1 answers again; used again") == 0 ||
              strcmp(text, "tcp: eth1 answers again; used again") == 0 ||
              strcmp(text, "tcp: eth1 is joined as a rail by the other side") == 0;
    fprintf(stderr, "%s: %s\n", subsystem, text);
}

/* The rail was paused and is joined again. */
static void await_rail(unsigned n_back_before)
{
    int64_t until = mpt_now_ns() + MPT_PATIENCE;

    while (n_back == n_back_before) {
        MPT_LT(mpt_now_ns(), until);
        MPT_OK(nixl_flush(other, MPT_PATIENCE));
    }
}

static int64_t used_ns(void)
{
    struct timespec used;

    MPT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    return used.tv_sec * MPT_S + used.tv_nsec;
}

/* Nothing is to be done for a while. */
static void rest(void)
{
    static struct nixl_note note;
    int64_t used_before = used_ns(), used;

    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(other, TAG_NEVER, UINT64_MAX, 2 * MPT_S, &note), NIXL_E_TIMEOUT);
    used = used_ns() - used_before;
    printf("%.3f s of a core in 2 s\n", (double)used / MPT_S);
    MPT_LT(used, MPT_S);
}

static void tell(uint64_t tag)
{
    MPT_OK(nixl_notify(other, tag, NULL, 0, MPT_PATIENCE));
}

/* Does the other side alone find out that a rail is cut? */
static bool hears_only_the_end(void)
{
    for (unsigned i = 0; !is_put; i++) {
        struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;

        if (nixl_route_query(other, i, &route) != NIXL_OK) {
            break;
        }
        if (route.is_chosen) {
            return strcmp(route.transport, "tcp") == 0;
        }
    }
    return false;
}

/* Rank 0: one block; rail 1 of a host is cut meanwhile, unless cut_host is -1. Was it in time? */
static bool move_block(uint64_t seed, int cut_host)
{
    unsigned n_paused_before = n_paused, n_back_before = n_back;
    struct nixl_req *req = NULL;
    int64_t began_ns = mpt_now_ns(), cut_ns;
    int status, cut_rail = is_first ? 0 : 1;
    bool is_in_time = true;

    if (is_put) {
        mpt_fill(memory, NBYTES, seed);
    } else {
        memset(memory, 0, NBYTES);
        mpt_hear(other, TAG_BLOCK);
    }
    status = is_put ? nixl_put_x(other, region, 0, memory, NBYTES, NULL, &req)
                    : nixl_get_x(other, region, 0, memory, NBYTES, NULL, &req);
    MPT_TRUE(status == NIXL_INPROGRESS || status == NIXL_OK); /* OK: the thread was frozen in it */
    if (cut_host >= 0) {
        bed_link("cut h%d %d", cut_host, cut_rail);
        if (is_gone) {
            bed_link("strip h%d 1", cut_host);
        }
        if (is_first) {
            rest();
            bed_link("join h%d 0", cut_host);
        }
        status = status == NIXL_INPROGRESS ? nixl_req_test(&req) : status;
        is_in_time = status == NIXL_INPROGRESS;
    }
    cut_ns = mpt_now_ns();
    MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status);
    MPT_OK(nixl_flush(other, MPT_PATIENCE));
    printf("%s: %.3f s, %.3f s after the cut\n", is_put ? "put" : "get",
           (double)(mpt_now_ns() - began_ns) / MPT_S, (double)(mpt_now_ns() - cut_ns) / MPT_S);
    if (cut_host >= 0 && !is_first) {
        MPT_LT(mpt_now_ns() - cut_ns, bound_ns);
        if (is_gone) {
            rest();
            bed_link("dress h%d 1", cut_host);
        }
        bed_link("join h%d 1", cut_host);
        is_in_time = is_in_time && (n_paused > n_paused_before || hears_only_the_end());
        if (is_in_time) {
            await_rail(n_back_before);
        }
    }
    if (is_put) {
        tell(TAG_BLOCK);
    } else {
        MPT_CHECK(memory, NBYTES, seed);
        tell(TAG_RIGHT);
    }
    return is_in_time;
}

/* The last rank. */
static void own_block(uint64_t seed)
{
    unsigned char *own = nixl_region_addr(region);

    if (is_put) {
        mpt_hear(other, TAG_BLOCK);
        MPT_CHECK(own, NBYTES, seed);
        tell(TAG_RIGHT);
    } else {
        mpt_fill(own, NBYTES, seed);
        tell(TAG_BLOCK);
        mpt_hear(other, TAG_RIGHT);
    }
}

/* One block, and the word of rank 0 whether it must be moved again. */
static bool try_block(uint64_t seed, int cut_host)
{
    static struct nixl_note note;
    bool is_late;

    if (nixl_rank() == 0) {
        is_late = !move_block(seed, cut_host);
        if (is_put) {
            mpt_hear(other, TAG_RIGHT);
        }
        MPT_OK(nixl_notify(other, TAG_AGAIN, &is_late, sizeof(is_late), MPT_PATIENCE));
    } else {
        own_block(seed);
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(other, TAG_AGAIN, UINT64_MAX, MPT_PATIENCE, &note));
        memcpy(&is_late, note.payload, sizeof(is_late));
    }
    return is_late;
}

static void move_past_hole(void)
{
    unsigned n_before;

    MPT_TRUE(!try_block(1, -1));
    n_before = n_paused;
    MPT_TRUE(nixl_rank() != 0 || n_before > 0);
    for (uint64_t i = 2; i < 7; i++) {
        MPT_TRUE(!try_block(i, -1));
    }
    MPT_EQ(n_paused, n_before);
}

int main(int argc, char **argv)
{
    const int cut_hosts[] = {-1, 0, -1, mpt_host_of(1)};
    uint64_t n_blocks = sizeof(cut_hosts) / sizeof(cut_hosts[0]);

    mpt_start();
    MPT_TRUE(argc == 2 || argc == 3);
    is_gone = strcmp(argv[1], "gone") == 0;
    is_first = strcmp(argv[1], "first") == 0;
    is_hole = strcmp(argv[1], "hole") == 0;
    is_put = is_gone || is_first || is_hole || strcmp(argv[1], "put") == 0;
    n_blocks = is_gone ? 3 : n_blocks; /* rank 1 is not the one that rests */
    bound_ns = argc == 3 ? atoi(argv[2]) * MPT_S : MPT_PATIENCE;
    setenv("NIXLRUN_LOG", "info", 1);
    nixl_log_set_fn(hear_log, NULL);
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    other = 1 - nixl_rank();
    memory = malloc(NBYTES);
    MPT_TRUE(memory != NULL);
    MPT_OK(nixl_region_alloc("rails", NBYTES, NULL, &region));
    mpt_barrier();
    if (is_hole) {
        move_past_hole();
    }
    for (uint64_t i = 0; i < n_blocks && !is_hole; i++) {
        int n_tries = 1;

        while (try_block(i + 100 * (uint64_t)n_tries, cut_hosts[i])) {
            MPT_LT(n_tries++, MAX_TRIES);
        }
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    free(memory);
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
