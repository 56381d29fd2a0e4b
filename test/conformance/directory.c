/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments that are files of a directory, which are written in place: several if they can be, so
 * that puts and gets cross their ends. The directory is removed with the segment. Where guarantees
 * look at it with the processor, the files are mapped side by side.
 */
#include "config.h"

#include "conformance.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_FILES 4

/* The path of one, named as it is without keys. */
static void path_of_file(const struct segment *segment, unsigned i, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%016x", segment->directory, i);
}

static void make_files(struct segment *segment, size_t file_nbytes)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    char path[PATH_MAX];

    if (conf.is_mapped) {
        segment->bytes = mmap(NULL, segment->nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MPT_TRUE(segment->bytes != MAP_FAILED);
    }
    for (unsigned i = 0; i < segment->n_files; i++) {
        int fd;

        path_of_file(segment, i, path);
        fd = open(path, flags, 0600);
        MPT_TRUE(fd >= 0);
        MPT_EQ(ftruncate(fd, (off_t)file_nbytes), 0);
        if (conf.is_mapped) {
            MPT_TRUE(mmap(segment->bytes + i * file_nbytes, file_nbytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
        }
        MPT_EQ(close(fd), 0);
    }
}

struct segment conf_directory_segment(const char *name, size_t nbytes, uint32_t access)
{
    const size_t unit = conf.is_mapped ? (size_t)sysconf(_SC_PAGESIZE) : 1;
    struct nixl_directory_params params = NIXL_DIRECTORY_PARAMS_INIT;
    struct segment segment = {.nbytes = nbytes, .n_files = MOST_FILES};
    const char *base = getenv("TMPDIR");

    while (nbytes % (segment.n_files * unit) != 0 && segment.n_files > 1) {
        segment.n_files--;
    }
    MPT_TRUE(asprintf(&segment.directory, "%s/conformance-XXXXXX", base != NULL ? base : "/tmp") >
             0);
    MPT_TRUE(mkdtemp(segment.directory) != NULL);
    make_files(&segment, nbytes / segment.n_files);
    params.flags = NIXL_DIRECTORY_IN_PLACE | (conf.is_direct ? NIXL_DIRECTORY_DIRECT : 0);
    params.access = access;
    params.nobjects = segment.n_files;
    params.object_nbytes = nbytes / segment.n_files;
    params.ndescriptors = MOST_FILES - 1; /* not all of them stay open */
    MPT_OK(nixl_region_open_directory(name, segment.directory, &params, &segment.region));
    MPT_TRUE(nixl_region_addr(segment.region) == NULL);
    return segment;
}

void conf_directory_remove(struct segment *segment)
{
    char path[PATH_MAX];

    if (segment->directory == NULL) {
        return; /* this rank has none */
    }
    if (segment->bytes != NULL) {
        MPT_EQ(munmap(segment->bytes, segment->nbytes), 0);
    }
    for (unsigned i = 0; i < segment->n_files; i++) {
        path_of_file(segment, i, path);
        MPT_EQ(unlink(path), 0);
    }
    MPT_EQ(rmdir(segment->directory), 0);
    free(segment->directory);
}
