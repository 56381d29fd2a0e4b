/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapping and binding of ranks on a machine that hwloc describes: this one, or a recorded one.
 *
 * The machine is seen as the list of its usable cores, each in a NUMA node and a socket. CPUs that
 * the cgroup or nixlrun's affinity mask excludes are left out; a core without a usable CPU is
 * ignored. Ranks are dealt in rounds: in each round every core gets one rank, so no core has two
 * before each has one, whatever the policy. Numbers shown to people are hwloc's logical ones, as
 * lstopo shows them; those in CPU lists are the system's.
 */
#include "launcher/placement.h"
#include "launcher/values.h"
#include "launcher/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <unistd.h>

enum level { LEVEL_CORE, LEVEL_NUMA, LEVEL_SOCKET, N_LEVELS };

struct core {
    hwloc_cpuset_t cpus;  /* the usable ones */
    int number[N_LEVELS]; /* of the core, its NUMA node and its socket; -1: it is in none */
    int n_ranks;
};

struct machine {
    hwloc_topology_t topology;
    struct core *cores;
    int n_cores;
};

/* ---- the machine ----------------------------------------------------------------------------- */

/* Give up on a topology file, for the reason in errno or, if it is 0, for its content. */
static int fail_file(const char *path, int error, char *why, size_t why_nbytes)
{
    char shown[VALUE_SHOWN_NBYTES];

    snprintf(why, why_nbytes, "--topology %s: %s; allowed: an XML file that lstopo wrote",
             value_show(path, shown), error != 0 ? strerror(error) : "not a topology of hwloc");
    return -1;
}

static int load_topology(const char *path, hwloc_topology_t *topology_p, char *why,
                         size_t why_nbytes)
{
    hwloc_topology_t topology;
    int fd;

    if (hwloc_topology_init(&topology) != 0) {
        snprintf(why, why_nbytes, "cannot initialize hwloc: %s", strerror(errno));
        return -1;
    }
    /* Include what the cgroup forbids, so that the numbers are those of the whole machine. */
    hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (path != NULL) {
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            hwloc_topology_destroy(topology);
            return fail_file(path, errno, why, why_nbytes);
        }
        close(fd);
        if (hwloc_topology_set_xml(topology, path) != 0) {
            hwloc_topology_destroy(topology);
            return fail_file(path, 0, why, why_nbytes);
        }
    }
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        if (path != NULL) {
            return fail_file(path, 0, why, why_nbytes);
        }
        snprintf(why, why_nbytes, "hwloc cannot read the topology of this host: %s",
                 strerror(errno));
        return -1;
    }
    *topology_p = topology;
    return 0;
}

/* The CPUs that ranks may use: allowed by the cgroup and, on this machine, by our own affinity. */
static hwloc_cpuset_t usable_cpus(hwloc_topology_t topology)
{
    hwloc_cpuset_t usable = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology));
    hwloc_cpuset_t bound = hwloc_bitmap_alloc();

    x_checked(usable);
    x_checked(bound);
    if (hwloc_topology_is_thissystem(topology) &&
        hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_THREAD) == 0) {
        hwloc_bitmap_and(usable, usable, bound);
    }
    hwloc_bitmap_free(bound);
    return usable;
}

/* Logical number of the first NUMA node that holds the object, -1 if none does. */
static int numa_of(hwloc_topology_t topology, hwloc_obj_t object)
{
    hwloc_obj_t node = NULL;

    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != NULL) {
        if (hwloc_bitmap_isincluded(object->cpuset, node->cpuset)) {
            return (int)node->logical_index;
        }
    }
    return -1;
}

static int socket_of(hwloc_topology_t topology, hwloc_obj_t object)
{
    hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);

    return package != NULL ? (int)package->logical_index : -1;
}

