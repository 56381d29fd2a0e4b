/* SPDX-License-Identifier: Apache-2.0 */
/* Making, checking and mapping control pages. No state of its own, no lock. */
#include "config.h"

#include "core/control.h"
#include "util/barrier.h"
#include "util/file_limit.h"
#include "util/log.h"
#include "util/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMFD_NAME "nixlrun-control"
#define RINGS_NAME "nixlrun-rings"
#define SEALS      (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)

/* The rings of one sender. */
#define LANE_NBYTES (NXR_RING_NBYTES + NXR_ATOMICS_NBYTES)

static size_t page_round(size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (nbytes + page - 1) / page * page;
}

size_t nxr_control_head_nbytes(int size)
{
    return page_round(sizeof(struct nxr_control) + (size_t)size * sizeof(struct nxr_ring_credit));
}

static size_t ring_offset(int size, int sender)
{
    return nxr_control_head_nbytes(size) + (size_t)sender * LANE_NBYTES;
}

size_t nxr_control_nbytes(int size)
{
    return ring_offset(size, size);
}

static void init_mutex(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

int nxr_control_create(const struct nxr_identity *owner, int size,
                       const unsigned char nonce[NXR_NONCE_NBYTES], struct nxr_control **control_p,
                       int *fd_p)
{
    size_t nbytes = nxr_control_nbytes(size);
    struct nxr_control *control;
    int fd, status;

    fd = memfd_create(MEMFD_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        status = nxr_status_of_errno(errno);
        nxr_error(HOST, "cannot create the control page: %m");
        return status;
    }
    if (nxr_file_resize(fd, nbytes) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        status = nxr_status_of_errno(errno);
        nxr_error(HOST, "cannot size the control page to %zu bytes: %m%s", nbytes,
                  nxr_file_limit_note(errno));
        goto err_close;
    }
    control = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED) {
        status = nxr_status_of_errno(errno);
        nxr_error(HOST, "cannot map the control page of %zu bytes: %m", nbytes);
        goto err_close;
    }
    control->magic = NXR_CONTROL_MAGIC;
    control->version = NXR_CONTROL_VERSION;
    control->owner = *owner;
    control->size = size;
    control->needs_full_fence = nxr_barrier_is_full();
    control->self_addr = (uintptr_t)control;
    memcpy(control->nonce, nonce, NXR_NONCE_NBYTES);
    init_mutex(&control->alive);
    *control_p = control;
    *fd_p = fd;
    return NIXL_OK;

err_close:
    close(fd);
    return status;
}

bool nxr_control_is_in_process(void)
{
    static const char prefix[] = "/memfd:" MEMFD_NAME;
    DIR *fds = opendir("/proc/self/fd");
    const struct dirent *entry;
    bool is_there = false;

    while (fds != NULL && !is_there && (entry = readdir(fds)) != NULL) {
        char target[sizeof(prefix)];
        ssize_t nbytes = readlinkat(dirfd(fds), entry->d_name, target, sizeof(target));

        is_there = nbytes >= (ssize_t)sizeof(prefix) - 1 &&
                   memcmp(target, prefix, sizeof(prefix) - 1) == 0;
    }
    if (fds != NULL) {
        closedir(fds);
    }
    return is_there;
}

void nxr_control_destroy(struct nxr_control *control, int fd)
{
    munmap(control, nxr_control_nbytes(control->size));
    close(fd);
}

bool nxr_memfd_is_safe(int fd, size_t nbytes)
{
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &info) == 0 &&
           S_ISREG(info.st_mode) && info.st_size >= 0 && (size_t)info.st_size >= nbytes;
}

