/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts files into the directory of the first argument, for power.py: each durably, and some of them
 * again, which replaces them. With a second argument the directory is made. What is durable is told
 * to power_record.c. With np=2 rank 1 puts into the directory of rank 0.
 */
#include <nixlrun.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_FILES = 24, N_VERSIONS = 3, NBYTES = 20000 }; /* power.py has the same */

static void check(int status, const char *what)
{
    if (status != NIXL_OK) {
        fprintf(stderr, "rank %d: %s: %s\n", nixl_rank(), what, nixl_last_error()->text);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct nixl_directory_params params = NIXL_DIRECTORY_PARAMS_INIT;
    static char names[N_FILES][20], block[NBYTES];
    static const char *keys[N_FILES];
    struct nixl_region *region;
    struct nixl_op durable = NIXL_OP_INIT;
    struct nixl_team *world;
    void (*ack)(uint64_t) = (void (*)(uint64_t))(uintptr_t)dlsym(RTLD_DEFAULT, "power_ack");

    check(nixl_init(NULL), "join the job");
    check(nixl_team_world(NIXL_FOREVER, &world), "the team of all ranks");
    for (int i = 0; i < N_FILES; i++) {
        snprintf(names[i], sizeof(names[i]), "%02x/%d", i % 3, i);
        keys[i] = names[i];
    }
    params.nobjects = N_FILES;
    params.object_nbytes = NBYTES;
    params.keys = keys;
    params.flags = argc > 2 ? NIXL_DIRECTORY_CREATE : 0;
    durable.flags = NIXL_OP_DURABLE;
    if (argc > 1 && nixl_rank() == 0) {
        check(nixl_region_open_directory("files", argv[1], &params, &region), "open");
    } else {
        check(nixl_region_open("files", &region), "find the region");
    }
    check(nixl_barrier(world, NIXL_FOREVER), "meet");
    for (int i = 0; i < N_FILES * N_VERSIONS && nixl_rank() == nixl_size() - 1; i++) {
        int file = i % 5 == 4 ? 0 : i % N_FILES, version;
        static int versions[N_FILES];

        version = versions[file]++;
        memset(block, (file * 7 + version) % 251, NBYTES);
        check(nixl_put_x(0, region, (uint64_t)file * NBYTES, block, NBYTES, &durable, NULL), "put");
        if (ack != NULL) {
            ack((uint64_t)file << 32 | (uint64_t)version);
        }
    }
    check(nixl_barrier(world, NIXL_FOREVER), "meet again");
    check(nixl_region_close(region, NIXL_FOREVER), "close");
    check(nixl_finalize(), "leave the job");
    return 0;
}