static void list_cores(struct machine *machine)
{
    hwloc_topology_t topology = machine->topology;
    hwloc_cpuset_t usable = usable_cpus(topology);
    hwloc_obj_type_t type =
        hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    int n_objects = hwloc_get_nbobjs_by_type(topology, type);
    hwloc_obj_t object = NULL;

    machine->cores = x_array(NULL, (size_t)n_objects, sizeof(*machine->cores));
    while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != NULL) {
        struct core *core = &machine->cores[machine->n_cores];

        if (!hwloc_bitmap_intersects(object->cpuset, usable)) {
            continue;
        }
        core->cpus = x_checked(hwloc_bitmap_alloc());
        hwloc_bitmap_and(core->cpus, object->cpuset, usable);
        core->number[LEVEL_CORE] = (int)object->logical_index;
        core->number[LEVEL_NUMA] = numa_of(topology, object);
        core->number[LEVEL_SOCKET] = socket_of(topology, object);
        core->n_ranks = 0;
        machine->n_cores++;
    }
    hwloc_bitmap_free(usable);
}

static void machine_close(struct machine *machine)
{
    for (int i = 0; i < machine->n_cores; i++) {
        hwloc_bitmap_free(machine->cores[i].cpus);
    }
    free(machine->cores);
    hwloc_topology_destroy(machine->topology);
}

static int machine_open(struct machine *machine, const char *path, char *why, size_t why_nbytes)
{
    *machine = (struct machine){0};
    if (load_topology(path, &machine->topology, why, why_nbytes) != 0) {
        return -1;
    }
    list_cores(machine);
    if (machine->n_cores == 0) {
        machine_close(machine);
        snprintf(why, why_nbytes, "%s has no usable CPU",
                 path != NULL ? "the recorded machine" : "this host");
        return -1;
    }
    return 0;
}

/* ---- mapping: a core for each rank ----------------------------------------------------------- */

/* The first core of a group that has `round` ranks; NULL: all have more. */
static struct core *free_core(struct machine *machine, enum level level, int group, int round)
{
    for (int i = 0; i < machine->n_cores; i++) {
        struct core *core = &machine->cores[i];

        if (core->n_ranks == round && core->number[level] == group) {
            return core;
        }
    }
    return NULL;
}

/* The numbers of all NUMA nodes or sockets that have cores, each once, in the order of cores. */
static int list_groups(const struct machine *machine, enum level level, int *groups)
{
    int n = 0;

    for (int i = 0; i < machine->n_cores; i++) {
        int group = machine->cores[i].number[level], seen = 0;

        while (seen < n && groups[seen] != group) {
            seen++;
        }
        if (seen == n) {
            groups[n++] = group;
        }
    }
    return n;
}

/* Go around the groups of a level, each time taking the next free core of the group. */
static void map_around(struct machine *machine, enum level level, int np, struct core **core_of)
{
    int *groups = x_array(NULL, (size_t)machine->n_cores, sizeof(*groups));
    int n_groups = list_groups(machine, level, groups);
    int turn = 0;

    for (int rank = 0; rank < np; rank++) {
        struct core *core;

        do {
            core = free_core(machine, level, groups[turn], rank / machine->n_cores);
            turn = (turn + 1) % n_groups;
        } while (core == NULL);
        core->n_ranks++;
        core_of[rank] = core;
    }
    free(groups);
}

static struct core **map_ranks(struct machine *machine, const struct launch_job *job)
{
    struct core **core_of = x_array(NULL, (size_t)job->np, sizeof(*core_of));

    switch (job->map) {
    case MAP_NUMA:
        map_around(machine, LEVEL_NUMA, job->np, core_of);
        break;
    case MAP_SOCKET:
        map_around(machine, LEVEL_SOCKET, job->np, core_of);
        break;
    case MAP_SLOT:
    case MAP_CORE:
        for (int rank = 0; rank < job->np; rank++) {
            core_of[rank] = &machine->cores[rank % machine->n_cores];
        }
        break;
    }
    return core_of;
}

