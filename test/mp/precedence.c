/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that serves other hosts goes before the application where large puts come to a rank
 * that computes and calls nothing; and steps back behind them.
 *
 *     precedence first   it does, if that is permitted here
 *     precedence never   NIXLRUN_SERVICE_PRIORITY=0
 */
#include "mptest.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define TAG_NEXT     0x9101
#define LARGE_NBYTES (4u << 20)
#define NEVER_PUTS   16

static struct nixl_region *region;
static unsigned char *bytes;
static int normal_nice;

/* May this process, and so the other rank, lower a nice value? */
static bool is_permitted(void)
{
    bool is_lower = setpriority(PRIO_PROCESS, 0, normal_nice - 1) == 0;

    return is_lower && setpriority(PRIO_PROCESS, 0, normal_nice) == 0;
}

/* The lowest nice value of a thread of this process. */
static int lowest_nice(void)
{
    DIR *threads = opendir("/proc/self/task");
    int lowest = normal_nice;
    struct dirent *entry;

    MPT_TRUE(threads != NULL);
    while ((entry = readdir(threads)) != NULL) {
        int thread = atoi(entry->d_name);
        int nice = thread > 0 ? getpriority(PRIO_PROCESS, (id_t)thread) : normal_nice;

        lowest = nice < lowest ? nice : lowest;
    }
    closedir(threads);
    return lowest;
}

/* Look until it is lower than normal, or no longer: calls nothing of the library. */
static void await(bool is_lower)
{
    int64_t deadline = mpt_now_ns() + MPT_PATIENCE;

    while ((lowest_nice() < normal_nice) != is_lower) {
        MPT_GE(deadline, mpt_now_ns());
    }
}

static void tell(void)
{
    MPT_OK(nixl_notify(0, TAG_NEXT, NULL, 0, MPT_PATIENCE));
}

static void put(size_t nbytes)
{
    MPT_OK(nixl_put(1, region, 0, bytes, nbytes));
    MPT_OK(nixl_flush(1, MPT_PATIENCE));
}

static void put_until_told(size_t nbytes)
{
    struct nixl_note note;
    int status;

    nixl_note_init(&note);
    do {
        put(nbytes);
        status = nixl_notify_recv(1, TAG_NEXT, UINT64_MAX, 0, &note);
    } while (status == NIXL_INPROGRESS);
    MPT_OK(status);
}

static void run_first(void)
{
    if (nixl_rank() == 0) {
        put_until_told(LARGE_NBYTES);
        put_until_told(8);
    } else {
        await(true);
        tell();
        await(false);
        tell();
    }
}

static void run_never(void)
{
    volatile unsigned char *end = (unsigned char *)nixl_region_addr(region) + LARGE_NBYTES;
    int64_t deadline = mpt_now_ns() + MPT_PATIENCE;

    if (nixl_rank() == 0) {
        for (int i = 0; i < NEVER_PUTS; i++) {
            put(LARGE_NBYTES);
        }
        bytes[0] = 1;
        MPT_OK(nixl_put(1, region, LARGE_NBYTES, bytes, 1));
        MPT_OK(nixl_flush(1, MPT_PATIENCE));
        return;
    }
    while (*end == 0) {
        MPT_EQ(lowest_nice(), normal_nice);
        MPT_GE(deadline, mpt_now_ns());
    }
}

int main(int argc, char **argv)
{
    bool is_first = argc > 1 && strcmp(argv[1], "first") == 0;

    mpt_start();
    normal_nice = getpriority(PRIO_PROCESS, 0);
    if (is_first && (!is_permitted() || normal_nice == -20)) {
        mpt_skip("this user may not lower nice values");
    }
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    MPT_OK(nixl_region_alloc("precedence", LARGE_NBYTES + 8, NULL, &region));
    bytes = calloc(1, LARGE_NBYTES);
    MPT_TRUE(bytes != NULL);
    mpt_barrier();
    if (is_first) {
        run_first();
    } else {
        run_never();
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    free(bytes);
    return mpt_passed();
}
