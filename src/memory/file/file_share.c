/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that ranks of one host read themselves. The owner hands out a descriptor that only reads;
 * whoever has opened the region reads by it, with the engine of its own process, and asks the owner
 * for all else. The owner's close waits for such reads as for any copy (src/memory/move.c).
 *
 * A descriptor reads the whole file, so only a region that is the whole file has one, and none
 * whose peers may not get. Both sides read alike, past the page cache or through it. Lock:
 * job.lock, which callers of import and unimport hold.
 */
#include "config.h"

#include "core/route.h"
#include "memory/file/file.h"
#include "memory/file/kind.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What counts as the first byte of a file that has no addresses here. */
#define NOWHERE ((char *)(uintptr_t)4096)

#define READS (O_RDONLY | O_CLOEXEC | O_NOCTTY)

/* ---- the owner ------------------------------------------------------------------------------- */

/* Without a descriptor that only reads, peers ask this rank. */
void nxr_file_share(struct nxr_memory *memory)
{
    const struct nxr_file *file = nxr_file_of(memory->range);
    int fd;

    if ((memory->access & NIXL_ACCESS_NO_GET) != 0 || file->start != 0 ||
        file->nbytes < file->first_nbytes) {
        return;
    }
    fd = nxr_file_reopen(file->opened.fd, READS);
    if (fd < 0) {
        nxr_info(MEMORY, "%s: peers do not read it themselves: cannot open it again: %m",
                 file->path);
        return;
    }
    memory->fd = fd;
    memory->export = (struct nxr_export){
        .type = NXR_EXPORT_FILE, .nbytes = file->nbytes, .is_direct = file->opened.direct_fd >= 0};
}

/* ---- a peer ---------------------------------------------------------------------------------- */

/* Does the descriptor only read, and what can be a region? It comes from a peer. */
static bool share_is_sound(int fd, struct stat *stat)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && (flags & (O_ACCMODE | O_PATH | O_DIRECT)) == O_RDONLY &&
           fstat(fd, stat) == 0 && (S_ISREG(stat->st_mode) || S_ISBLK(stat->st_mode));
}

static void share_free(struct nxr_file *file)
{
    if (file->opened.direct_fd >= 0) {
        close(file->opened.direct_fd);
    }
    if (file->opened.fd >= 0) {
        close(file->opened.fd);
    }
    free(file->range);
    free(file);
}

/* Open the file behind a peer's descriptor. NULL, and errno: it cannot be. */
static struct nxr_file *share_open(const struct nxr_segment *segment, int fd,
                                   const struct stat *stat)
{
    struct nxr_file *file;
    char path[4096];

    nxr_file_path_of(fd, path, sizeof(path));
    file = nxr_file_new(path);
    if (file == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    file->is_read_only = true;
    file->is_block_device = S_ISBLK(stat->st_mode);
    file->base = NOWHERE;
    file->start = segment->export.offset;
    file->nbytes = segment->nbytes;
    file->range = calloc(1, sizeof(*file->range));
    file->opened.fd = file->range != NULL ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (file->opened.fd < 0 ||
        (segment->export.is_direct && !nxr_file_open_direct(file, READS | O_DIRECT))) {
        int error = file->range != NULL ? errno : ENOMEM;

        share_free(file);
        errno = error;
        return NULL;
    }
    *file->range = (struct nxr_range){.addr = (uintptr_t)file->base,
                                      .nbytes = file->nbytes,
                                      .kind = &nxr_memory_file,
                                      .memory = file};
    return file;
}

int nxr_file_import(struct nxr_segment *segment, int fd)
{
    struct nxr_file *file;
    struct nxr_key by;
    struct stat stat;

    if (segment->export.type != NXR_EXPORT_FILE || !share_is_sound(fd, &stat)) {
        snprintf(segment->note, sizeof(segment->note), "its owner reads and writes it");
        return NIXL_E_UNSUPPORTED;
    }
    file = share_open(segment, fd, &stat);
    if (file == NULL) {
        snprintf(segment->note, sizeof(segment->note), "this rank cannot open it: %s",
                 strerror(errno));
        return NIXL_E_UNSUPPORTED;
    }
    nxr_file_use_engine(file);
    by = (struct nxr_key){.marks = nxr_storage_marks(file->opened.engine->name)};
    segment->read_by = nxr_key_storage(&by);
    segment->addr = file->base;
    segment->readable = file->range;
    return NIXL_OK;
}

/* `readable` stays: threads that come too late compare it only. */
void nxr_file_unimport(struct nxr_segment *segment)
{
    struct nxr_file *file = nxr_file_of(segment->readable);

    nxr_file_leave_engine(file);
    share_free(file);
}
