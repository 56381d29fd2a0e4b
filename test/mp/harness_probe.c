/* SPDX-License-Identifier: Apache-2.0 */
/* What harness.sh shows to run-mp: a program that ends in each way that run-mp must notice. */
#include "mptest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void leave_file(void)
{
    const char *dir = getenv("TMPDIR");
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/nixlrun.left", dir != NULL ? dir : "/tmp");
    file = fopen(path, "w");
    MPT_TRUE(file != NULL);
    fclose(file);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";

    mpt_start();
    if (strcmp(way, "fail") == 0) {
        MPT_EQ(6 * 7, 54);
    } else if (strcmp(way, "skip_all") == 0) {
        printf("1..0 # SKIP no plan here\n");
    } else if (strcmp(way, "skip") == 0) {
        mpt_skip("no %s here", "towel");
    } else if (strcmp(way, "hang") == 0) {
        printf("last words\n");
        pause();
    } else if (strcmp(way, "silent") == 0) {
        return 0;
    } else if (strcmp(way, "crash") == 0) {
        abort();
    } else if (strcmp(way, "process") == 0) {
        if (fork() == 0) {
            setsid();
            pause();
        }
    } else if (strcmp(way, "file") == 0) {
        leave_file();
    } else if (strcmp(way, "tap") == 0) {
        printf("1..3\nok first\nnot ok second\n");
    }
    return mpt_passed();
}
