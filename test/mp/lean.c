/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank does not do at its start: look at the machine, open a driver, or register membarrier
 * behind PMIx's threads, which takes many milliseconds.
 *
 *     lean         the rank joins, meets the others and leaves
 *     lean plain   no library of ours: counts what a plain client of PMIx looks at, and fails if it
 *                  is nothing, so that running both proves that this PMIx can show it
 */
#include "config.h"

#include "mptest.h"

#include <dirent.h>
#include <dlfcn.h>
#include <linux/membarrier.h>
#include <pmix.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

static int n_loads, n_joins, n_registrations, n_threads_then;

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;

    MPT_TRUE(tasks != NULL);
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        n += entry->d_name[0] != '.';
    }
    closedir(tasks);
    return n;
}

/* ---- calls that a program has before the libraries that make them ---------------------------- */

NIXL_API int hwloc_topology_load(void *topology);
int hwloc_topology_load(void *topology)
{
    int (*real)(void *);

    *(void **)&real = dlsym(RTLD_NEXT, "hwloc_topology_load");
    n_loads++;
    return real(topology);
}

/* A topology is handed over, without which PMIx since 4.2.3 loads one. */
NIXL_API pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t n_info)
{
    pmix_status_t (*real)(pmix_proc_t *, pmix_info_t[], size_t);

    for (size_t i = 0; i < n_info; i++) {
        n_joins += PMIX_CHECK_KEY(&info[i], PMIX_TOPOLOGY2) && info[i].value.type == PMIX_TOPO;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "PMIx_Init");
    return real(proc, info, n_info);
}

NIXL_API long syscall(long number, ...)
{
    long (*real)(long, ...), args[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        args[i] = va_arg(list, long);
    }
    va_end(list);
    if (number == SYS_membarrier && args[0] == MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) {
        n_registrations++;
        n_threads_then = count_threads();
    }
    *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

/* ---- the tests ------------------------------------------------------------------------------- */

/* Parts of the names of drivers' libraries, of X's, and of hwloc's plugins, which open them. */
static void check_maps(void)
{
    static const char *const drivers[] = {"/libcuda.", "/libnvidia", "/libOpenCL.", "/libpocl",
                                          "/libX11",   "/libXNV",    "/libvulkan.", "/libGL",
                                          "/libze_",   "/librocm",   "/hwloc_"};
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];

    MPT_TRUE(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL) {
        for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
            if (strstr(line, drivers[i]) != NULL) {
                mpt_fail(__FILE__, __LINE__, "a rank has at its start: %s", line);
            }
        }
    }
    fclose(maps);
}

static void join(void)
{
    struct nixl_team *team = NULL;

    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    MPT_EQ(n_loads, 0);
    MPT_EQ(n_joins, 1);
    MPT_EQ(n_registrations, 1);
    MPT_EQ(n_threads_then, 1);
    check_maps();
    MPT_OK(nixl_finalize());
}

static int count_plain_loads(void)
{
    pmix_proc_t self;

    if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS || PMIx_Finalize(NULL, 0) != PMIX_SUCCESS) {
        return 2;
    }
    printf("a plain client loads %d topologies\n", n_loads);
    return n_loads == 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "plain") == 0) {
        return count_plain_loads();
    }
    mpt_start();
    join();
    return mpt_passed();
}
