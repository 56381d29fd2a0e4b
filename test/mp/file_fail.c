/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that fail: each failure is an error that names the path and the reason, at the rank that
 * called, whichever has the file. Arguments, one of:
 *   open     what cannot be opened, and what a call that fails leaves behind
 *   changed  files that others truncate, seal or remove while they are regions
 *   full     a file system without space, in SMALL_DISK
 *   disk     requests that end with EIO or EDQUOT, as BAD_DISK says
 *   closing  a close that hangs in the kernel, as BAD_DISK says
 *   race     all ranks open, extend and lock a file at the same time
 *   killed   the owner dies while it is written to: what was flushed durably is in the file
 */
#include "config.h"

#include "mptest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static int rank, size;
static char dir[400];
static unsigned char *out, *in;

static const char *path_to(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

/* The last call has failed for that reason, which its detail tells. */
static void failed(int error, const char *path)
{
    MPT_EQ(nixl_last_error()->status, NIXL_E_STORAGE);
    MPT_EQ(nixl_last_error()->native_code, error);
    MPT_HAS(path);
    MPT_HAS(error == ENODATA ? "truncated" : error == EFBIG ? "ulimit -f" : strerror(error));
}

/* ---- opening --------------------------------------------------------------------------------- */

struct opening {
    const char *name; /* in the folder; NULL: no path */
    uint32_t flags;
    uint64_t nbytes, offset;
    int status;
    const char *text;
};

static void cannot_open(const struct opening *what)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region *region = NULL;

    params.flags = what->flags;
    params.nbytes = what->nbytes;
    params.offset = what->offset;
    MPT_STATUS(nixl_region_open_file("region", what->name != NULL ? path_to(what->name) : NULL,
                                     &params, &region),
               what->status);
    MPT_HAS(what->text);
    MPT_TRUE(region == NULL);
}

