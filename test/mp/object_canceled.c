/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A put of many objects of a directory that is canceled in its midst: what the outcome says is what
 * is there, and a durable flush says why objects were lost. Each rank puts into the next one's.
 */
#include "config.h"

#include "mptest.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_OBJECTS = 2000, NBYTES = 4000, N_ROUNDS = 2 };

static struct nixl_region *region;
static int next;
static char *out, there[400]; /* the next one's directory */

static char first_byte(uint64_t object)
{
    char byte = 0;

    MPT_OK(nixl_get(next, region, object * NBYTES, &byte, 1));
    return byte;
}

/* A get would wait behind the puts for a thread. */
static bool is_one_new(char version)
{
    char path[440], byte = 0;

    for (int i = 0; i < N_OBJECTS && byte != version; i += 40) {
        FILE *file;

        snprintf(path, sizeof(path), "%s/%016x", there, (unsigned)i);
        file = fopen(path, "r");
        MPT_TRUE(file != NULL && fread(&byte, 1, 1, file) == 1);
        MPT_EQ(fclose(file), 0);
    }
    return byte == version;
}

static void expect_outcome(int32_t outcome, char version)
{
    int n = 0;

    for (uint64_t i = 0; i < N_OBJECTS; i++) {
        n += first_byte(i) == version;
    }
    if (outcome == NIXL_OUTCOME_DONE) {
        MPT_EQ(n, N_OBJECTS);
    } else if (outcome == NIXL_OUTCOME_UNTOUCHED) {
        MPT_EQ(n, 0);
    }
}

/* As soon as one object is new, the put is canceled. */
static void cancel_in_the_midst(char version)
{
    int64_t until = mpt_now_ns() + MPT_PATIENCE;
    struct nixl_op durable = NIXL_OP_INIT;
    struct nixl_req *req = NULL;
    int32_t outcome = NIXL_OUTCOME_DONE;
    int status;

    memset(out, version, (size_t)N_OBJECTS * NBYTES);
    MPT_GE(nixl_put_x(next, region, 0, out, (size_t)N_OBJECTS * NBYTES, NULL, &req), NIXL_OK);
    while (!is_one_new(version)) {
        MPT_LT(mpt_now_ns(), until);
    }
    if (req != NULL) {
        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, &outcome));
    }
    MPT_NE(outcome, NIXL_OUTCOME_UNTOUCHED);
    expect_outcome(outcome, version);
    durable.flags = NIXL_OP_DURABLE;
    status = nixl_flush_x(next, region, &durable, NULL);
    if (status != NIXL_OK) {
        MPT_STATUS(status, NIXL_E_STORAGE);
        MPT_HAS("put was canceled");
    }
}

int main(void)
{
    struct nixl_directory_params params = NIXL_DIRECTORY_PARAMS_INIT;
    const char *base = getenv("TMPDIR");
    char dir[400];

    mpt_start();
    MPT_OK(nixl_init(NULL));
    next = (nixl_rank() + 1) % nixl_size();
    base = base != NULL ? base : "/tmp";
    snprintf(dir, sizeof(dir), "%s/nixlrun-canceled-%d-%d", base, (int)getppid(), nixl_rank());
    snprintf(there, sizeof(there), "%s/nixlrun-canceled-%d-%d", base, (int)getppid(), next);
    params.flags = NIXL_DIRECTORY_CREATE;
    params.nobjects = N_OBJECTS;
    params.object_nbytes = NBYTES;
    MPT_OK(nixl_region_open_directory("canceled", dir, &params, &region));
    out = malloc((size_t)N_OBJECTS * NBYTES);
    MPT_TRUE(out != NULL);
    mpt_barrier();
    memset(out, '-', (size_t)N_OBJECTS * NBYTES);
    MPT_OK(nixl_put(next, region, 0, out, (size_t)N_OBJECTS * NBYTES));
    for (int i = 0; i < N_ROUNDS; i++) {
        cancel_in_the_midst((char)('a' + i));
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    free(out);
    MPT_OK(nixl_finalize());
    mpt_remove_tree(dir);
    return mpt_passed();
}
