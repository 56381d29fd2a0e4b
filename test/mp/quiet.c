/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library writes nothing to stdout, whatever happens and however much it logs. stdout is a file
 * of the test's own while the library runs.
 */
#include "mptest.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void use_the_library(void)
{
    struct nixl_region *region = NULL;
    int other = (nixl_rank() + 1) % nixl_size();
    char byte = 1;

    MPT_OK(nixl_region_alloc("quiet", 64, NULL, &region));
    mpt_barrier();
    MPT_OK(nixl_put(other, region, 0, &byte, 1));
    MPT_STATUS(nixl_put(other, region, 64, &byte, 1), NIXL_E_RANGE);
    MPT_STATUS(nixl_put(-7, region, 0, &byte, 1), NIXL_E_INVALID_ARG);
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

int main(void)
{
    char path[] = "/tmp/nixlrun-quiet-XXXXXX";
    int file = mkstemp(path), before;
    struct stat stat;

    mpt_start();
    MPT_GE(file, 0);
    unlink(path);
    fflush(stdout);
    before = dup(STDOUT_FILENO);
    MPT_EQ(dup2(file, STDOUT_FILENO), STDOUT_FILENO);
    MPT_OK(nixl_init(NULL));
    use_the_library();
    MPT_OK(nixl_finalize());
    fflush(stdout);
    MPT_EQ(fstat(file, &stat), 0);
    MPT_EQ(dup2(before, STDOUT_FILENO), STDOUT_FILENO);
    MPT_EQ(stat.st_size, 0);
    close(before);
    close(file);
    return mpt_passed();
}