static void make(const char *name, off_t nbytes)
{
    int fd = open(path_to(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    MPT_TRUE(fd >= 0);
    MPT_EQ(ftruncate(fd, nbytes), 0);
    MPT_EQ(close(fd), 0);
}

static off_t size_of(const char *name)
{
    struct stat stat_of;

    return stat(path_to(name), &stat_of) == 0 ? stat_of.st_size : -1;
}

static void arguments(void)
{
    static const struct opening cases[] = {
        {NULL, 0, 0, 0, NIXL_E_INVALID_ARG, "params->fd"},
        {"missing", 0, 0, 0, NIXL_E_NOT_FOUND, "NIXL_FILE_CREATE"},
        {"missing/file", NIXL_FILE_CREATE, 1, 0, NIXL_E_NOT_FOUND, "missing/file"},
        {"some/file", NIXL_FILE_CREATE, 1, 0, NIXL_E_NOT_FOUND, "Not a directory"},
        {"", 0, 0, 0, NIXL_E_INVALID_ARG, "irectory"},
        {"fifo", NIXL_FILE_READ_ONLY, 1, 0, NIXL_E_INVALID_ARG, "a FIFO"},
        {"empty", 0, 0, 0, NIXL_E_INVALID_ARG, "params->nbytes"},
        {"some", 0, 0, 5000, NIXL_E_INVALID_ARG, "from offset 5000"},
        {"some", NIXL_FILE_READ_ONLY, 5000, 0, NIXL_E_RANGE, "4096 bytes and is only read"},
        {"some", 0, 1, UINT64_MAX, NIXL_E_RANGE, "no file ends"},
        {"some", NIXL_FILE_CREATE | NIXL_FILE_NEW, 1, 0, NIXL_E_IN_USE, "File exists"},
        {"some", NIXL_FILE_NEW, 1, 0, NIXL_E_INVALID_ARG, "NIXL_FILE_CREATE"},
        {"some", NIXL_FILE_READ_ONLY | NIXL_FILE_TRUNCATE, 1, 0, NIXL_E_INVALID_ARG, "excludes"},
        {"some", 1 << 20, 1, 0, NIXL_E_INVALID_ARG, "file flags 0x100000; allowed"},
    };
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region *region;

    make("some", 4096);
    make("empty", 0);
    MPT_EQ(mkfifo(path_to("fifo"), 0600), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cannot_open(&cases[i]);
    }
    params.access = 8;
    MPT_STATUS(nixl_region_open_file("region", path_to("some"), &params, &region),
               NIXL_E_INVALID_ARG);
    params.access = 0;
    params.mode = 0100000;
    MPT_STATUS(nixl_region_open_file("region", path_to("some"), &params, &region),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open_file("region", "", NULL, &region), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open_file("region", path_to("some"), NULL, NULL), NIXL_E_INVALID_ARG);
}

/* Descriptors of the caller: what they may do is what the region may do. */
static void descriptors(void)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *region;

    params.fd = open(path_to("some"), O_WRONLY | O_CLOEXEC);
    MPT_TRUE(params.fd >= 0);
    MPT_STATUS(nixl_region_open_file("region", NULL, &params, &region), NIXL_E_INVALID_ARG);
    MPT_EQ(close(params.fd), 0);
    MPT_STATUS(nixl_region_open_file("region", NULL, &params, &region), NIXL_E_STORAGE);
    params.fd = open(path_to("some"), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    MPT_OK(nixl_region_open_file("region", NULL, &params, &region));
    MPT_EQ(close(params.fd), 0);
    MPT_OK(nixl_region_query(rank, region, MPT_PATIENCE, &info));
    MPT_EQ(info.access, NIXL_ACCESS_NO_PUT);
    MPT_OK(nixl_get(rank, region, 0, in, 4096));
    MPT_CHECK_BYTES(in, 4096, 0);
    MPT_STATUS(nixl_put(rank, region, 0, out, 1), NIXL_E_STORAGE);
    MPT_HAS("reading only");
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* Limits of the process; a file that was made or extended in vain is as it was before. */
static void limits(void)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct rlimit old, low;
    struct nixl_region *region, *other;
    int fd;

    MPT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    low = (struct rlimit){65536, old.rlim_max};
    params.flags = NIXL_FILE_CREATE;
    params.nbytes = 65536;
    MPT_OK(nixl_region_open_file("region", path_to("limited"), &params, &region));
    low.rlim_cur = 4096;
    MPT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
    MPT_OK(nixl_put(rank, region, 0, out, 4096));
    MPT_STATUS(nixl_put(rank, region, 4000, out, 100), NIXL_E_STORAGE);
    failed(EFBIG, "limited");
    MPT_STATUS(nixl_region_open_file("other", path_to("made"), &params, &other), NIXL_E_LIMIT);
    MPT_HAS("ulimit -f");
    MPT_EQ(size_of("made"), -1);
    MPT_STATUS(nixl_region_open_file("other", path_to("some"), &params, &other), NIXL_E_LIMIT);
    MPT_EQ(size_of("some"), 4096);
    MPT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    MPT_STATUS(nixl_region_open_file("region", path_to("made"), &params, &other),
               NIXL_E_NAME_IN_USE);
    MPT_EQ(size_of("made"), -1);
    MPT_STATUS(nixl_region_open_file("region", path_to("some"), &params, &other),
               NIXL_E_NAME_IN_USE);
    MPT_EQ(size_of("some"), 4096);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));

    fd = dup(0);
    MPT_TRUE(fd >= 0);
    MPT_EQ(close(fd), 0);
    MPT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){(rlim_t)fd, old.rlim_max};
    MPT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    MPT_STATUS(nixl_region_open_file("other", path_to("some"), NULL, &other), NIXL_E_LIMIT);
    MPT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/*
 * Who asks for a file alone gets it alone; a file that is cut at its close ends with what was put.
 */
static void flags(void)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region *region, *other;

    params.flags = NIXL_FILE_EXCLUSIVE;
    MPT_OK(nixl_region_open_file("region", path_to("some"), &params, &region));
    MPT_STATUS(nixl_region_open_file("other", path_to("some"), &params, &other), NIXL_E_IN_USE);
    MPT_HAS("NIXL_FILE_EXCLUSIVE");
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    params.flags = NIXL_FILE_CREATE | NIXL_FILE_TRUNCATE | NIXL_FILE_PREALLOCATE;
    params.nbytes = 100000;
    MPT_OK(nixl_region_open_file("region", path_to("cut"), &params, &region));
    MPT_EQ(size_of("cut"), 100000);
    MPT_OK(nixl_put(rank, region, 1000, out, 3000));
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_EQ(size_of("cut"), 4000);
    MPT_OK(nixl_region_open_file("region", path_to("cut"), &params, &region));
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_EQ(size_of("cut"), 4000);
}

static void open_cases(void)
{
    arguments();
    descriptors();
    limits();
    flags();
}

