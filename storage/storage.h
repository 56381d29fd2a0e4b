/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of storage engines: what reads and writes files for the memory kind of files
 * (src/memory/file/), and what a kind of storage is to the rest of the library.
 *
 * A storage engine is one constant table of functions, which serves the whole process.
 * storage/uring is a module, nixlrun_uring.so, that exports nxr_storage_uring; storage/threads is
 * part of the library. An engine includes this header and src/util, and nothing else of the
 * library.
 *
 * A kind of storage is a memory kind (src/memory/memory.h) with is_storage: its memory is a range
 * of reserved addresses that nothing lies behind, by which all calls name places in it;
 * copy_start() moves bytes between such places and host memory, or makes durable what was written.
 * That is all that regions, staging, networks, prepared transfers and peers need. Bytes between
 * storage and a GPU go through host memory, by staging. A kind whose storage is not files, objects
 * say, needs no engine of this header: it begins its requests in copy_start(), and says that they
 * have ended in copy_test().
 *
 * Common rules: engines log nothing; they never exit, fork, install a signal handler or write to
 * stdout; every descriptor is CLOEXEC. Functions are called by any thread, start() and stop() by
 * one at a time while no other runs.
 */
#ifndef NXR_STORAGE_H
#define NXR_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_STORAGE_ABI 4

enum nxr_storage_action {
    NXR_STORAGE_READ,
    NXR_STORAGE_WRITE,
    NXR_STORAGE_SYNC, /* what was written before to the file, by anyone, is durable (fdatasync) */
};

/*
 * One request. The struct and the memory are the caller's and stay valid until `ended` is called,
 * once, by any thread that is in the engine or belongs to it, without locks of the engine held. It
 * may submit the struct again.
 */
struct nxr_storage_io {
    enum nxr_storage_action action;
    int fd;
    int slot; /* what file_add() returned for fd, or -1 */
    uint64_t offset;
    void *memory;
    size_t nbytes;  /* > 0, except for SYNC; at most 1 GiB */
    int64_t result; /* bytes moved, maybe fewer than nbytes; or -errno, -ECANCELED: try again */
    void (*ended)(struct nxr_storage_io *io);
    struct nxr_storage_io *next; /* of a list that is submitted; then the engine's */
};

/* What the engine uses of the library. */
struct nxr_storage_core {
    /*
     * An eventfd that wakes the library's service thread, which then polls. It is valid until
     * stop().
     */
    int wake_fd;

    /* The same as a call. Any thread, with any locks held. */
    void (*wake)(void);
};

struct nxr_storage_engine {
    uint32_t abi;     /* NXR_STORAGE_ABI */
    const char *name; /* as NIXLRUN_STORAGE takes it */

    /* NIXL_OK; or NIXL_E_UNSUPPORTED, one line in `why`, and nothing is left behind. */
    int (*start)(const struct nxr_storage_core *core, char *why, size_t why_nbytes);

    /* Nothing is under way. Undoes start(). */
    void (*stop)(void);

    /*
     * Begin all requests of a list, or of none, in any order. Each ends, whatever happens.
     * has_more: the thread submits again at once, at last without, so these may wait for it.
     */
    void (*submit)(struct nxr_storage_io *list, bool has_more);

    /* End what is done; never blocks. How many ended. */
    int (*poll)(void);

    /*
     * From now on poll() is called only when core->wake() was, or wake_fd written: at once, if
     * requests have ended that poll() would end; when one ends; and after a poll() that leaves
     * some. disarm(): until further notice that is not needed.
     */
    void (*arm)(void);
    void (*disarm)(void);

    /*
     * Sleep until a request has ended, the futex `word` is woken, or the time is over; not at all
     * if a request has ended or *word is not `value`. A wait that stays in the engine has the bit 2
     * of futex_wait_bitset only. False: that cannot be had. Any thread, in the place of an armed
     * engine; or NULL.
     */
    bool (*sleep)(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns);

    /* Hints, which may fail: the file and the memory will be used often. slot, or -1. */
    int (*file_add)(int fd);
    void (*file_remove)(int slot);
    void (*pin)(void *addr, size_t nbytes);
    void (*unpin)(void *addr);

    /* NULL, or after start(): what of the kernel it uses, for people. */
    void (*describe)(char *text, size_t text_nbytes);
};

extern const struct nxr_storage_engine nxr_storage_threads;

/* No whole engine: its submit() does the requests in the thread that calls it, and may block. */
extern const struct nxr_storage_engine nxr_storage_blocking;

#endif
