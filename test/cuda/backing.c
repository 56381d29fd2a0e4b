/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that processes can share: a memfd whose first page says what it is and which processes have
 * it open, so that an owner that frees too early is detected. Reference counts are under the lock.
 */
#define _GNU_SOURCE
#include "test/cuda/fake.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HEAD_MAGIC  0x6b61466144554346U
#define NAME_MAGIC  0x656d614e61447543U
#define FRESH_BYTE  0xa5 /* what fresh memory holds: the driver promises nothing */
#define MAX_SCRIBED ((size_t)1 << 20)

struct name {
    uint64_t magic;
    uint64_t serial;
    int pid;
    int fd;
};

static _Atomic uint32_t n_made;

static struct fake_backing *map(int fd, size_t nbytes)
{
    struct fake_backing *backing = calloc(1, sizeof(*backing));
    size_t whole = FAKE_HEAD_NBYTES + nbytes;
    void *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (backing == NULL || memory == MAP_FAILED) {
        if (memory != MAP_FAILED) {
            munmap(memory, whole);
        }
        free(backing);
        return NULL;
    }
    backing->head = memory;
    backing->bytes = (char *)memory + FAKE_HEAD_NBYTES;
    backing->nbytes = nbytes;
    backing->fd = fd;
    backing->n_refs = 1;
    return backing;
}

struct fake_backing *fake_backing_new(size_t nbytes, int device, int handle_types)
{
    struct fake_backing *backing = NULL;
    int fd = memfd_create("stand-in GPU", MFD_CLOEXEC);

    nbytes = (nbytes + 4095) / 4096 * 4096;
    if (fd >= 0 && ftruncate(fd, (off_t)(FAKE_HEAD_NBYTES + nbytes)) == 0) {
        backing = map(fd, nbytes);
    }
    if (backing == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return NULL;
    }
    memset(backing->bytes, FRESH_BYTE, nbytes < MAX_SCRIBED ? nbytes : MAX_SCRIBED);
    backing->head->magic = HEAD_MAGIC;
    backing->head->serial = ((uint64_t)getpid() << 32) + ++n_made;
    backing->head->nbytes = nbytes;
    backing->head->device = device;
    backing->head->handle_types = handle_types;
    return backing;
}

struct fake_backing *fake_backing_of_fd(int fd)
{
    struct fake_backing *backing;
    struct stat status;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    if (own < 0) {
        return NULL;
    }
    if (fstat(own, &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size <= FAKE_HEAD_NBYTES) {
        close(own);
        return NULL;
    }
    backing = map(own, (size_t)status.st_size - FAKE_HEAD_NBYTES);
    if (backing == NULL) {
        close(own);
        return NULL;
    }
    backing->is_import = true;
    if (backing->head->magic != HEAD_MAGIC || backing->head->nbytes != backing->nbytes) {
        fake_backing_unref(backing);
        return NULL;
    }
    return backing;
}

void fake_backing_ref(struct fake_backing *backing)
{
    ++backing->n_refs;
}

void fake_backing_unref(struct fake_backing *backing)
{
    if (--backing->n_refs == 0) {
        munmap(backing->head, FAKE_HEAD_NBYTES + backing->nbytes);
        close(backing->fd);
        free(backing);
    }
}

void fake_backing_name(const struct fake_backing *backing, struct cu_ipc_handle *handle_p)
{
    struct name name = {NAME_MAGIC, backing->head->serial, getpid(), backing->fd};

    memset(handle_p, 0, sizeof(*handle_p));
    memcpy(handle_p, &name, sizeof(name));
}

struct fake_backing *fake_backing_of_name(const struct cu_ipc_handle *handle)
{
    struct fake_backing *backing = NULL;
    struct name name;
    char path[64];
    int fd;

    memcpy(&name, handle, sizeof(name));
    if (name.magic != NAME_MAGIC) {
        return NULL;
    }
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", name.pid, name.fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        backing = fake_backing_of_fd(fd);
        close(fd);
    }
    if (backing != NULL &&
        (backing->head->serial != name.serial || atomic_load(&backing->head->is_freed))) {
        fake_backing_unref(backing);
        backing = NULL;
    }
    return backing;
}

bool fake_backing_import(struct fake_backing *backing)
{
    int none;

    for (int i = 0; i < FAKE_IMPORTERS; ++i) {
        none = 0;
        if (atomic_compare_exchange_strong(&backing->head->importers[i], &none, getpid())) {
            return true;
        }
    }
    return false;
}

void fake_backing_unimport(struct fake_backing *backing)
{
    int own;

    for (int i = 0; i < FAKE_IMPORTERS; ++i) {
        own = getpid();
        if (atomic_compare_exchange_strong(&backing->head->importers[i], &own, 0)) {
            return;
        }
    }
    fake_misuse("memory was closed more often than it was opened");
}

/* Is that process gone, or on its way? One that was killed may still hold what it had. */
static bool is_dead(int pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd poll_it = {pidfd, POLLIN, 0};
    bool is_over;

    if (pidfd < 0) {
        return true;
    }
    is_over = poll(&poll_it, 1, fake_settings.dying_ms) == 1;
    close(pidfd);
    return is_over;
}

void fake_backing_check_closed(const struct fake_backing *backing, const char *function)
{
    int pid;

    atomic_store(&backing->head->is_freed, 1);
    for (int i = 0; i < FAKE_IMPORTERS; ++i) {
        pid = atomic_load(&backing->head->importers[i]);
        if (pid != 0 && pid != getpid() && !is_dead(pid)) {
            fake_misuse("%s(): process %d still has the memory open", function, pid);
        }
    }
}