/* ---- failures at any rank -------------------------------------------------------------------- */

/* Rank 0 has the file; the last rank is the one that calls. */
static struct nixl_region *shared_file(const char *path, uint64_t nbytes)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region *region;

    params.flags = NIXL_FILE_CREATE;
    params.nbytes = nbytes;
    if (rank == 0) {
        MPT_OK(nixl_region_open_file("file", path, &params, &region));
    } else {
        MPT_OK(nixl_region_open("file", &region));
    }
    mpt_barrier();
    return region;
}

/* A put by each of the ways in which a call can report its failure. */
static void puts_fail(struct nixl_region *region, uint64_t offset, size_t nbytes, int error,
                      const char *path)
{
    struct nixl_req *req = NULL;
    struct nixl_op op = NIXL_OP_INIT;
    int status = nixl_put(0, region, offset, out, nbytes);

    if (status == NIXL_OK) { /* small, and to another host: the flush tells */
        status = nixl_flush(0, MPT_PATIENCE);
    }
    MPT_EQ(status, NIXL_E_STORAGE);
    failed(error, path);
    status = nixl_put_x(0, region, offset, out, nbytes, NULL, &req);
    if (status == NIXL_INPROGRESS) {
        status = nixl_req_wait(&req, MPT_PATIENCE);
    }
    if (status == NIXL_OK) {
        status = nixl_flush(0, MPT_PATIENCE);
    }
    MPT_EQ(status, NIXL_E_STORAGE);
    failed(error, path);
    op.flags = NIXL_OP_DURABLE;
    status = nixl_put_x(0, region, offset, out, nbytes, &op, NULL);
    MPT_EQ(status, NIXL_E_STORAGE);
    failed(error, path);
    status = nixl_flush(0, MPT_PATIENCE); /* of a small one, another host tells the flush, too */
    MPT_TRUE(status == NIXL_OK || status == NIXL_E_STORAGE);
}

static void gets_fail(struct nixl_region *region, uint64_t offset, size_t nbytes, int error,
                      const char *path)
{
    struct nixl_req *req = NULL;
    int status;

    MPT_STATUS(nixl_get(0, region, offset, in, nbytes), NIXL_E_STORAGE);
    failed(error, path);
    status = nixl_get_x(0, region, offset, in, nbytes, NULL, &req);
    MPT_EQ(status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status, NIXL_E_STORAGE);
    failed(error, path);
}

static void works(struct nixl_region *region, uint64_t offset)
{
    mpt_fill(out, 5000, 3);
    MPT_OK(nixl_put(0, region, offset, out, 5000));
    MPT_OK(nixl_get(0, region, offset, in, 5000));
    MPT_CHECK(in, 5000, 3);
}