/* ---- binding: the CPUs of that core, its NUMA node or its socket ----------------------------- */

/* "socket 0 numa 1 core 3": what the cores of the same number at this level have in common. */
static char *placement_describe(const struct machine *machine, const struct core *chosen,
                                enum level level)
{
    static const char *const names[] = {"core", "numa", "socket"};
    char text[96];
    size_t used = 0;

    for (int shown = N_LEVELS - 1; shown >= (int)LEVEL_CORE; shown--) {
        bool is_common = chosen->number[shown] >= 0;

        for (int i = 0; i < machine->n_cores; i++) {
            const struct core *core = &machine->cores[i];

            is_common = is_common && (core->number[level] != chosen->number[level] ||
                                      core->number[shown] == chosen->number[shown]);
        }
        if (is_common) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %d",
                                     used > 0 ? " " : "", names[shown], chosen->number[shown]);
        }
    }
    return x_strdup(used > 0 ? text : "whole host");
}

static struct launch_place bind_to(const struct machine *machine, const struct core *chosen,
                                   enum level level)
{
    hwloc_cpuset_t cpus = x_checked(hwloc_bitmap_alloc());
    struct launch_place place = {.where = placement_describe(machine, chosen, level)};

    for (int i = 0; i < machine->n_cores; i++) {
        if (machine->cores[i].number[level] == chosen->number[level]) {
            hwloc_bitmap_or(cpus, cpus, machine->cores[i].cpus);
        }
    }
    hwloc_bitmap_list_asprintf(&place.cpu_list, cpus);
    x_checked(place.cpu_list);
    hwloc_bitmap_free(cpus);
    return place;
}

static struct launch_place *places_unbound(int np)
{
    struct launch_place *places = x_array(NULL, (size_t)np, sizeof(*places));

    for (int rank = 0; rank < np; rank++) {
        places[rank] = (struct launch_place){.where = x_strdup("not bound")};
    }
    return places;
}

static struct launch_place *places_bound(struct machine *machine, const struct launch_job *job)
{
    static const enum level level_of[] = {
        [BIND_CORE] = LEVEL_CORE,
        [BIND_NUMA] = LEVEL_NUMA,
        [BIND_SOCKET] = LEVEL_SOCKET,
    };
    struct launch_place *places = x_array(NULL, (size_t)job->np, sizeof(*places));
    struct core **core_of = map_ranks(machine, job);

    for (int rank = 0; rank < job->np; rank++) {
        places[rank] = bind_to(machine, core_of[rank], level_of[job->bind]);
    }
    free(core_of);
    return places;
}

int placement_make(const struct launch_job *job, const char *topology,
                   struct launch_place **places_p, char *why, size_t why_nbytes)
{
    struct machine machine;

    if (job->bind == BIND_NONE && job->oversubscribe && topology == NULL) {
        *places_p = places_unbound(job->np);
        return 0;
    }
    if (machine_open(&machine, topology, why, why_nbytes) != 0) {
        return -1;
    }
    if (job->np > machine.n_cores && !job->oversubscribe) {
        snprintf(why, why_nbytes,
                 "-n %d: there %s %d usable core%s and ranks %s; allowed: up to %d, or give "
                 "--oversubscribe",
                 job->np, machine.n_cores == 1 ? "is" : "are", machine.n_cores,
                 machine.n_cores == 1 ? "" : "s",
                 job->bind == BIND_NONE ? "must not share cores" : "are bound", machine.n_cores);
        machine_close(&machine);
        return -1;
    }
    *places_p = job->bind == BIND_NONE ? places_unbound(job->np) : places_bound(&machine, job);
    machine_close(&machine);
    return 0;
}

void placement_free(struct launch_place *places, int n_places)
{
    for (int rank = 0; rank < n_places; rank++) {
        free(places[rank].cpu_list);
        free(places[rank].where);
    }
    free(places);
}