int nxr_control_map(int fd, const struct nxr_identity *owner, int size,
                    const unsigned char nonce[NXR_NONCE_NBYTES], struct nxr_control **control_p)
{
    struct nxr_control *control;

    if (!nxr_memfd_is_safe(fd, nxr_control_nbytes(size))) {
        nxr_warn(HOST, "%s sent a descriptor that is not a sealed control page; dropped",
                 nxr_identity_own_name(owner));
        return NIXL_E_TRANSPORT;
    }
    control = mmap(NULL, nxr_control_head_nbytes(size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED) {
        nxr_warn(HOST, "cannot map the control page of %s: %m", nxr_identity_own_name(owner));
        return NIXL_E_NO_MEMORY;
    }
    if (control->magic == NXR_CONTROL_MAGIC && control->version != NXR_CONTROL_VERSION) {
        nxr_warn(HOST, "the control page of %s is of version %u, here it is %u",
                 nxr_identity_own_name(owner), control->version, NXR_CONTROL_VERSION);
        nxr_control_unmap(control, size);
        return NIXL_E_TRANSPORT;
    }
    if (control->magic != NXR_CONTROL_MAGIC || !nxr_identity_is(&control->owner, owner) ||
        (size != 0 && control->size != size) ||
        memcmp(control->nonce, nonce, NXR_NONCE_NBYTES) != 0) {
        nxr_warn(HOST, "the control page of %s does not hold what the rank published",
                 nxr_identity_own_name(owner));
        nxr_control_unmap(control, size);
        return NIXL_E_TRANSPORT;
    }
    *control_p = control;
    return NIXL_OK;
}

void nxr_control_unmap(struct nxr_control *control, int size)
{
    munmap(control, nxr_control_head_nbytes(size));
}

struct nxr_ring_slot *nxr_control_map_ring(int fd, int size, int sender)
{
    void *ring = mmap(NULL, LANE_NBYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                      (off_t)ring_offset(size, sender));

    return ring == MAP_FAILED ? NULL : ring;
}

void nxr_control_unmap_ring(struct nxr_ring_slot *ring)
{
    munmap(ring, LANE_NBYTES);
}

struct nxr_atomic_slot *nxr_control_words(struct nxr_ring_slot *ring)
{
    return (struct nxr_atomic_slot *)((char *)ring + NXR_RING_NBYTES);
}

/* ---- rings ----------------------------------------------------------------------------------- */

struct nxr_rings nxr_control_own_rings(struct nxr_control *control, int sender)
{
    struct nxr_ring_slot *ring =
        (struct nxr_ring_slot *)((char *)control + ring_offset(control->size, sender));

    return (struct nxr_rings){&control->credits[sender], ring, nxr_control_words(ring)};
}

size_t nxr_rings_page_nbytes(void)
{
    return page_round(sizeof(struct nxr_ring_credit) + LANE_NBYTES);
}

/* The credit line comes first. */
static int rings_page_mmap(int fd, struct nxr_rings *rings_p)
{
    struct nxr_ring_credit *credit =
        mmap(NULL, nxr_rings_page_nbytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct nxr_ring_slot *ring = (struct nxr_ring_slot *)(credit + 1);

    if (credit == MAP_FAILED) {
        return nxr_status_of_errno(errno);
    }
    *rings_p = (struct nxr_rings){credit, ring, nxr_control_words(ring)};
    return NIXL_OK;
}

int nxr_rings_page_create(struct nxr_rings *rings_p, int *fd_p)
{
    int fd = memfd_create(RINGS_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int status;

    if (fd < 0) {
        return nxr_status_of_errno(errno);
    }
    status = nxr_file_resize(fd, nxr_rings_page_nbytes()) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0
                 ? nxr_status_of_errno(errno)
                 : rings_page_mmap(fd, rings_p);
    if (status != NIXL_OK) {
        close(fd);
        return status;
    }
    *fd_p = fd;
    return NIXL_OK;
}

int nxr_rings_page_map(int fd, struct nxr_rings *rings_p)
{
    return nxr_memfd_is_safe(fd, nxr_rings_page_nbytes()) ? rings_page_mmap(fd, rings_p)
                                                          : NIXL_E_TRANSPORT;
}

void nxr_rings_page_unmap(const struct nxr_rings *rings)
{
    munmap(rings->credit, nxr_rings_page_nbytes());
}