static void changed_cases(void)
{
    struct nixl_region *region = shared_file(path_to("changed"), 4 * MIB);
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;

    if (rank == 0) {
        MPT_EQ(truncate(path_to("changed"), MIB), 0);
    }
    mpt_barrier();
    if (rank == size - 1) {
        works(region, 0);
        gets_fail(region, 2 * MIB, 100, ENODATA, "changed");
        gets_fail(region, MIB - 10, 2 * MIB, ENODATA, "changed");
        MPT_OK(nixl_put(0, region, 2 * MIB, out, 100)); /* which extends the file again */
        works(region, 2 * MIB);
    }
    mpt_barrier();
    if (rank == 0) {
        MPT_EQ(unlink(path_to("changed")), 0);
    }
    mpt_barrier();
    if (rank == size - 1) {
        works(region, 3 * MIB); /* the file lives on until its last descriptor is closed */
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));

    if (rank == 0) {
        params.fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        params.nbytes = MIB;
        MPT_OK(nixl_region_open_file("sealed", NULL, &params, &region));
        MPT_EQ(fcntl(params.fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
    } else {
        MPT_OK(nixl_region_open("sealed", &region));
    }
    mpt_barrier();
    if (rank == size - 1) {
        puts_fail(region, 0, 100, EPERM, "sealed");
        puts_fail(region, 10, MIB / 2, EPERM, "sealed");
        MPT_OK(nixl_get(0, region, 0, in, MIB));
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void full_cases(void)
{
    const char *small = getenv("SMALL_DISK");
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region *region;
    char path[512];

    if (small == NULL || small[0] == '\0') {
        mpt_skip("no file system can be mounted here");
    }
    snprintf(path, sizeof(path), "%s/full", small);
    region = shared_file(path, 8 * MIB);
    if (rank == size - 1) {
        works(region, 0);
        puts_fail(region, 2 * MIB, 5 * MIB, ENOSPC, path);
        puts_fail(region, 7 * MIB, 100, ENOSPC, path);
        works(region, 0);
    }
    mpt_barrier();
    if (rank == 0) {
        snprintf(path, sizeof(path), "%s/more", small);
        params.flags = NIXL_FILE_CREATE | NIXL_FILE_PREALLOCATE;
        params.nbytes = 8 * MIB;
        MPT_STATUS(nixl_region_open_file("more", path, &params, &region), NIXL_E_STORAGE);
        MPT_EQ(nixl_last_error()->native_code, ENOSPC);
        MPT_HAS("NIXL_FILE_PREALLOCATE");
        MPT_EQ(access(path, F_OK), -1);
    }
    mpt_barrier();
}

static void disk_cases(void)
{
    const char *how = getenv("BAD_DISK"), *path = path_to("disk");
    struct nixl_region *region = shared_file(path, 4 * MIB);
    struct nixl_op op = NIXL_OP_INIT;

    if (rank == size - 1 && strcmp(how, "short") == 0) {
        mpt_fill(out, 3 * MIB, 8);
        MPT_OK(nixl_put(0, region, 777, out, 3 * MIB));
        MPT_OK(nixl_get(0, region, 777, in, 3 * MIB));
        MPT_CHECK(in, 3 * MIB, 8);
    } else if (rank == size - 1) {
        works(region, 0);
        if (strcmp(how, "write") == 0 || strcmp(how, "quota") == 0) {
            int error = how[0] == 'q' ? EDQUOT : EIO;

            puts_fail(region, MIB + 5, 100, error, "disk");
            puts_fail(region, 0, 3 * MIB, error, "disk");
        } else if (strcmp(how, "read") == 0) {
            gets_fail(region, MIB + 5, 100, EIO, "disk");
            gets_fail(region, 0, 3 * MIB, EIO, "disk");
        } else {
            op.flags = NIXL_OP_DURABLE;
            MPT_STATUS(nixl_flush_x(0, region, &op, NULL), NIXL_E_STORAGE);
            failed(EIO, "disk");
            MPT_STATUS(nixl_put_x(0, region, 0, out, 100, &op, NULL), NIXL_E_STORAGE);
            failed(EIO, "disk");
            MPT_OK(nixl_flush(0, MPT_PATIENCE));
        }
        /* What was lost is lost, also where the kernel tells of it only once. */
        if (strcmp(how, "sync") == 0 || strcmp(how, "sync-once") == 0) {
            MPT_STATUS(nixl_flush_x(0, region, &op, NULL), NIXL_E_STORAGE);
            failed(EIO, "disk");
        }
        works(region, 3 * MIB);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* ---- several open it at the same time -------------------------------------------------------- */

/* All open it at once: the one that has it alone has a file with a name. */
static void race_for_it(void)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region *region = NULL;
    int status;

    params.flags = NIXL_FILE_CREATE | NIXL_FILE_EXCLUSIVE;
    params.nbytes = 4096;
    mpt_barrier();
    status = nixl_region_open_file("alone", path_to("made"), &params, &region);
    MPT_TRUE(status == NIXL_OK || status == NIXL_E_IN_USE);
    mpt_barrier();
    if (status == NIXL_OK) {
        MPT_EQ(size_of("made"), 4096);
        MPT_EQ(unlink(path_to("made")), 0);
        MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    }
    mpt_barrier();
}

/* Each has a part of its own: none makes the file shorter than another one needs it. */
static void race_for_parts(void)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region *region = NULL;

    params.flags = NIXL_FILE_CREATE;
    params.offset = (uint64_t)rank * 4096;
    params.nbytes = 4096;
    mpt_barrier();
    MPT_OK(nixl_region_open_file(NULL, path_to("made"), &params, &region));
    MPT_OK(nixl_get(rank, region, 0, in, 4096));
    mpt_barrier();
    MPT_EQ(size_of("made"), (off_t)size * 4096);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    mpt_barrier();
    MPT_TRUE(unlink(path_to("made")) == 0 || errno == ENOENT);
}

static void race_cases(void)
{
    for (int i = 0; i < 200; i++) {
        race_for_it();
        race_for_parts();
    }
}

/* ---- a close that takes long ----------------------------------------------------------------- */

/* Rank 0 hangs in cutting its file. It answers the others meanwhile. */
static void closing_cases(void)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *file = NULL, *other = NULL;
    int fd;

    if (rank == 0) {
        MPT_EQ(mkfifo(path_to("fifo"), 0600), 0);
        MPT_EQ(setenv("BAD_DISK_HOLD", path_to("fifo"), 1), 0);
        params.flags = NIXL_FILE_CREATE | NIXL_FILE_TRUNCATE;
        params.nbytes = 4096;
        MPT_OK(nixl_region_open_file("file", path_to("cut"), &params, &file));
        MPT_OK(nixl_region_alloc("other", 64, NULL, &other));
    } else {
        MPT_OK(nixl_region_open("other", &other));
    }
    mpt_barrier();
    if (rank == 0) {
        MPT_OK(nixl_region_close(file, MPT_PATIENCE));
    } else {
        fd = open(path_to("fifo"), O_WRONLY | O_CLOEXEC); /* it hangs by now */
        MPT_TRUE(fd >= 0);
        MPT_OK(nixl_region_query(0, other, 10 * MPT_S, &info));
        MPT_EQ(write(fd, "", 1), 1);
        MPT_EQ(close(fd), 0);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(other, MPT_PATIENCE));
}

/* ---- the owner dies -------------------------------------------------------------------------- */

static void killed_cases(void)
{
    struct nixl_region *region = shared_file(path_to("killed"), 64 * MIB);
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_note note;
    int status = NIXL_OK, n_durable = 0, fd;

    nixl_note_init(&note);
    op.flags = NIXL_OP_DURABLE;
    if (rank == 0) {
        MPT_OK(nixl_notify_recv(size - 1, 1, UINT64_MAX, MPT_PATIENCE, &note));
        raise(SIGKILL);
    }
    for (int i = 0; rank == size - 1 && status == NIXL_OK; i++) {
        mpt_fill(out, MIB, 1000 + (uint64_t)i);
        status = nixl_put(0, region, (uint64_t)(i % 64) * MIB, out, MIB);
        status = status == NIXL_OK ? nixl_flush_x(0, region, &op, NULL) : status;
        n_durable += status == NIXL_OK && i < 64;
        if (i == 5) {
            MPT_OK(nixl_notify(0, 1, NULL, 0, MPT_PATIENCE));
        }
    }
    if (rank == size - 1) {
        MPT_EQ(status, NIXL_E_PEER_LOST);
        MPT_GE(n_durable, 5);
        fd = open(path_to("killed"), O_RDONLY | O_CLOEXEC);
        MPT_TRUE(fd >= 0);
        for (int i = 1; i < 5; i++) { /* the first may have been written to again */
            MPT_EQ(pread(fd, in, MIB, (off_t)i * MIB), MIB);
            if (n_durable < 64) {
                MPT_CHECK(in, MIB, 1000 + (uint64_t)i);
            }
        }
        MPT_EQ(close(fd), 0);
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static void make_dir(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(dir, sizeof(dir), "%s/nixlrun-file-fail-%d", tmp != NULL ? tmp : "/tmp",
             (int)getppid());
    if (rank == 0) {
        MPT_EQ(mkdir(dir, 0700), 0);
    }
    mpt_barrier();
}

static void remove_dir(void)
{
    static const char *const names[] = {"some", "empty",   "fifo", "limited", "made",
                                        "cut",  "changed", "disk", "killed"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)unlink(path_to(names[i]));
    }
    MPT_EQ(rmdir(dir), 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"open", open_cases},    {"changed", changed_cases}, {"full", full_cases},
                 {"disk", disk_cases},    {"race", race_cases},       {"closing", closing_cases},
                 {"killed", killed_cases}};
    bool is_killed = argc > 1 && strcmp(argv[1], "killed") == 0;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    out = calloc(1, 8 * MIB);
    in = calloc(1, 8 * MIB);
    MPT_TRUE(out != NULL && in != NULL);
    make_dir();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
        }
    }
    if (!is_killed) {
        mpt_barrier();
    }
    if (rank == (is_killed ? size - 1 : 0)) {
        remove_dir();
    }
    free(out);
    free(in);
    mpt_finalize();
    return mpt_passed();
}
