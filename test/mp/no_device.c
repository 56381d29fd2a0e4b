/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory where there is none: `no_device vulkan|cuda REASON`. It is refused with that reason,
 * and memory of kind "auto" is host memory, says so, and works.
 */
#include "mptest.h"

#include <stdio.h>
#include <string.h>

#define NBYTES 10000

static unsigned char bytes[NBYTES];

static void expect_refused(enum nixl_mem_kind kind, const char *reason)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_region *region = NULL;

    params.kind = kind;
    MPT_STATUS(nixl_region_alloc("refused", NBYTES, &params, &region), NIXL_E_NO_DEVICE);
    MPT_TRUE(region == NULL);
    printf("%s\n", nixl_last_error()->text);
    MPT_TRUE(strstr(nixl_last_error()->text, reason) != NULL);
}

static void use_host_memory(void)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    int next = (nixl_rank() + 1) % nixl_size(),
        prev = (nixl_rank() + nixl_size() - 1) % nixl_size();
    struct nixl_region *region = NULL;
    struct nixl_note note;

    params.kind = NIXL_MEM_AUTO;
    MPT_OK(nixl_region_alloc("auto", NBYTES, &params, &region));
    MPT_OK(nixl_region_query(nixl_rank(), region, MPT_PATIENCE, &info));
    MPT_EQ(info.kind, NIXL_MEM_HOST);
    MPT_TEXT(info.device, "");
    MPT_NE(info.note[0], '\0');
    mpt_fill(bytes, NBYTES, (uint64_t)nixl_rank());
    MPT_OK(nixl_put_notify(next, region, 0, bytes, NBYTES, 1, NULL, 0, MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(prev, 1, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_CHECK(nixl_region_addr(region), NBYTES, (uint64_t)prev);
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

int main(int argc, char **argv)
{
    mpt_start();
    MPT_EQ(argc, 3);
    MPT_OK(nixl_init(NULL));
    expect_refused(strcmp(argv[1], "cuda") == 0 ? NIXL_MEM_CUDA : NIXL_MEM_VULKAN, argv[2]);
    use_host_memory();
    expect_refused(strcmp(argv[1], "cuda") == 0 ? NIXL_MEM_CUDA : NIXL_MEM_VULKAN, argv[2]);
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
