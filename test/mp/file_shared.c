/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that ranks of its host read themselves. Rank 0 has it, rank 1 gets from it. Arguments, one
 * of, then perhaps "direct":
 *   stopped   the owner is stopped: nothing is asked of it
 *   closed    it closes the region meanwhile: no byte is read after that, and nothing stays open
 *   killed    it is killed meanwhile: a get has the bytes, or fails as all calls do
 *   kept      what is not handed out: files that may not be read, and parts of files
 */
#include "mptest.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NBYTES = 4 << 20, BLOCK = 4096, N_BLOCKS = NBYTES / BLOCK, WINDOW = 64 };
enum { TAG_PID = 1, TAG_READING, TAG_CLOSED, TAG_NEVER };

static char path[512];
static struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
static unsigned char *bytes; /* of the file */
static unsigned char *in;

/* ---- the file -------------------------------------------------------------------------------- */

static struct nixl_region *region_of(int rank)
{
    struct nixl_region *region;

    if (rank == 0) {
        MPT_OK(nixl_region_open_file("shared", path, &params, &region));
        mpt_fill(bytes, NBYTES, 1);
        MPT_OK(nixl_put(0, region, 0, bytes, params.nbytes));
    } else {
        mpt_fill(bytes, NBYTES, 1);
        MPT_OK(nixl_region_open("shared", &region));
    }
    mpt_barrier();
    return region;
}

/* How many descriptors of this process are of the file? */
static int n_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    int n = 0;

    MPT_TRUE(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        char link[PATH_MAX];
        ssize_t nbytes = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

        link[nbytes > 0 ? nbytes : 0] = '\0';
        n += strcmp(link, path) == 0;
    }
    closedir(dir);
    return n;
}

/* ---- gets ------------------------------------------------------------------------------------ */

/* The first failure of any; NIXL_OK: they have the bytes that were put. */
static int get_window(struct nixl_region *region, uint64_t *random)
{
    struct nixl_req *reqs[WINDOW] = {NULL};
    size_t blocks[WINDOW];
    int first = NIXL_OK;

    for (int i = 0; i < WINDOW; i++) {
        int status;

        blocks[i] = mpt_random(random) % N_BLOCKS;
        status = nixl_get_x(0, region, blocks[i] * BLOCK, in + i * BLOCK, BLOCK, NULL, &reqs[i]);
        first = first == NIXL_OK && status < 0 ? status : first;
        blocks[i] = status == NIXL_OK || status == NIXL_INPROGRESS ? blocks[i] : SIZE_MAX;
    }
    for (int i = 0; i < WINDOW; i++) {
        int status = reqs[i] != NULL ? nixl_req_wait(&reqs[i], MPT_PATIENCE) : NIXL_OK;

        first = first == NIXL_OK ? status : first;
        if (status == NIXL_OK && blocks[i] != SIZE_MAX) {
            MPT_EQ(memcmp(in + i * BLOCK, bytes + blocks[i] * BLOCK, BLOCK), 0);
        }
    }
    return first;
}

static uint64_t n_read_here(void)
{
    struct nixl_stats stats = NIXL_STATS_INIT;
    uint64_t n = 0;

    for (unsigned i = 0; nixl_stats_query(i, &stats) == NIXL_OK; i++) {
        n +=
            stats.rank == 0 && stats.op == NIXL_STATS_GET && strcmp(stats.transport, "storage") == 0
                ? stats.nops
                : 0;
    }
    return n;
}

/* The pid of rank 0, which waits until it is sent a signal, or for the tag. */
static pid_t pid_of_owner(void)
{
    struct nixl_note note;
    pid_t pid;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(0, TAG_PID, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&pid, note.payload, sizeof(pid));
    return pid;
}

