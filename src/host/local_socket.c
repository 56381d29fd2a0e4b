/* SPDX-License-Identifier: Apache-2.0 */
/* Names, addresses and files of local sockets. No state, no lock. */
#include "config.h"

#include "host/local_socket.h"
#include "nixlrun.h"
#include "util/env.h"
#include "util/log.h"
#include "util/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FILE_PREFIX  "nixlrun-"
#define FILE_SUFFIX  ".socket"
#define NEW_SUFFIX   ".new" /* bound, and does not listen yet */
#define NEW_SECONDS  10     /* how long it may be so */
#define NAME_NBYTES  80
#define TYPE_OF_OURS (SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK)

struct local_name {
    char text[NAME_NBYTES];
};

/* "nixlrun-rank-0123...": the abstract name, and the file's without its suffix. */
static struct local_name local_name_of(const char *what, const unsigned char *nonce)
{
    struct local_name name;
    int used = snprintf(name.text, sizeof(name.text), FILE_PREFIX "%s-", what);

    for (int i = 0; i < NXR_NONCE_NBYTES; i++) {
        used += snprintf(name.text + used, sizeof(name.text) - (size_t)used, "%02x", nonce[i]);
    }
    return name;
}

static socklen_t address_abstract(const struct local_name *name, struct sockaddr_un *address)
{
    size_t nbytes = strlen(name->text);

    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + 1, name->text, nbytes);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + nbytes);
}

/* ---- the shared folder ----------------------------------------------------------------------- */

static bool has_shared_dir(void)
{
    return nxr_env.shared_dir != NULL && nxr_env.shared_dir[0] != '\0';
}

/* The address of a file in the folder, which is open as `dir_fd` if its path is too long. */
static socklen_t address_of_file(int dir_fd, const char *file, struct sockaddr_un *address)
{
    size_t nbytes = strlen(nxr_env.shared_dir) + 1 + strlen(file);

    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    if (nbytes < sizeof(address->sun_path)) {
        snprintf(address->sun_path, sizeof(address->sun_path), "%s/%s", nxr_env.shared_dir, file);
    } else {
        snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/%s", dir_fd, file);
    }
    return sizeof(*address);
}

