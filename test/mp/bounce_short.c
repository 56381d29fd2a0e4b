/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner has no address space for a bounce buffer: the put fails at once and says so. When the
 * owner has some again, the next put offers another buffer. Run with NIXLRUN_PROCESS_VM=0.
 */
#include "mptest.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { NBYTES = 1 << 18, TAG_GO = 0xb0c5 };

static char memory[NBYTES] __attribute__((aligned(4096)));

static void hear(int rank)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(rank, TAG_GO, UINT64_MAX, MPT_PATIENCE, &note));
}

static void tell(int rank)
{
    MPT_OK(nixl_notify(rank, TAG_GO, NULL, 0, MPT_PATIENCE));
}

/* The address space that this process has, and a little more. */
static rlim_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    MPT_TRUE(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return (rlim_t)(pages + 16) * 4096;
}

static void own(void)
{
    struct rlimit was, low;

    hear(0); /* it has the key: what is mapped from now on is the buffer */
    MPT_EQ(getrlimit(RLIMIT_AS, &was), 0);
    low = was;
    low.rlim_cur = address_space();
    MPT_EQ(setrlimit(RLIMIT_AS, &low), 0);
    tell(0);
    hear(0);
    MPT_EQ(setrlimit(RLIMIT_AS, &was), 0);
    tell(0);
    hear(0);
    MPT_CHECK(memory, NBYTES, 2);
}

static void put(struct nixl_region *region)
{
    static char src[NBYTES];
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;

    MPT_OK(nixl_region_query(1, region, MPT_PATIENCE, &info));
    tell(1);
    hear(1);
    mpt_fill(src, NBYTES, 1);
    MPT_STATUS(nixl_put(1, region, 0, src, NBYTES), NIXL_E_NO_MEMORY);
    tell(1);
    hear(1);
    mpt_fill(src, NBYTES, 2);
    MPT_OK(nixl_put(1, region, 0, src, NBYTES));
    tell(1);
}

int main(void)
{
    struct nixl_region *region = NULL;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_register("short", memory, NBYTES, NULL, &region));
    mpt_barrier();
    if (nixl_rank() == 0) {
        put(region);
    } else {
        own();
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
