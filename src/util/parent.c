/* SPDX-License-Identifier: Apache-2.0 */
/* Syncing the directory that has a name. */
#include "config.h"

#include "util/parent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The path without its last name; NULL: no memory. */
static char *path_of_parent(const char *path)
{
    size_t nbytes = strlen(path);

    while (nbytes > 0 && path[nbytes - 1] == '/') {
        nbytes--;
    }
    while (nbytes > 0 && path[nbytes - 1] != '/') {
        nbytes--;
    }
    return nbytes > 0 ? strndup(path, nbytes) : strdup(".");
}

int nxr_parent_sync(const char *path, const char **what_p)
{
    char *parent = path_of_parent(path);
    int fd, error;

    *what_p = "cannot make its name durable";
    if (parent == NULL) {
        return ENOMEM;
    }
    fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    error = fd < 0 ? errno : 0;
    free(parent);
    if (fd < 0) {
        *what_p = "cannot open its directory";
        return error == EACCES ? 0 : error;
    }
    error = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return error == EINVAL ? 0 : error;
}
