/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories as regions that fail: no name leads out of one, and what fails names the file and the
 * reason at the rank that called. Arguments, one of:
 *   refused  what cannot be opened, and names that would lead out
 *   full     a file system without space, in SMALL_DISK
 *   disk     requests that end with EIO, as BAD_DISK says
 *   killed   an owner dies in the middle of puts
 * and "direct": past the page cache.
 */
#include "config.h"

#include "mptest.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static struct nixl_region *region;
static struct nixl_directory_params params = NIXL_DIRECTORY_PARAMS_INIT;
static char dir[400]; /* of this rank */
static int rank, size;
static uint32_t direct; /* a flag, or 0 */
static unsigned char *out, *in;

static const char *path_to(const char *name)
{
    static char path[1500];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refuse_key(const char *key, int status, const char *text)
{
    const char *const one[] = {key};

    params.nobjects = 1;
    params.object_nbytes = 100;
    params.keys = one;
    MPT_STATUS(nixl_region_open_directory("directory", dir, &params, &region), status);
    MPT_HAS(text);
}

/* A name of the table that leads out, by links that are made before or after. */
static void leads_out(const char *key)
{
    const char *const one[] = {key};

    params.nobjects = 1;
    params.object_nbytes = 100;
    params.keys = one;
    MPT_OK(nixl_region_open_directory("directory", dir, &params, &region));
    MPT_STATUS(nixl_get(rank, region, 0, in, 10), NIXL_E_STORAGE);
    MPT_HAS(key);
    if (strchr(key, '/') != NULL) {
        MPT_STATUS(nixl_put(rank, region, 0, in, 100), NIXL_E_STORAGE);
        MPT_HAS(key);
    }
    MPT_STATUS(
        nixl_object_stat(region, 0, MPT_PATIENCE, &(struct nixl_object_info)NIXL_OBJECT_INFO_INIT),
        NIXL_E_STORAGE);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* Part of a part, of which there may be no more than a GiB. */
static void refuse_to_collect(void)
{
    params.nobjects = 1;
    params.object_nbytes = (uint64_t)16 << 40;
    params.keys = NULL;
    MPT_OK(nixl_region_open_directory("directory", dir, &params, &region));
    MPT_STATUS(nixl_put(rank, region, 0, out, 1), NIXL_E_STORAGE);
    MPT_HAS("too many objects are put in pieces at once");
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void refused(void)
{
    static char name[300];

    MPT_STATUS(nixl_region_open_directory("directory", dir, NULL, &region), NIXL_E_NOT_FOUND);
    MPT_HAS("NIXL_DIRECTORY_CREATE");
    params.flags = NIXL_DIRECTORY_CREATE | direct;
    MPT_STATUS(nixl_region_open_directory("directory", dir, &params, &region), NIXL_E_INVALID_ARG);
    MPT_HAS("holds no file");
    MPT_STATUS(nixl_region_open_directory("directory", "/dev/null", &params, &region),
               NIXL_E_INVALID_ARG);
    memset(name, 'x', 256);
    refuse_key("", NIXL_E_INVALID_ARG, "1 to 1024 bytes");
    refuse_key("/etc/passwd", NIXL_E_INVALID_ARG, "beneath the directory");
    refuse_key("../x", NIXL_E_INVALID_ARG, "beneath the directory");
    refuse_key("a/../../x", NIXL_E_INVALID_ARG, "beneath the directory");
    refuse_key("a//b", NIXL_E_INVALID_ARG, "beneath the directory");
    refuse_key("a/", NIXL_E_INVALID_ARG, "beneath the directory");
    refuse_key("./a", NIXL_E_INVALID_ARG, "beneath the directory");
    refuse_key(name, NIXL_E_INVALID_ARG, "beneath the directory");
    refuse_key(".nixlrun-x", NIXL_E_INVALID_ARG, "not complete");
    MPT_EQ(symlink("/etc", path_to("etc")), 0);
    MPT_EQ(symlink("/etc/passwd", path_to("passwd")), 0);
    MPT_EQ(symlink("..", path_to("up")), 0);
    leads_out("etc/passwd");
    leads_out("passwd");
    leads_out("up/nixlrun-out");
    refuse_to_collect();
    if (geteuid() != 0) {
        MPT_EQ(chmod(dir, 0500), 0);
        refuse_key("a", NIXL_E_ACCESS, "NIXL_DIRECTORY_READ_ONLY");
        MPT_EQ(chmod(dir, 0700), 0);
    }
}

/* ---- no space -------------------------------------------------------------------------------- */

static void full(void)
{
    const char *disk = getenv("SMALL_DISK");
    struct nixl_op op = NIXL_OP_INIT;

    if (disk == NULL || disk[0] == '\0') {
        mpt_skip("no right to mount a small file system");
    }
    snprintf(dir, sizeof(dir), "%s/%d", disk, rank);
    params.flags = NIXL_DIRECTORY_CREATE | direct;
    params.nobjects = 8;
    params.object_nbytes = MIB;
    params.keys = NULL;
    MPT_OK(nixl_region_open_directory("directory", dir, &params, &region));
    mpt_barrier();
    if (rank == 0) {
        mpt_fill(out, MIB, 5);
        MPT_OK(nixl_put(size - 1, region, 0, out, MIB));
        for (uint64_t i = 1; i < 6; i++) {
            if (nixl_put(size - 1, region, i * MIB, out, MIB) != NIXL_OK) {
                break;
            }
        }
        MPT_EQ(nixl_last_error()->status, NIXL_E_STORAGE);
        MPT_EQ(nixl_last_error()->native_code, ENOSPC);
        MPT_HAS("No space left");
        MPT_HAS("000000000000000");
        mpt_fill(out, MIB, 6); /* there is no room for the former and the new one */
        MPT_STATUS(nixl_put(size - 1, region, 0, out, MIB), NIXL_E_STORAGE);
        MPT_OK(nixl_get(size - 1, region, 0, in, MIB));
        MPT_CHECK(in, MIB, 5);
        op.flags = NIXL_OP_DURABLE;
        MPT_STATUS(nixl_flush_x(size - 1, region, &op, NULL), NIXL_E_STORAGE);
        MPT_OK(nixl_flush_x(size - 1, region, &op, NULL));
    }
    mpt_barrier();
    if (rank == size - 1) {
        MPT_OK(nixl_object_delete(region, 1, MPT_PATIENCE)); /* then there is room again */
        MPT_OK(nixl_put(rank, region, 0, in, MIB));
        for (uint64_t i = 0; i < 8; i++) {
            MPT_OK(nixl_object_delete(region, i, MPT_PATIENCE));
        }
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    if (rank == 0) {
        MPT_EQ(rmdir(dir), 0); /* nothing is left of what failed */
    }
}

/* ---- a bad disk ------------------------------------------------------------------------------ */

/* The kernel says once that it has lost the bytes. They are lost until they are put anew. */
static void stay_failed(const struct nixl_op *durable)
{
    for (int i = 0; i < 2; i++) {
        MPT_STATUS(nixl_flush_x(size - 1, region, durable, NULL), NIXL_E_STORAGE);
        MPT_EQ(nixl_last_error()->native_code, EIO);
        MPT_HAS("fdatasync of '0000000000000001'");
    }
    MPT_OK(nixl_put(size - 1, region, 0, out, 4 * MIB)); /* another object */
    MPT_STATUS(nixl_flush_x(size - 1, region, durable, NULL), NIXL_E_STORAGE);
    MPT_HAS("fdatasync of '0000000000000001'");
    MPT_OK(nixl_put(size - 1, region, 4 * MIB, out, 4 * MIB));
    MPT_OK(nixl_flush_x(size - 1, region, durable, NULL));
}

static void disk(void)
{
    const char *how = getenv("BAD_DISK");
    struct nixl_op op = NIXL_OP_INIT;
    bool is_sync = strncmp(how, "sync", 4) == 0;

    params.flags = NIXL_DIRECTORY_CREATE | direct;
    params.nobjects = 2;
    params.object_nbytes = 4 * MIB;
    params.keys = NULL;
    MPT_OK(nixl_region_open_directory("directory", dir, &params, &region));
    mpt_barrier();
    op.flags = NIXL_OP_DURABLE;
    if (rank == 0 && strcmp(how, "read") == 0) {
        MPT_OK(nixl_put(size - 1, region, 0, out, 4 * MIB));
        MPT_OK(nixl_get(size - 1, region, 0, in, MIB));
        MPT_STATUS(nixl_get(size - 1, region, 0, in, 4 * MIB), NIXL_E_STORAGE);
    } else if (rank == 0) {
        MPT_STATUS(nixl_put_x(size - 1, region, 4 * MIB, out, 4 * MIB, &op, NULL), NIXL_E_STORAGE);
    }
    if (rank == 0) {
        MPT_EQ(nixl_last_error()->native_code, EIO);
        MPT_HAS(is_sync ? "fdatasync of '0000000000000001'" : "000000000000000");
        MPT_HAS("Input/output error");
        MPT_HAS("nixlrun-directory");
        if (strcmp(how, "sync-once") == 0) {
            stay_failed(&op);
        }
    }
    mpt_barrier();
    if (rank == size - 1 && strcmp(how, "write") == 0) { /* nothing came to be */
        MPT_STATUS(nixl_object_stat(region, 1, MPT_PATIENCE,
                                    &(struct nixl_object_info)NIXL_OBJECT_INFO_INIT),
                   NIXL_E_NOT_FOUND);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* ---- a death --------------------------------------------------------------------------------- */

static void *die(void *arg)
{
    (void)arg;
    mpt_hear(0, 1);
    raise(SIGKILL);
    return NULL;
}

static void put_until_killed(void)
{
    pthread_t thread;

    MPT_EQ(pthread_create(&thread, NULL, die, NULL), 0);
    for (uint64_t i = 0;; i++) {
        memset(out, (int)(i % 251), MIB);
        MPT_OK(nixl_put(1, region, (i % 4) * MIB, out, MIB));
        if (i == 8) {
            MPT_OK(nixl_notify(0, 1, dir, strlen(dir) + 1, MPT_PATIENCE));
        }
    }
}

/* All files that were put again and again are whole after that, and nothing else is left. */
static void look_at(const char *owner)
{
    MPT_OK(nixl_region_open_directory(NULL, owner, &params, &region));
    for (uint64_t i = 0; i < 4; i++) {
        MPT_OK(nixl_get(0, region, i * MIB, in, MIB));
        for (int byte = 1; byte < MIB; byte++) {
            MPT_TRUE(in[byte] == in[0]);
        }
        MPT_OK(nixl_object_delete(region, i, MPT_PATIENCE));
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    /* The dead rank's lock of a file that it had not finished lasts until the kernel closes it. */
    for (int64_t end_ns = mpt_now_ns() + MPT_PATIENCE; rmdir(owner) != 0;) {
        MPT_EQ(errno, ENOTEMPTY);
        MPT_LT(mpt_now_ns(), end_ns);
        MPT_OK(nixl_region_open_directory(NULL, owner, &params, &region));
        MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    }
}

static void killed(void)
{
    static struct nixl_note note;
    int status = NIXL_OK;

    params.flags = NIXL_DIRECTORY_CREATE | direct;
    params.nobjects = 4;
    params.object_nbytes = MIB;
    params.keys = NULL;
    MPT_OK(nixl_region_open_directory("directory", dir, &params, &region));
    mpt_barrier();
    if (rank == 1) {
        put_until_killed();
    }
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(1, 1, UINT64_MAX, MPT_PATIENCE, &note));
    for (uint64_t i = 0; status == NIXL_OK; i++) {
        memset(out, 252, MIB);
        status = nixl_put(1, region, (i % 4) * MIB, out, MIB);
        status = status == NIXL_OK ? nixl_flush(1, MPT_PATIENCE) : status;
        if (i == 3) {
            MPT_OK(nixl_notify(1, 1, NULL, 0, MPT_PATIENCE));
        }
    }
    MPT_EQ(status, NIXL_E_PEER_LOST);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    look_at((const char *)note.payload);
}

/* ---- all ------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"refused", refused}, {"full", full}, {"disk", disk}, {"killed", killed}};
    const char *base = getenv("TMPDIR");

    mpt_start();
    MPT_TRUE(argc == 2 || argc == 3);
    direct = argc == 3 && strcmp(argv[2], "direct") == 0 ? NIXL_DIRECTORY_DIRECT : 0;
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    snprintf(dir, sizeof(dir), "%s/nixlrun-directory-%d-%d", base != NULL ? base : "/tmp",
             (int)getppid(), rank);
    out = calloc(1, 4 * MIB);
    in = calloc(1, 4 * MIB);
    MPT_TRUE(out != NULL && in != NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
        }
    }
    free(out);
    free(in);
    MPT_OK(nixl_finalize());
    mpt_remove_tree(dir);
    return mpt_passed();
}
