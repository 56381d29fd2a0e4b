/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks between which something lets no connection pass, or only short packets.
 *
 *     unreached never TEXT0 TEXT1
 *     unreached put|get|broadcast NBYTES TEXT0 TEXT1
 *
 * never: the first use of the other rank fails. Else 8 bytes arrive by each operation, and then so
 * many do not. The error of rank 0 has TEXT0, in which % stands for a blank, that of rank 1 TEXT1;
 * "-": any, but more than that the rank has died; "?TEXT" for both: that of one of them at least,
 * since the other may learn only of its end. Nothing waits forever.
 */
#include "test/net/bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED "it is named"

#define MAX_NBYTES ((size_t)4 << 20)

static int other;
static struct nixl_region *region;
static struct nixl_team *team;
static void *bytes;

static int run(const char *operation, size_t nbytes)
{
    int status;

    if (strcmp(operation, "get") == 0) {
        return nixl_get(other, region, 0, bytes, nbytes);
    }
    if (strcmp(operation, "broadcast") == 0) {
        return nixl_broadcast(team, 0, bytes, nbytes, MPT_PATIENCE);
    }
    status = nixl_put(other, region, 0, bytes, nbytes);
    return status == NIXL_OK ? nixl_flush(other, MPT_PATIENCE) : status;
}

static void talk(void)
{
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    MPT_OK(run("put", 8));
    MPT_OK(run("get", 8));
    MPT_OK(run("broadcast", 8));
    bed_meet("short ones pass");
}

static void expect_text(char *wanted)
{
    const char *text = nixl_last_error()->text;

    for (char *at = wanted; (at = strchr(at, '%')) != NULL;) {
        *at = ' ';
    }
    printf("%s\n", text);
    if (wanted[0] == '?') {
        if (strstr(text, wanted + 1) != NULL) {
            bed_mark(NAMED, nixl_rank());
        }
    } else if (strcmp(wanted, "-") == 0) {
        MPT_TRUE(strstr(text, "died") == NULL || strstr(text, "died: ") != NULL);
    } else if (strstr(text, wanted) == NULL) {
        mpt_fail(__FILE__, __LINE__, "'%s' is not in '%s'", wanted, text);
    }
}

int main(int argc, char **argv)
{
    bool is_never = argc == 4 && strcmp(argv[1], "never") == 0;
    char *text;
    int status;

    mpt_start();
    MPT_TRUE(is_never || argc == 5);
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    other = 1 - nixl_rank();
    bytes = calloc(1, MAX_NBYTES);
    MPT_TRUE(bytes != NULL);
    MPT_OK(nixl_region_alloc("unreached", MAX_NBYTES, NULL, &region));
    if (is_never) {
        status = run("put", 8);
    } else {
        talk();
        status = run(argv[1], (size_t)atol(argv[2]));
    }
    if (status != NIXL_E_NOT_FOUND) { /* it was not waited for long enough to be lost */
        MPT_EQ(status, NIXL_E_PEER_LOST);
    }
    text = argv[(is_never ? 2 : 3) + nixl_rank()];
    expect_text(text);
    bed_meet("the end");
    if (text[0] == '?') {
        MPT_TRUE(bed_has_mark(NAMED, 0) || bed_has_mark(NAMED, 1));
    }
    if (team != NULL) {
        MPT_OK(nixl_team_free(team));
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    free(bytes);
    return mpt_passed();
}
