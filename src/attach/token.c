/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the token. No state, no lock. */
#include "config.h"

#include "attach/token.h"
#include "nixlrun.h"
#include "util/env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOW_TO "openssl rand -hex 32 makes a good one"

/* Can the file be read by others, or written by its group? A group may read it. */
static int token_check_owner(const char *variable, const char *path, const struct stat *info,
                             char why[NXR_ATTACH_TOKEN_WHY_NBYTES])
{
    if (info->st_uid != geteuid() && info->st_uid != 0) {
        snprintf(why, NXR_ATTACH_TOKEN_WHY_NBYTES,
                 "%s: '%.200s' belongs to user %u; allowed: this user, %u, or root", variable, path,
                 info->st_uid, geteuid());
        return NIXL_E_ACCESS;
    }
    if (!S_ISREG(info->st_mode) || (info->st_mode & 027) != 0) {
        snprintf(why, NXR_ATTACH_TOKEN_WHY_NBYTES,
                 "%s: '%.200s' must be a file of mode 0600 or 0640, which others "
                 "cannot read; its mode is %04o",
                 variable, path, info->st_mode & 07777);
        return NIXL_E_ACCESS;
    }
    return NIXL_OK;
}

/* The length without newlines at the end. */
static size_t secret_nbytes(const char *bytes, size_t nbytes)
{
    while (nbytes > 0 && (bytes[nbytes - 1] == '\n' || bytes[nbytes - 1] == '\r')) {
        nbytes--;
    }
    return nbytes;
}

int nxr_attach_secret_read(const char *variable, const char *path, char *bytes, size_t room,
                           size_t *nbytes_p, char why[NXR_ATTACH_TOKEN_WHY_NBYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error = errno, status;
    struct stat info;
    ssize_t got;

    if (fd < 0) {
        snprintf(why, NXR_ATTACH_TOKEN_WHY_NBYTES, "%s: cannot open '%.200s': %s", variable, path,
                 strerror(error));
        return error == EACCES ? NIXL_E_ACCESS : NIXL_E_NOT_FOUND;
    }
    status =
        fstat(fd, &info) == 0 ? token_check_owner(variable, path, &info, why) : NIXL_E_TRANSPORT;
    got = status == NIXL_OK ? read(fd, bytes, room) : 0;
    if (got < 0) {
        snprintf(why, NXR_ATTACH_TOKEN_WHY_NBYTES, "%s: cannot read '%.200s': %s", variable, path,
                 strerror(errno));
        status = NIXL_E_TRANSPORT;
    }
    close(fd);
    *nbytes_p = secret_nbytes(bytes, got > 0 ? (size_t)got : 0);
    return status;
}

int nxr_attach_token_read(unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                          char why[NXR_ATTACH_TOKEN_WHY_NBYTES])
{
    char bytes[NXR_ATTACH_TOKEN_MAX_NBYTES +
               2]; /* with the newline of a file; a longer one is noticed */
    const char *path = nxr_env.token_file;
    size_t nbytes = strnlen(nxr_env.token, sizeof(bytes));
    int status = NIXL_OK;

    if (nbytes > 0 && path[0] != '\0') {
        snprintf(why, NXR_ATTACH_TOKEN_WHY_NBYTES,
                 "NIXLRUN_TOKEN and NIXLRUN_TOKEN_FILE are both set; allowed: one of them");
        return NIXL_E_INVALID_ARG;
    }
    if (nbytes == 0 && path[0] == '\0') {
        snprintf(why, NXR_ATTACH_TOKEN_WHY_NBYTES,
                 "there is no token: set NIXLRUN_TOKEN_FILE to a file of mode 0600 that both sides "
                 "have, or NIXLRUN_TOKEN; " HOW_TO);
        return NIXL_E_ACCESS;
    }
    memcpy(bytes, nxr_env.token, nbytes);
    if (path[0] != '\0') {
        status =
            nxr_attach_secret_read("NIXLRUN_TOKEN_FILE", path, bytes, sizeof(bytes), &nbytes, why);
    }
    nbytes = secret_nbytes(bytes, nbytes);
    if (status == NIXL_OK &&
        (nbytes < NXR_ATTACH_TOKEN_MIN_NBYTES || nbytes > NXR_ATTACH_TOKEN_MAX_NBYTES)) {
        snprintf(why, NXR_ATTACH_TOKEN_WHY_NBYTES,
                 "the token has %zu bytes; allowed: %d to %d; " HOW_TO, nbytes,
                 NXR_ATTACH_TOKEN_MIN_NBYTES, NXR_ATTACH_TOKEN_MAX_NBYTES);
        status = NIXL_E_INVALID_ARG;
    }
    if (status == NIXL_OK) {
        nxr_proof_secret_of_token(bytes, nbytes, secret);
    }
    explicit_bzero(bytes, sizeof(bytes));
    return status;
}
