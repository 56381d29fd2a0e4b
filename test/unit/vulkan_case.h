/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of Vulkan memory begin with: a driver with one thread, memory, copies that are waited
 * for, and a count of open descriptors. Where there is no Vulkan driver a test is skipped.
 */
#ifndef NXR_TEST_VULKAN_CASE_H
#define NXR_TEST_VULKAN_CASE_H

#include "config.h"

#include "memory/vulkan/vulkan.h"
#include "util/clock.h"
#include "util/env.h"

#include "test/unit/unit.h"
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHY_NBYTES 200
#define LONG_NS    (60 * NXR_S) /* ends a hang, and nothing else */

/* Start the kind; a machine without a driver skips. */
static inline void case_start(void)
{
    char why[WHY_NBYTES] = "";

    setenv("LP_NUM_THREADS", "1", 1);
    nxr_memory_register(&nxr_memory_vulkan);
    nxr_env.vulkan_copy = "auto";
    if (nxr_memory_vulkan.start(why, sizeof(why)) != NIXL_OK) {
        cr_skip_test("%s", why);
    }
}

static inline void case_stop(void)
{
    nxr_memory_vulkan.stop();
}

static inline int case_count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n;
}

static inline struct nxr_memory case_alloc(size_t nbytes)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nxr_memory memory;
    char why[WHY_NBYTES] = "";

    params.kind = NIXL_MEM_VULKAN;
    cr_assert_eq(nxr_memory_vulkan.alloc(nbytes, &params, &memory, why, sizeof(why)), NIXL_OK, "%s",
                 why);
    return memory;
}

static inline void case_free(struct nxr_memory *memory)
{
    close(memory->fd);
    nxr_memory_vulkan.release(memory);
}

/* Run copies of pieces to their end. */
static inline int case_copy(const struct nxr_device_piece *pieces, size_t n_pieces)
{
    struct nxr_device_copy copy = {
        .pieces = pieces,
        .n_pieces = n_pieces,
        .dst = nxr_range_find(pieces[0].dst),
        .src = nxr_range_find(pieces[0].src),
    };
    int64_t deadline = nxr_deadline(LONG_NS);
    int status = nxr_memory_vulkan.copy_start(&copy);

    while (status == NIXL_INPROGRESS) {
        /* It may have become a copy of CUDA's. */
        status = (copy.dst != NULL ? copy.dst : copy.src)->kind->copy_test(&copy);
        sched_yield();
        cr_assert_lt(nxr_now_ns(), deadline, "a copy does not end");
    }
    return status;
}

static inline int case_copy_one(void *dst, const void *src, size_t nbytes)
{
    struct nxr_device_piece piece = {dst, src, nbytes};

    return case_copy(&piece, 1);
}

/* Bytes that differ with the address and the seed. */
static inline void case_fill(unsigned char *bytes, size_t nbytes, unsigned seed)
{
    for (size_t i = 0; i < nbytes; i++) {
        bytes[i] = (unsigned char)(i * 2654435761u >> 13 ^ i ^ seed * 97);
    }
}

/* A segment as a peer would have it, of memory that this process has made. */
static inline struct nxr_segment *case_segment(const struct nxr_memory *memory)
{
    struct nxr_segment *segment = calloc(1, sizeof(*segment));

    segment->export = memory->export;
    segment->nbytes = memory->nbytes;
    return segment;
}

#endif
