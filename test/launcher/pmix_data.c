/* SPDX-License-Identifier: Apache-2.0 */
/* A PMIx client that moves data through the launcher: fence, direct modex, publish, job keys. */
#include "pmix_client.h"

#include <fcntl.h>
#include <hwloc/shmem.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void put(const char *key, uint32_t number)
{
    pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = number};

    CHECK_OK(PMIx_Put(PMIX_GLOBAL, key, &value));
    CHECK_OK(PMIx_Commit());
}

static uint32_t get(uint32_t rank, const char *key)
{
    pmix_proc_t peer;
    pmix_value_t *value;
    uint32_t number;

    PMIX_LOAD_PROCID(&peer, self.nspace, rank);
    CHECK_OK(PMIx_Get(&peer, key, NULL, 0, &value));
    number = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return number;
}

/* Everybody's value is there after a fence that collects. */
static void run_fence(int argc, char **argv)
{
    pmix_info_t collect;
    bool yes = true;

    (void)argc;
    (void)argv;
    put("number", 100 + self.rank);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    CHECK_OK(PMIx_Fence(&everybody, 1, &collect, 1));
    for (uint32_t rank = 0; rank < job_size; rank++) {
        CHECK(get(rank, "number") == 100 + rank);
    }
}

/* A value that is put after the last fence reaches one who asks, also if it asks first. */
static void run_dmodex(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fence();
    if (self.rank == 0) {
        struct timespec late = {.tv_nsec = 100000000};

        nanosleep(&late, NULL); /* so that the others ask before it is there */
        put("late", 4711);
    } else {
        CHECK(get(0, "late") == 4711);
    }
    fence();
}

/* A get of what never comes ends by its timeout. */
static void run_timeout(int argc, char **argv)
{
    pmix_info_t timeout;
    pmix_value_t *value;
    int one = 1;

    (void)argc;
    (void)argv;
    fence();
    PMIX_INFO_LOAD(&timeout, PMIX_TIMEOUT, &one, PMIX_INT);
    CHECK_STATUS(PMIx_Get(&(pmix_proc_t){.rank = 0}, "never", &timeout, 1, &value),
                 PMIX_ERR_TIMEOUT);
    fence();
}

static void publish(const char *key, const char *text)
{
    pmix_info_t info;

    PMIX_INFO_LOAD(&info, key, text, PMIX_STRING);
    CHECK_OK(PMIx_Publish(&info, 1));
}

/* Publish, look up, a look-up that waits for its key, a second publish, unpublish. */
static void run_publish(int argc, char **argv)
{
    pmix_info_t wait, again;
    pmix_pdata_t found;
    int all = 0;
    char *keys[] = {(char *)"colour", NULL};

    (void)argc;
    (void)argv;
    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_INFO_LOAD(&wait, PMIX_WAIT, &all, PMIX_INT);
    if (self.rank == 0) {
        publish("colour", "green");
        PMIX_INFO_LOAD(&again, "colour", "red", PMIX_STRING);
        CHECK_STATUS(PMIx_Publish(&again, 1), PMIX_ERR_DUPLICATE_KEY);
    }
    fence();
    PMIX_LOAD_KEY(found.key, "colour");
    CHECK_OK(PMIx_Lookup(&found, 1, NULL, 0));
    CHECK(strcmp(found.value.data.string, "green") == 0 && found.proc.rank == 0);
    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_LOAD_KEY(found.key, "nothing");
    CHECK_STATUS(PMIx_Lookup(&found, 1, NULL, 0), PMIX_ERR_NOT_FOUND);
    fence();
    if (self.rank == 0) {
        CHECK_OK(PMIx_Unpublish(keys, NULL, 0));
    }
    fence();
    PMIX_LOAD_KEY(found.key, "colour");
    CHECK_STATUS(PMIx_Lookup(&found, 1, NULL, 0), PMIX_ERR_NOT_FOUND);
    fence();
    if (self.rank == 0) {
        struct timespec late = {.tv_nsec = 100000000};

        nanosleep(&late, NULL); /* so that the others wait for the key */
        publish("awaited", "here");
    } else {
        PMIX_LOAD_KEY(found.key, "awaited");
        CHECK_OK(PMIx_Lookup(&found, 1, &wait, 1));
        CHECK(strcmp(found.value.data.string, "here") == 0);
    }
    fence();
}

static uint32_t number_of(const pmix_proc_t *proc, const char *key)
{
    pmix_value_t *value;
    pmix_status_t status = PMIX_SUCCESS;
    uint32_t number = 0;

    CHECK_OK(PMIx_Get(proc, key, NULL, 0, &value));
    PMIX_VALUE_GET_NUMBER(status, value, number, uint32_t);
    CHECK(status == PMIX_SUCCESS);
    PMIX_VALUE_RELEASE(value);
    return number;
}

static void check_text(const pmix_proc_t *proc, const char *key, const char *wanted)
{
    pmix_value_t *value;

    CHECK_OK(PMIx_Get(proc, key, NULL, 0, &value));
    CHECK(value->type == PMIX_STRING && strcmp(value->data.string, wanted) == 0);
    PMIX_VALUE_RELEASE(value);
}