static int shared_dir_open(void)
{
    return open(nxr_env.shared_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Is a socket bound to that address? A connection of another type is refused otherwise. */
static bool address_is_bound(const struct sockaddr_un *address, socklen_t nbytes)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_bound = fd < 0; /* if in doubt */

    if (fd >= 0) {
        is_bound =
            connect(fd, (const struct sockaddr *)address, nbytes) != 0 && errno == EPROTOTYPE;
        close(fd);
    }
    return is_bound;
}

/* Is it the file of a socket of this user whose process has ended? */
static bool file_is_left(int dir_fd, const char *file)
{
    size_t nbytes = strlen(file), suffix = strlen(FILE_SUFFIX), new_suffix = strlen(NEW_SUFFIX);
    bool is_new = nbytes > new_suffix && strcmp(file + nbytes - new_suffix, NEW_SUFFIX) == 0;
    struct sockaddr_un address;
    struct stat info;

    nbytes -= is_new ? new_suffix : 0;
    if (strncmp(file, FILE_PREFIX, strlen(FILE_PREFIX)) != 0 || nbytes < suffix ||
        strncmp(file + nbytes - suffix, FILE_SUFFIX, suffix) != 0 || nbytes >= NAME_NBYTES ||
        fstatat(dir_fd, file, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISSOCK(info.st_mode) ||
        info.st_uid != geteuid() || (is_new && info.st_mtime + NEW_SECONDS > time(NULL))) {
        return false;
    }
    return !address_is_bound(&address, address_of_file(dir_fd, file, &address));
}

/* Remove what killed processes have left there. */
static void shared_dir_sweep(int dir_fd)
{
    DIR *files = opendir(nxr_env.shared_dir);
    const struct dirent *file;

    while (files != NULL && (file = readdir(files)) != NULL) {
        if (file_is_left(dir_fd, file->d_name)) {
            unlinkat(dir_fd, file->d_name, 0);
        }
    }
    if (files != NULL) {
        closedir(files);
    }
}

/* ---- listening ------------------------------------------------------------------------------- */

/* -1, with errno: no. */
static int listen_at(const struct sockaddr_un *address, socklen_t nbytes)
{
    int fd = socket(AF_UNIX, TYPE_OF_OURS, 0), error;

    if (fd >= 0 &&
        (bind(fd, (const struct sockaddr *)address, nbytes) != 0 || listen(fd, SOMAXCONN) != 0)) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* It gets its name when it listens: a name of which nobody listens is taken for a left one. */
static int listen_in(int dir_fd, const char *file)
{
    char aside[NAME_NBYTES + sizeof(FILE_SUFFIX NEW_SUFFIX)];
    struct sockaddr_un address;
    socklen_t nbytes;
    int fd, error;

    snprintf(aside, sizeof(aside), "%s" NEW_SUFFIX, file);
    nbytes = address_of_file(dir_fd, aside, &address);
    fd = listen_at(&address, nbytes);
    if (fd >= 0 &&
        (fchmodat(dir_fd, aside, 0600, 0) != 0 || renameat(dir_fd, aside, dir_fd, file) != 0)) {
        error = errno;
        unlinkat(dir_fd, aside, 0);
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int listen_shared(const struct local_name *name, struct nxr_local_socket *socket)
{
    char file[NAME_NBYTES + sizeof(FILE_SUFFIX)];
    int dir_fd = shared_dir_open(), error = errno;

    snprintf(file, sizeof(file), "%s" FILE_SUFFIX, name->text);
    if (dir_fd >= 0) {
        shared_dir_sweep(dir_fd);
        socket->fds[1] = listen_in(dir_fd, file);
        error = errno;
        close(dir_fd);
    }
    if (socket->fds[1] < 0) {
        nxr_error(HOST,
                  "cannot make a socket in NIXLRUN_SHARED_DIR, '%s': %s; allowed: a folder of a "
                  "local file system in which this user may make files",
                  nxr_env.shared_dir, strerror(error));
        return nxr_status_of_errno(error);
    }
    if (asprintf(&socket->path, "%s/%s", nxr_env.shared_dir, file) < 0) {
        socket->path = NULL;
        return NIXL_E_NO_MEMORY;
    }
    return NIXL_OK;
}

int nxr_local_socket_listen(const char *what, const unsigned char nonce[NXR_NONCE_NBYTES],
                            struct nxr_local_socket *socket_p)
{
    struct local_name name = local_name_of(what, nonce);
    struct nxr_local_socket socket = NXR_LOCAL_SOCKET_NONE;
    struct sockaddr_un address;
    socklen_t nbytes = address_abstract(&name, &address);
    int status = NIXL_OK;

    socket.fds[0] = listen_at(&address, nbytes);
    if (socket.fds[0] < 0) {
        nxr_error(HOST, "cannot listen on a socket: %m");
        return nxr_status_of_errno(errno);
    }
    if (has_shared_dir()) {
        status = listen_shared(&name, &socket);
    }
    if (status != NIXL_OK) {
        nxr_local_socket_close(&socket);
    }
    *socket_p = socket;
    return status;
}

void nxr_local_socket_close(struct nxr_local_socket *socket)
{
    if (socket->path != NULL) {
        unlink(socket->path);
        free(socket->path);
        socket->path = NULL;
    }
    for (int i = 0; i < NXR_LOCAL_ADDRESSES; i++) {
        if (socket->fds[i] >= 0) {
            close(socket->fds[i]);
            socket->fds[i] = -1;
        }
    }
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* NIXL_OK: it listens there, and `fd` is connected to it; NIXL_E_AGAIN; NIXL_E_PEER_LOST. */
static int connect_at(int fd, const struct sockaddr_un *address, socklen_t nbytes)
{
    if (connect(fd, (const struct sockaddr *)address, nbytes) == 0) {
        return NIXL_OK;
    }
    return errno == EAGAIN ? NIXL_E_AGAIN : NIXL_E_PEER_LOST;
}

/* The address in the shared folder, while *dir_fd_p is open; 0: there is none. */
static socklen_t address_shared(const struct local_name *name, struct sockaddr_un *address,
                                int *dir_fd_p)
{
    char file[NAME_NBYTES + sizeof(FILE_SUFFIX)];

    *dir_fd_p = has_shared_dir() ? shared_dir_open() : -1;
    snprintf(file, sizeof(file), "%s" FILE_SUFFIX, name->text);
    return *dir_fd_p >= 0 ? address_of_file(*dir_fd_p, file, address) : 0;
}

int nxr_local_socket_connect(const char *what, const unsigned char nonce[NXR_NONCE_NBYTES],
                             int *fd_p)
{
    struct local_name name = local_name_of(what, nonce);
    struct sockaddr_un address;
    socklen_t nbytes = address_abstract(&name, &address);
    int fd = socket(AF_UNIX, TYPE_OF_OURS, 0), dir_fd, status;

    if (fd < 0) {
        return NIXL_E_LIMIT;
    }
    status = connect_at(fd, &address, nbytes);
    if (status == NIXL_E_PEER_LOST) {
        nbytes = address_shared(&name, &address, &dir_fd);
        if (nbytes > 0) {
            status = connect_at(fd, &address, nbytes);
            close(dir_fd);
        }
    }
    if (status != NIXL_OK) {
        close(fd);
        return status;
    }
    *fd_p = fd;
    return NIXL_OK;
}

bool nxr_local_socket_is_there(const char *what, const unsigned char nonce[NXR_NONCE_NBYTES])
{
    struct local_name name = local_name_of(what, nonce);
    struct sockaddr_un address;
    socklen_t nbytes = address_abstract(&name, &address);
    bool is_there = address_is_bound(&address, nbytes);
    int dir_fd;

    if (!is_there) {
        nbytes = address_shared(&name, &address, &dir_fd);
        if (nbytes > 0) {
            is_there = address_is_bound(&address, nbytes);
            close(dir_fd);
        }
    }
    return is_there;
}

/* ---- bells ----------------------------------------------------------------------------------- */

#define BELL "bell"

int nxr_local_bell_open(const unsigned char nonce[NXR_NONCE_NBYTES])
{
    struct local_name name = local_name_of(BELL, nonce);
    struct sockaddr_un address;
    socklen_t nbytes = address_abstract(&name, &address);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

    if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, nbytes) != 0) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

bool nxr_local_bell_ring(int own_bell, const unsigned char nonce[NXR_NONCE_NBYTES])
{
    struct local_name name = local_name_of(BELL, nonce);
    struct sockaddr_un address;
    socklen_t nbytes = address_abstract(&name, &address);
    ssize_t n_sent = sendto(own_bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL,
                            (const struct sockaddr *)&address, nbytes);

    return n_sent >= 0 || errno == EAGAIN; /* it has not read what many have sent */
}
