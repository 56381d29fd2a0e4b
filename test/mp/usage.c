/* SPDX-License-Identifier: Apache-2.0 */
/* What this process uses. No state. */
#include "mptest.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

int mpt_n_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return n;
}

long mpt_resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long pages = 0;

    if (file != NULL) {
        (void)!fscanf(file, "%*s %ld", &pages);
        fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}