/* The job's directory is one that nixlrun removes. */
static void check_directory(void)
{
    pmix_value_t *value;
    struct stat status;

    CHECK_OK(PMIx_Get(&everybody, PMIX_NSDIR, NULL, 0, &value));
    CHECK(value->type == PMIX_STRING && stat(value->data.string, &status) == 0);
    CHECK(S_ISDIR(status.st_mode) && strstr(value->data.string, "/nixlrun.") != NULL);
    PMIX_VALUE_RELEASE(value);
}

/* What a client may ask about its job: arguments are the host name and the list of ranks. */
static void run_keys(int argc, char **argv)
{
    CHECK(argc == 4);
    CHECK(number_of(&everybody, PMIX_JOB_SIZE) == job_size);
    CHECK(number_of(&everybody, PMIX_UNIV_SIZE) == job_size);
    CHECK(number_of(&everybody, PMIX_LOCAL_SIZE) == job_size);
    CHECK(number_of(&everybody, PMIX_NUM_NODES) == 1);
    CHECK(number_of(&everybody, PMIX_JOB_NUM_APPS) == 1);
    check_text(&everybody, PMIX_NODE_LIST, argv[2]);
    check_text(&everybody, PMIX_LOCAL_PEERS, argv[3]);
    check_directory();
    for (uint32_t rank = 0; rank < job_size; rank++) {
        pmix_proc_t peer;

        PMIX_LOAD_PROCID(&peer, self.nspace, rank);
        check_text(&peer, PMIX_HOSTNAME, argv[2]);
        CHECK(number_of(&peer, PMIX_LOCAL_RANK) == rank);
        CHECK(number_of(&peer, PMIX_NODE_RANK) == rank);
        CHECK(number_of(&peer, PMIX_APPNUM) == 0);
        CHECK(number_of(&peer, PMIX_GLOBAL_RANK) == rank);
        CHECK(number_of(&peer, PMIX_REINCARNATION) == 0);
    }
}

/* A fence of some ranks only. */
static void run_subset(int argc, char **argv)
{
    pmix_proc_t pair[2];

    (void)argc;
    (void)argv;
    PMIX_LOAD_PROCID(&pair[0], self.nspace, self.rank & ~1u);
    PMIX_LOAD_PROCID(&pair[1], self.nspace, self.rank | 1u);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(PMIx_Fence(pair, 2, NULL, 0));
    }
}

static pmix_value_t *value_of(const char *key)
{
    pmix_value_t *value;

    CHECK_OK(PMIx_Get(&everybody, key, NULL, 0, &value));
    return value;
}

/* Does the file have the topology of this host? Mapped at that address, as hwloc wants it. */
static bool has_topology(int fd, void *address, size_t nbytes)
{
    hwloc_topology_t topology, own;
    bool is_right;

    if (hwloc_shmem_topology_adopt(&topology, fd, 0, address, nbytes, 0) != 0) {
        perror("hwloc_shmem_topology_adopt");
        return false;
    }
    if (hwloc_topology_init(&own) != 0) {
        return false;
    }
    is_right = hwloc_topology_load(own) == 0 &&
               hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU) ==
                   hwloc_get_nbobjs_by_type(own, HWLOC_OBJ_PU) &&
               hwloc_bitmap_isequal(hwloc_topology_get_allowed_cpuset(topology),
                                    hwloc_topology_get_allowed_cpuset(own));
    hwloc_topology_destroy(own);
    hwloc_topology_destroy(topology);
    return is_right;
}

/*
 * What PMIx since 6 does while it joins: map the topology of the host that the job's data names. It
 * lies at one address only, so a PMIx that has mapped it (5 does in a client that passes none) must
 * drop it before: in a child, since PMIx uses its mapping until it ends.
 */
static void run_topology(int argc, char **argv)
{
    pmix_value_t *file = value_of(PMIX_HWLOC_SHMEM_FILE);
    pmix_value_t *address = value_of(PMIX_HWLOC_SHMEM_ADDR);
    pmix_value_t *nbytes = value_of(PMIX_HWLOC_SHMEM_SIZE);
    struct stat status;
    int fd, ended = -1;
    pid_t child;

    (void)argc;
    (void)argv;
    CHECK(file->type == PMIX_STRING && address->type == PMIX_SIZE && nbytes->type == PMIX_SIZE);
    fd = open(file->data.string, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    CHECK(fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode));
    CHECK(status.st_uid == geteuid() && status.st_size >= (off_t)nbytes->data.size);
    child = fork();
    if (child == 0) {
        void *at = (void *)address->data.size;

        munmap(at, nbytes->data.size);
        _exit(has_topology(fd, at, nbytes->data.size) ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &ended, 0) == child && ended == 0);
    close(fd);
    PMIX_VALUE_RELEASE(file);
    PMIX_VALUE_RELEASE(address);
    PMIX_VALUE_RELEASE(nbytes);
}

int main(int argc, char **argv)
{
    static const struct service services[] = {
        {"fence", run_fence},       {"dmodex", run_dmodex}, {"timeout", run_timeout},
        {"publish", run_publish},   {"keys", run_keys},     {"subset", run_subset},
        {"topology", run_topology},
    };

    return client_main(argc, argv, services, sizeof(services) / sizeof(services[0]));
}
