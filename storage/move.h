/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of an open file, moved by an engine: cutting them into its requests, and ending these. All
 * that reads and writes files by descriptors goes through here.
 *
 * With direct I/O, whole blocks go past the page cache and the bytes at unaligned ends through it,
 * by a second descriptor; the kernel merges these into their block, so that no block is read,
 * changed and written here. Blocks are at least as large as pages, so that the two never meet in a
 * page of one copy. Host memory that is not aligned for direct I/O is copied to or from memory that
 * is.
 *
 * A request of which the kernel has moved a part, or that it did not take, is begun again with what
 * is left. No state and no lock: a struct belongs to its caller until it has ended.
 */
#ifndef NXR_STORAGE_MOVE_H
#define NXR_STORAGE_MOVE_H

#include "storage/storage.h"

/* Direct requests begin, end and lie in memory at multiples of these, or of more. */
#define NXR_STORAGE_BLOCK_NBYTES  4096u
#define NXR_STORAGE_MEMORY_NBYTES 512u

/* An open file. */
struct nxr_storage_file {
    const struct nxr_storage_engine *engine;
    int fd;                /* through the page cache */
    int direct_fd;         /* past it; -1: not asked for, or not possible */
    int slot, direct_slot; /* what engine->file_add() returned for them, or -1 */
    uint32_t block_nbytes; /* of direct requests */
};
#define NXR_STORAGE_FILE_NONE                                                                      \
    {                                                                                              \
        NULL, -1, -1, -1, -1, NXR_STORAGE_BLOCK_NBYTES                                             \
    }

/* One request, for bytes that follow each other. */
struct nxr_storage_move {
    struct nxr_storage_io io; /* offset and nbytes: of what is left */
    const struct nxr_storage_file *file;
    void *owner; /* the caller's */

    /*
     * Called once, as in storage.h: 0, or an errno, ENODATA where the file ends before that. With
     * the last one, the caller may free them.
     */
    void (*ended)(struct nxr_storage_move *move, int error);

    char *local;     /* where the bytes come from or go to */
    char *aligned;   /* memory that stands in for it; NULL: none */
    uint64_t nbytes; /* of the whole request */
    bool is_direct;
};

/* What all requests for some bytes have in common. */
struct nxr_storage_moving {
    const struct nxr_storage_file *file;
    bool is_write;
    void *owner;
    void (*ended)(struct nxr_storage_move *move, int error);
};

/* How many requests move so many bytes from that offset on. */
size_t nxr_storage_count(const struct nxr_storage_file *file, uint64_t offset, uint64_t nbytes);

/*
 * Fill as many, from moves[*n_p] on, and add their number to *n_p. False: no memory; *n_p counts
 * those that nxr_storage_moves_clear() is to be called for.
 */
bool nxr_storage_cut(const struct nxr_storage_moving *moving, uint64_t offset, char *memory,
                     uint64_t nbytes, struct nxr_storage_move *moves, size_t *n_p);

/* Fill one that makes the file durable; owner and ended are those of `moving`. */
void nxr_storage_cut_sync(const struct nxr_storage_moving *moving, struct nxr_storage_move *move);

/* Begin n > 0 of one engine. has_more: as submit() of the engine. */
void nxr_storage_begin(struct nxr_storage_move *moves, size_t n, bool has_more);

/* Free what they hold, once they have ended or without having begun. */
void nxr_storage_clear(struct nxr_storage_move *moves, size_t n);

/*
 * Read or write, and sleep until it has ended. 0, or an errno. The engine is polled by others
 * meanwhile.
 */
int nxr_storage_run(const struct nxr_storage_file *file, bool is_write, uint64_t offset,
                    char *memory, uint64_t nbytes);

/* "read", "write" or "fdatasync". */
const char *nxr_storage_action_name(enum nxr_storage_action action);

#endif
