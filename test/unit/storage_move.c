/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storage/move.h over an engine of memory that moves what it is told to: how bytes are cut, and
 * what becomes of requests that end in part, or in vain.
 */
#include "config.h"

#include "storage/directory/opened.h"
#include "storage/move.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FD = 3, DIRECT_FD = 4, FILE_NBYTES = 3 << 20, BLOCK = 4096 };

static char content[FILE_NBYTES], bytes[FILE_NBYTES + 1];
static size_t n_requests, n_direct, most_nbytes, n_synced;

/* Told to the engine: the results of the next requests, before it does what is asked. */
static int64_t results[8];
static size_t n_results, next_result;

static int64_t fake_do(const struct nxr_storage_io *io)
{
    uint64_t left = io->offset < FILE_NBYTES ? FILE_NBYTES - io->offset : 0;
    size_t nbytes = io->nbytes < left ? io->nbytes : left;

    n_requests++;
    n_direct += io->fd == DIRECT_FD;
    most_nbytes = io->nbytes > most_nbytes ? io->nbytes : most_nbytes;
    if (io->fd == DIRECT_FD) {
        cr_expect(io->offset % BLOCK == 0 && io->nbytes % BLOCK == 0);
        cr_expect(io->memory != NULL && (uintptr_t)io->memory % NXR_STORAGE_MEMORY_NBYTES == 0);
    }
    if (next_result < n_results && results[next_result] < 0) {
        return results[next_result++];
    }
    if (next_result < n_results) {
        nbytes = (size_t)results[next_result++];
    }
    if (io->action == NXR_STORAGE_READ) {
        memcpy(io->memory, content + io->offset, nbytes);
    } else if (io->action == NXR_STORAGE_WRITE) {
        memcpy(content + io->offset, io->memory, nbytes);
    } else {
        n_synced++;
        return 0;
    }
    return (int64_t)nbytes;
}

static void fake_submit(struct nxr_storage_io *list, bool has_more)
{
    cr_expect(not(has_more));
    while (list != NULL) {
        struct nxr_storage_io *io = list;

        list = io->next;
        io->result = fake_do(io);
        io->ended(io);
    }
}

static const struct nxr_storage_engine fake = {.submit = fake_submit};
static const struct nxr_storage_file through = {&fake, FD, -1, -1, -1, BLOCK};
static const struct nxr_storage_file past = {&fake, FD, DIRECT_FD, -1, -1, BLOCK};

static void set_up(void)
{
    for (size_t i = 0; i < FILE_NBYTES; i++) {
        content[i] = (char)(i * 7 + i / 4096);
    }
    memset(bytes, 0, sizeof(bytes));
    n_requests = n_direct = most_nbytes = n_synced = n_results = next_result = 0;
}

TestSuite(storage_move, .init = set_up);

static void tell(size_t n, const int64_t *told)
{
    memcpy(results, told, n * sizeof(told[0]));
    n_results = n;
}

static int get(const struct nxr_storage_file *file, uint64_t offset, char *into, uint64_t nbytes)
{
    int error = nxr_storage_run(file, false, offset, into, nbytes);

    cr_expect(error != 0 || memcmp(into, content + offset, nbytes) == 0);
    return error;
}

Test(storage_move, long_ones_are_cut)
{
    cr_expect(eq(sz, nxr_storage_count(&through, 5, 2 << 20), 2));
    cr_expect(eq(int, get(&through, 5, bytes, (2 << 20) + 1), 0));
    cr_expect(eq(sz, n_requests, 3));
    cr_expect(eq(sz, most_nbytes, 1 << 20));
    cr_expect(eq(int, nxr_storage_run(&through, true, 9, bytes, 0), 0));
    cr_expect(eq(sz, n_requests, 3));
}

Test(storage_move, only_whole_blocks_are_direct)
{
    /* An unaligned begin, whole blocks, an unaligned end; each in memory that is not aligned. */
    cr_expect(eq(int, get(&past, 4000, bytes + 1, 3 * BLOCK), 0));
    cr_expect(eq(sz, n_requests, 3));
    cr_expect(eq(sz, n_direct, 1));
    cr_expect(eq(int, get(&past, 8192, bytes + 1, 100), 0)); /* less than a block */
    cr_expect(eq(sz, n_direct, 1));
    memset(bytes, 'x', sizeof(bytes));
    cr_expect(eq(int, nxr_storage_run(&past, true, 4000, bytes + 1, 2 * BLOCK), 0));
    cr_expect(content[3999] != 'x' && content[4000] == 'x');
    cr_expect(content[3999 + 2 * BLOCK] == 'x' && content[4000 + 2 * BLOCK] != 'x');
}

