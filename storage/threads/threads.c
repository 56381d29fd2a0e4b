/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A storage engine of threads that call pread(), pwrite() and fdatasync(): a pool (util/pool.h);
 * and the same by the thread that asks, if that is one of a pool itself. No lock of its own.
 */
#include "config.h"

#include "storage/storage.h"
#include "nixlrun.h"
#include "util/pool.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int64_t pool_do(const struct nxr_storage_io *io)
{
    ssize_t n;

    do {
        switch (io->action) {
        case NXR_STORAGE_READ:
            n = pread(io->fd, io->memory, io->nbytes, (off_t)io->offset);
            break;
        case NXR_STORAGE_WRITE:
            n = pwrite(io->fd, io->memory, io->nbytes, (off_t)io->offset);
            break;
        default:
            n = fdatasync(io->fd);
        }
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static void pool_run(void *item)
{
    struct nxr_storage_io *io = item;

    io->result = pool_do(io);
    io->ended(io);
}

static struct nxr_pool pool = NXR_POOL_INIT(pool_run, offsetof(struct nxr_storage_io, next));

static int pool_start(const struct nxr_storage_core *core, char *why, size_t why_nbytes)
{
    int error = nxr_pool_start(&pool);

    (void)core;
    if (error != 0) {
        snprintf(why, why_nbytes, "no thread can be started: %s", strerror(error));
        return NIXL_E_UNSUPPORTED;
    }
    return NIXL_OK;
}

static void pool_stop(void)
{
    nxr_pool_stop(&pool);
}

static void pool_submit(struct nxr_storage_io *list, bool has_more)
{
    (void)has_more;
    if (list != NULL) {
        nxr_pool_submit(&pool, list);
    }
}

/* The threads end their requests themselves, and who submitted one is told by that. */
static int pool_poll(void)
{
    return 0;
}

static void pool_arm(void)
{
}

static int pool_file_add(int fd)
{
    (void)fd;
    return -1;
}

static void pool_file_remove(int slot)
{
    (void)slot;
}

static void pool_pin(void *addr, size_t nbytes)
{
    (void)addr;
    (void)nbytes;
}

static void pool_unpin(void *addr)
{
    (void)addr;
}

const struct nxr_storage_engine nxr_storage_threads = {
    .abi = NXR_STORAGE_ABI,
    .name = "threads",
    .start = pool_start,
    .stop = pool_stop,
    .submit = pool_submit,
    .poll = pool_poll,
    .arm = pool_arm,
    .disarm = pool_arm,
    .file_add = pool_file_add,
    .file_remove = pool_file_remove,
    .pin = pool_pin,
    .unpin = pool_unpin,
};

static void blocking_submit(struct nxr_storage_io *list, bool has_more)
{
    (void)has_more;
    while (list != NULL) {
        struct nxr_storage_io *io = list;

        list = io->next; /* `ended` may submit it again */
        pool_run(io);
    }
}

const struct nxr_storage_engine nxr_storage_blocking = {
    .abi = NXR_STORAGE_ABI,
    .name = "blocking",
    .submit = blocking_submit,
};