static void tell_pid(void)
{
    pid_t pid = getpid();

    MPT_OK(nixl_notify(1, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
}

/* ---- the cases ------------------------------------------------------------------------------- */

static void stopped_case(int rank)
{
    struct nixl_region *region = region_of(rank);
    uint64_t random = 1;
    pid_t pid;

    if (rank == 0) {
        tell_pid();
        mpt_hear(1, TAG_CLOSED);
    } else {
        MPT_OK(nixl_get(0, region, 0, in, BLOCK)); /* which opens it here */
        pid = pid_of_owner();
        mpt_bring(pid, SIGSTOP, "T");
        MPT_OK(nixl_get(0, region, 0, in, NBYTES));
        MPT_CHECK(in, NBYTES, 1);
        MPT_OK(nixl_get(0, region, 5, in, BLOCK));
        MPT_EQ(memcmp(in, bytes + 5, BLOCK), 0);
        MPT_OK(get_window(region, &random));
        MPT_OK(nixl_get_strided(0, region, 0, 3 * BLOCK, in, BLOCK, BLOCK, WINDOW));
        for (size_t i = 0; i < WINDOW; i++) {
            MPT_EQ(memcmp(in + i * BLOCK, bytes + i * 3 * BLOCK, BLOCK), 0);
        }
        MPT_GE(n_read_here(), WINDOW + 3);
        MPT_EQ(kill(pid, SIGCONT), 0);
        MPT_OK(nixl_notify(0, TAG_CLOSED, NULL, 0, MPT_PATIENCE));
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* The owner writes other bytes after its close, which no get may see. */
static void close_and_write(struct nixl_region *region)
{
    int fd;

    mpt_hear(1, TAG_READING);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    fd = open(path, O_WRONLY | O_CLOEXEC);
    MPT_TRUE(fd >= 0);
    mpt_fill(bytes, NBYTES, 2);
    MPT_EQ(pwrite(fd, bytes, NBYTES, 0), NBYTES);
    MPT_EQ(close(fd), 0);
}

static void closed_case(int rank)
{
    for (int round = 0; round < 20; round++) {
        struct nixl_region *region = region_of(rank);
        int64_t until = mpt_now_ns() + MPT_PATIENCE;
        uint64_t random = (uint64_t)round;
        int status;

        if (rank == 0) {
            close_and_write(region);
            mpt_barrier();
            continue;
        }
        MPT_OK(get_window(region, &random));
        MPT_GE(n_open(), 1);
        MPT_OK(nixl_notify(0, TAG_READING, NULL, 0, MPT_PATIENCE));
        do {
            MPT_LT(mpt_now_ns(), until);
            status = get_window(region, &random);
        } while (status == NIXL_OK);
        MPT_EQ(status, NIXL_E_STALE);
        while (n_open() > 0) {
            MPT_LT(mpt_now_ns(), until);
            sched_yield();
        }
        MPT_OK(nixl_region_close(region, MPT_PATIENCE));
        mpt_barrier();
    }
}

static void killed_case(int rank)
{
    struct nixl_region *region = region_of(rank);
    struct nixl_note note;
    uint64_t random = 1;
    int status = NIXL_OK;
    pid_t pid;

    nixl_note_init(&note);
    if (rank == 0) {
        tell_pid();
        MPT_OK(nixl_notify_recv(1, TAG_NEVER, UINT64_MAX, NIXL_FOREVER, &note)); /* never comes */
        return;
    }
    MPT_OK(get_window(region, &random));
    pid = pid_of_owner();
    for (int i = 0; status == NIXL_OK; i++) {
        status = get_window(region, &random);
        if (i == 5) {
            MPT_EQ(kill(pid, SIGKILL), 0);
        }
    }
    MPT_EQ(status, NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_get(0, region, 0, in, BLOCK), NIXL_E_PEER_LOST);
}

static void kept_case(int rank)
{
    struct nixl_region *region;

    params.access = NIXL_ACCESS_NO_GET;
    region = region_of(rank);
    if (rank == 1) {
        MPT_STATUS(nixl_get(0, region, 0, in, BLOCK), NIXL_E_ACCESS);
        MPT_OK(nixl_put(0, region, 0, bytes, BLOCK));
        MPT_EQ(n_open(), 0);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));

    params.access = 0;
    params.nbytes = NBYTES - BLOCK;
    region = region_of(rank);
    if (rank == 1) {
        MPT_OK(nixl_get(0, region, 0, in, NBYTES - BLOCK));
        MPT_CHECK(in, NBYTES - BLOCK, 1);
        MPT_EQ(n_open(), 0);
        MPT_EQ(n_read_here(), 0);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(int rank);
    } cases[] = {{"stopped", stopped_case},
                 {"closed", closed_case},
                 {"killed", killed_case},
                 {"kept", kept_case}};
    const char *dir = getenv("TMPDIR");
    bool is_killed = argc > 1 && strcmp(argv[1], "killed") == 0;
    char given[400];
    int rank;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    MPT_TRUE(realpath(dir != NULL ? dir : "/tmp", given) != NULL);
    snprintf(path, sizeof(path), "%s/nixlrun-file-shared-%d", given, (int)getppid());
    params.flags = NIXL_FILE_CREATE | (argc > 2 ? NIXL_FILE_DIRECT : 0);
    params.nbytes = NBYTES;
    bytes = malloc(NBYTES);
    in = malloc(NBYTES);
    MPT_TRUE(bytes != NULL && in != NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run(rank);
        }
    }
    if (rank == (is_killed ? 1 : 0)) {
        (void)unlink(path);
    }
    free(bytes);
    free(in);
    mpt_finalize();
    return mpt_passed();
}
