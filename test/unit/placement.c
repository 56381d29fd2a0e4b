/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement on recorded machines, by properties; the exact placements are in
 * test/launcher/placement.transcript.
 */
#include "config.h"
#include "launcher/placement.h"

#include "test/unit/unit.h"
#include <dlfcn.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const machines[] = {"1-core", "2-sockets-cgroup", "2-sockets-smt", "8-numa"};
static const int n_cores[] = {1, 6, 8, 32};
enum { N_MACHINES = 4 };

static char why[256];
static int n_looks; /* how often a topology was made */

/* Instead of hwloc's, which it calls. */
int hwloc_topology_init(hwloc_topology_t *topology_p)
{
    int (*real)(hwloc_topology_t *);

    *(void **)&real = dlsym(RTLD_NEXT, "hwloc_topology_init");
    n_looks++;
    return real(topology_p);
}

static struct launch_place *place(int machine, const struct launch_job *job)
{
    const char *source = getenv("top_srcdir");
    struct launch_place *places = NULL;
    char path[4096];

    snprintf(path, sizeof(path), "%s/test/launcher/topologies/%s.xml",
             source != NULL ? source : ".", machines[machine]);
    why[0] = '\0';
    return placement_make(job, path, &places, why, sizeof(why)) == 0 ? places : NULL;
}

TestSuite(placement, .timeout = 120);

Test(placement, cores_are_used_once_before_one_is_used_twice)
{
    for (int machine = 0; machine < N_MACHINES; machine++) {
        for (int map = MAP_SLOT; map <= MAP_SOCKET; map++) {
            struct launch_job job = {.np = 2 * n_cores[machine],
                                     .map = (enum launch_map)map,
                                     .bind = BIND_CORE,
                                     .oversubscribe = true};
            struct launch_place *places = place(machine, &job);

            cr_assert(places != NULL, "%s", why);
            for (int rank = 0; rank < job.np; rank++) {
                int same = 0;

                for (int other = 0; other < n_cores[machine]; other++) {
                    same += strcmp(places[rank].cpu_list, places[other].cpu_list) == 0;
                }
                cr_expect(eq(int, same, 1), "%s map %d rank %d", machines[machine], map, rank);
            }
            placement_free(places, job.np);
        }
    }
}

Test(placement, one_rank_more_than_cores_needs_leave)
{
    for (int machine = 0; machine < N_MACHINES; machine++) {
        struct launch_job job = {.np = n_cores[machine], .bind = BIND_SOCKET};
        struct launch_place *places = place(machine, &job);

        cr_assert(places != NULL, "%s", why);
        placement_free(places, job.np);
        job.np++;
        cr_expect(place(machine, &job) == NULL, "%s", machines[machine]);
        cr_expect(strstr(why, "--oversubscribe") != NULL, "%s", why);
        job.oversubscribe = true;
        places = place(machine, &job);
        cr_assert(places != NULL, "%s", why);
        placement_free(places, job.np);
    }
}

Test(placement, without_binding_the_machine_is_not_looked_at)
{
    struct launch_job job = {.np = 100000, .oversubscribe = true};
    struct launch_place *places = NULL;

    cr_assert(eq(int, placement_make(&job, NULL, &places, why, sizeof(why)), 0), "%s", why);
    for (int rank = 0; rank < job.np; rank++) {
        cr_assert(places[rank].cpu_list == NULL);
        cr_assert(strcmp(places[rank].where, "not bound") == 0);
    }
    cr_expect(eq(int, n_looks, 0));
    placement_free(places, job.np);
}

Test(placement, this_machine_has_a_core)
{
    struct launch_job job = {.np = 1, .bind = BIND_CORE};
    struct launch_place *places = NULL;

    cr_assert(eq(int, placement_make(&job, NULL, &places, why, sizeof(why)), 0), "%s", why);
    cr_expect(eq(int, n_looks, 1));
    cr_expect(places[0].cpu_list != NULL && places[0].cpu_list[0] != '\0');
    placement_free(places, job.np);
}