Test(storage_move, what_is_left_is_begun_again)
{
    const int64_t parts[] = {1000, -EAGAIN, -EINTR, -ECANCELED, 1};
    const int64_t direct_parts[] = {BLOCK, 100, 50};

    tell(5, parts);
    cr_expect(eq(int, get(&through, 100, bytes, 5000), 0));
    cr_expect(eq(sz, n_requests, 6));
    /* Direct I/O goes on behind whole blocks; behind a part of one, through the page cache. */
    n_requests = next_result = 0;
    tell(3, direct_parts);
    cr_expect(eq(int, get(&past, 0, bytes, 4 * BLOCK), 0));
    cr_expect(eq(sz, n_requests, 4));
    cr_expect(eq(sz, n_direct, 2));
}

Test(storage_move, what_direct_io_refuses_goes_through_the_page_cache)
{
    const int64_t refused[] = {-EINVAL};

    tell(1, refused);
    cr_expect(eq(int, get(&past, 0, bytes, BLOCK), 0));
    cr_expect(eq(sz, n_requests, 2));
    cr_expect(eq(sz, n_direct, 1));
    next_result = 0;
    cr_expect(eq(int, get(&through, 0, bytes, BLOCK), EINVAL));
}

Test(storage_move, failures)
{
    const int64_t failed[] = {10, -EIO}, nothing[] = {0};

    tell(2, failed);
    cr_expect(eq(int, get(&through, 0, bytes, 100), EIO));
    cr_expect(eq(int, get(&through, FILE_NBYTES - 10, bytes, 11), ENODATA));
    cr_expect(eq(int, get(&past, FILE_NBYTES - BLOCK, bytes, 2 * BLOCK), ENODATA));
    next_result = 0;
    tell(1, nothing);
    cr_expect(eq(int, nxr_storage_run(&through, true, 0, bytes, 10), EIO));
}

static void synced(struct nxr_storage_move *move, int error)
{
    *(int *)move->owner = error;
}

Test(storage_move, a_sync_is_tried_again)
{
    const int64_t told[] = {-ECANCELED};
    int error = -1;
    const struct nxr_storage_moving moving = {&past, true, &error, synced};
    struct nxr_storage_move move;

    tell(1, told);
    nxr_storage_cut_sync(&moving, &move);
    nxr_storage_begin(&move, 1, false);
    cr_expect(eq(int, error, 0));
    cr_expect(eq(sz, n_synced, 1));
    cr_expect(eq(sz, n_direct, 0));
    nxr_storage_clear(&move, 1);
}

/* A file of a directory, past the page cache if it can, by the calling thread. */
Test(storage_move, a_file_of_a_directory)
{
    const struct nxr_object_settings settings = {
        .n_descriptors = 1, .is_direct = true, .files = &nxr_storage_blocking};
    char path[] = "/tmp/nixlrun-move.XXXXXX";
    int fd = mkstemp(path);
    struct nxr_opened_cache cache;
    struct nxr_opened *opened;

    cr_assert(fd >= 0);
    nxr_opened_cache_init(&cache, -1, &settings);
    opened = nxr_opened_add(&cache, "file", fd, true);
    cr_assert(opened != NULL);
    cr_expect(eq(int, nxr_storage_run(&opened->file, true, 3, content, FILE_NBYTES - 5), 0));
    cr_expect(eq(int, nxr_storage_run(&opened->file, false, 3, bytes + 1, FILE_NBYTES - 5), 0));
    cr_expect(eq(int, memcmp(bytes + 1, content, FILE_NBYTES - 5), 0));
    cr_expect(eq(int, nxr_storage_run(&opened->file, false, 3, bytes, FILE_NBYTES), ENODATA));
    nxr_opened_release(&cache, opened);
    nxr_opened_cache_end(&cache);
    cr_expect(eq(int, unlink(path), 0));
}
