/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments that are files. They have no name in the file system, so that nothing is left of them,
 * except for those with direct I/O, which cuFile opens again by their names. Where guarantees look
 * at them with the processor, a mapping of the file shows their bytes.
 */
#include "config.h"

#include "conformance.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Open a new file in TMPDIR, which has a name if path_p is not NULL. */
static int file_new(char **path_p)
{
    const char *dir = getenv("TMPDIR");
    char path[4096];

    dir = dir != NULL ? dir : "/tmp";
    if (path_p == NULL) {
        return open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    }
    snprintf(path, sizeof(path), "%s/conformance.XXXXXX", dir);
    *path_p = strdup(path);
    return mkostemp(*path_p, O_CLOEXEC);
}

struct segment conf_file_segment(const char *name, size_t nbytes, uint32_t access)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct segment segment = {.nbytes = nbytes};

    params.fd = file_new(conf.is_direct ? &segment.path : NULL);
    MPT_TRUE(params.fd >= 0);
    params.nbytes = nbytes;
    params.access = access;
    params.flags = conf.is_direct ? NIXL_FILE_DIRECT : 0;
    MPT_OK(nixl_region_open_file(name, NULL, &params, &segment.region));
    MPT_TRUE(nixl_region_addr(segment.region) == NULL);
    if (conf.is_mapped) {
        segment.bytes = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, params.fd, 0);
        MPT_TRUE(segment.bytes != MAP_FAILED);
    }
    MPT_EQ(close(params.fd), 0);
    return segment;
}

void conf_file_unmap(struct segment *segment)
{
    if (segment->bytes != NULL) {
        MPT_EQ(munmap(segment->bytes, segment->nbytes), 0);
    }
    if (segment->path != NULL) {
        MPT_EQ(unlink(segment->path), 0);
        free(segment->path);
    }
}
