/* SPDX-License-Identifier: Apache-2.0 */
/* What a process has: descriptors, mappings, memory. */
#include "attach_figures.h"
#include "test/mp/mptest.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>

static long count_descriptors(void)
{
    DIR *fds = opendir("/proc/self/fd");
    long n = 0;

    MPT_TRUE(fds != NULL);
    while (readdir(fds) != NULL) {
        n++;
    }
    closedir(fds);
    return n;
}

static long count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    long n = 0;
    int c;

    MPT_TRUE(file != NULL);
    while ((c = getc(file)) != EOF) {
        n += c == '\n';
    }
    fclose(file);
    return n;
}

/* What malloc() has given out. Not what is resident: that depends on how many came at once. */
static long allocated_kib(void)
{
    struct mallinfo2 info = mallinfo2();

    return (long)((info.uordblks + info.hblkhd) / 1024);
}

struct figures figures_now(const char *when)
{
    struct figures figures = {count_descriptors(), count_lines("/proc/self/maps"), allocated_kib()};

    printf("%s: %ld descriptors, %ld mappings, %ld KiB allocated\n", when, figures.descriptors,
           figures.mappings, figures.kib);
    fflush(stdout);
    return figures;
}

bool figures_are_within(const struct figures *goal, long more_mappings)
{
    return count_descriptors() <= goal->descriptors &&
           count_lines("/proc/self/maps") <= goal->mappings + more_mappings;
}

bool figures_heap_is_within(const struct figures *goal)
{
    return allocated_kib() <= goal->kib;
}

void figures_check_growth(const struct figures *before, const struct figures *after, long n)
{
    MPT_TRUE(after->descriptors <= before->descriptors + 4);
    MPT_TRUE(after->mappings <= before->mappings + 8);
    MPT_TRUE(after->kib <= before->kib + 64 + n / 16);
}
