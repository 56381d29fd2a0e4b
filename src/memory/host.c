/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory for regions: sealed memfds, so that nothing is left after kill -9, a small /dev/shm
 * does not matter, and a peer cannot shrink them while we use them. No state, no lock.
 */
#include "config.h"

#include "core/control.h"
#include "memory/memory.h"
#include "transports/transport.h"
#include "util/available.h"
#include "util/file_limit.h"
#include "util/log.h"
#include "util/status.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HUGE_NBYTES  (2ul << 20)
#define MAX_NODES    1024
#define POPULATE_MAX (16ul << 20) /* peers' segments: up to this size, map all touched pages */

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

static size_t round_up(size_t nbytes, size_t unit)
{
    return (nbytes + unit - 1) / unit * unit;
}

static size_t page_nbytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static int host_memory_explain(int error, size_t nbytes, char *why, size_t why_nbytes)
{
    struct rlimit space = {RLIM_INFINITY, RLIM_INFINITY};

    getrlimit(RLIMIT_AS, &space);
    snprintf(why, why_nbytes, "cannot allocate %zu bytes: %s%s%s", nbytes, strerror(error),
             space.rlim_cur != RLIM_INFINITY ? " (ulimit -v is set)" : "",
             nxr_file_limit_note(error));
    return nxr_status_of_errno(error);
}

/* A memfd of a fixed size. */
static int make_memfd(size_t nbytes, unsigned flags)
{
    int fd = memfd_create("nixlrun-region", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags), error;

    if (fd < 0) {
        return -1;
    }
    if (nbytes > INT64_MAX || nxr_file_resize(fd, nbytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        error = nbytes > INT64_MAX ? ENOMEM : errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* Which NUMA nodes have memory, as "0-1,4"; "0" if the kernel does not say. */
static void known_nodes(char *text, size_t nbytes)
{
    int fd = open("/sys/devices/system/node/has_memory", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, nbytes - 1);

    if (fd >= 0) {
        close(fd);
    }
    if (got <= 0) {
        snprintf(text, nbytes, "0");
        return;
    }
    text[got] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static int bind_to_node(void *addr, size_t nbytes, int node, char *why, size_t why_nbytes)
{
    unsigned long mask[MAX_NODES / (8 * sizeof(unsigned long))] = {0};
    const int bits = 8 * (int)sizeof(mask[0]);
    char nodes[64];

    if (node >= 0 && node < MAX_NODES) {
        mask[node / bits] = 1ul << (node % bits);
        if (syscall(SYS_mbind, addr, nbytes, MPOL_BIND, mask, MAX_NODES, 0) == 0) {
            return NIXL_OK;
        }
    }
    if (node >= 0 && node < MAX_NODES && (errno == ENOSYS || errno == EPERM)) {
        return NIXL_E_UNSUPPORTED;
    }
    known_nodes(nodes, sizeof(nodes));
    snprintf(why, why_nbytes, "NUMA node %d does not exist; allowed: %s", node, nodes);
    return NIXL_E_NO_DEVICE;
}

/* Map reserved huge pages for `memory`; NIXL_E_UNSUPPORTED: there are none. */
static int map_reserved_huge(struct nxr_memory *memory)
{
    size_t nbytes = round_up(memory->nbytes, HUGE_NBYTES);
    int fd = make_memfd(nbytes, MFD_HUGETLB | MFD_HUGE_2MB);
    void *addr;

    if (fd < 0) {
        return NIXL_E_UNSUPPORTED;
    }
    addr = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (addr == MAP_FAILED) {
        close(fd);
        return NIXL_E_UNSUPPORTED;
    }
    memory->addr = addr;
    memory->mapped_nbytes = nbytes;
    memory->fd = fd;
    return NIXL_OK;
}

static int map_pages(struct nxr_memory *memory, char *why, size_t why_nbytes)
{
    size_t nbytes = round_up(memory->nbytes, page_nbytes());
    int status;

    if (nbytes < memory->nbytes) {
        return host_memory_explain(ENOMEM, memory->nbytes, why, why_nbytes);
    }
    memory->fd = make_memfd(nbytes, 0);
    if (memory->fd < 0) {
        return host_memory_explain(errno, memory->nbytes, why, why_nbytes);
    }
    memory->addr = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    if (memory->addr == MAP_FAILED) {
        status = host_memory_explain(errno, memory->nbytes, why, why_nbytes);
        close(memory->fd);
        return status;
    }
    memory->mapped_nbytes = nbytes;
    return NIXL_OK;
}

/* Add to what explains why the memory is not what was asked for. */
static void host_memory_note(struct nxr_memory *memory, const char *text)
{
    size_t at = strlen(memory->note);

    snprintf(memory->note + at, sizeof(memory->note) - at, "%s%s", at > 0 ? "; " : "", text);
}

/* 0, or -1 and errno: EINVAL if the kernel cannot do it. */
static int host_memory_touch(const struct nxr_memory *memory)
{
    return madvise(memory->addr, memory->mapped_nbytes, MADV_POPULATE_WRITE);
}

/* Bind it to a NUMA node, before its pages are touched. */
static int host_memory_place(struct nxr_memory *memory, const struct nixl_mem_params *params,
                             char *why, size_t why_nbytes)
{
    char reason[128];
    int status;

    if ((params->flags & NIXL_MEM_NUMA) == 0) {
        return NIXL_OK;
    }
    status = bind_to_node(memory->addr, memory->mapped_nbytes, params->numa_node, why, why_nbytes);
    if (status == NIXL_E_UNSUPPORTED) {
        snprintf(reason, sizeof(reason), "the kernel refuses to bind memory: %s", strerror(errno));
        host_memory_note(memory, reason);
        return NIXL_OK;
    }
    memory->flags |= status == NIXL_OK ? NIXL_MEM_NUMA : 0;
    return status;
}

static void host_memory_drop(struct nxr_memory *memory)
{
    munmap(memory->addr, memory->mapped_nbytes);
    close(memory->fd);
    memory->fd = -1;
    memory->flags = 0;
    memory->note[0] = '\0';
}

/*
 * Take reserved huge pages, if they are wanted and there are any. The kernel reserves them on
 * whatever node: a node may have none left, and would kill the process that touches them.
 */
static bool take_reserved_huge(struct nxr_memory *memory, const struct nixl_mem_params *params,
                               char *why, size_t why_nbytes)
{
    if ((params->flags & NIXL_MEM_HUGE) == 0 || map_reserved_huge(memory) != NIXL_OK) {
        return false;
    }
    if (host_memory_place(memory, params, why, why_nbytes) != NIXL_OK ||
        ((memory->flags & NIXL_MEM_NUMA) != 0 && host_memory_touch(memory) != 0)) {
        host_memory_drop(memory);
        return false;
    }
    memory->flags |= NIXL_MEM_HUGE;
    return true;
}

/* Ask for transparent huge pages, for pages that already exist. */
static void use_transparent_huge(struct nxr_memory *memory)
{
    size_t nbytes = memory->mapped_nbytes;

    madvise(memory->addr, nbytes, MADV_HUGEPAGE);
    if (nbytes >= HUGE_NBYTES && host_memory_touch(memory) == 0 &&
        madvise(memory->addr, nbytes, MADV_COLLAPSE) == 0) {
        memory->flags |= NIXL_MEM_HUGE;
        host_memory_note(
            memory, "no reserved huge pages are free (vm.nr_hugepages); using transparent ones");
        return;
    }
    host_memory_note(memory, nbytes < HUGE_NBYTES
                                 ? "no huge pages: none are reserved and free, and the region is "
                                   "smaller than one"
                                 : "no huge pages: none are reserved and free, and the kernel "
                                   "provides no transparent ones");
}

static int host_memory_populate(struct nxr_memory *memory, char *why, size_t why_nbytes)
{
    if (host_memory_touch(memory) == 0) {
        memory->flags |= NIXL_MEM_POPULATE;
        return NIXL_OK;
    }
    if (errno == EINVAL) {
        host_memory_note(memory, "the kernel cannot touch pages in advance (Linux 5.14 can)");
        return NIXL_OK;
    }
    return host_memory_explain(errno, memory->nbytes, why, why_nbytes);
}

/* Pin it for the GPUs; this loads their driver. */
static void host_memory_pin(struct nxr_memory *memory)
{
    char reason[128] = "", text[144];

    if (nxr_memory_page_lock(memory->addr, memory->mapped_nbytes, reason, sizeof(reason))) {
        memory->flags |= NIXL_MEM_PINNED;
    } else {
        snprintf(text, sizeof(text), "not pinned: %s", reason);
        host_memory_note(memory, text);
    }
}

/*
 * If every page will be touched now, is there enough memory? The kernel would not refuse, but kill.
 * Pages that are touched later are not checked: a region may be larger than what is ever used of
 * it.
 */
static int check_available(size_t nbytes, const struct nixl_mem_params *params, char *why,
                           size_t why_nbytes)
{
    bool is_touched = (params->flags & (NIXL_MEM_HUGE | NIXL_MEM_PINNED | NIXL_MEM_POPULATE)) != 0;
    uint64_t available = is_touched ? nxr_available_nbytes("/proc/meminfo") : UINT64_MAX;

    if (nbytes <= available) {
        return NIXL_OK;
    }
    snprintf(why, why_nbytes, "cannot allocate %zu bytes: the host has %llu available", nbytes,
             (unsigned long long)available);
    return NIXL_E_NO_MEMORY;
}

/* Ordinary pages, made transparent huge ones if huge ones are wanted. */
static int take_pages(struct nxr_memory *memory, const struct nixl_mem_params *params, char *why,
                      size_t why_nbytes)
{
    int status = check_available(memory->nbytes, params, why, why_nbytes);

    if (status == NIXL_OK) {
        status = map_pages(memory, why, why_nbytes);
    }
    if (status != NIXL_OK) {
        return status;
    }
    status = host_memory_place(memory, params, why, why_nbytes);
    if (status != NIXL_OK) {
        host_memory_drop(memory);
    } else if ((params->flags & NIXL_MEM_HUGE) != 0) {
        use_transparent_huge(memory);
    }
    return status;
}

static int host_alloc(size_t nbytes, const struct nixl_mem_params *params,
                      struct nxr_memory *memory_p, char *why, size_t why_nbytes)
{
    struct nxr_memory memory = {.kind = &nxr_memory_host, .nbytes = nbytes, .fd = -1};
    int status = NIXL_OK;

    if (!take_reserved_huge(&memory, params, why, why_nbytes)) {
        status = take_pages(&memory, params, why, why_nbytes);
        if (status != NIXL_OK) {
            return status;
        }
    }
    if ((params->flags & NIXL_MEM_POPULATE) != 0) {
        status = host_memory_populate(&memory, why, why_nbytes);
    }
    if (status != NIXL_OK) {
        host_memory_drop(&memory);
        return status;
    }
    if ((params->flags & NIXL_MEM_PINNED) != 0) {
        host_memory_pin(&memory);
    }
    *memory_p = memory;
    return NIXL_OK;
}

void nxr_memory_host_free(void *addr, size_t mapped_nbytes)
{
    if (!nxr_memory_is_kept()) {
        nxr_memory_unpin(addr);
        munmap(addr, mapped_nbytes);
    }
}

void nxr_memory_host_populate(void *addr, size_t nbytes)
{
    (void)madvise(addr, nbytes, MADV_HUGEPAGE);
    (void)madvise(addr, nbytes, MADV_POPULATE_WRITE);
}

/*
 * The memory may be of any origin, as long as it is mapped: peers reach it by process_vm or through
 * a bounce buffer.
 */
static int host_adopt(void *addr, size_t nbytes, const struct nixl_mem_params *params,
                      struct nxr_memory *memory_p, char *why, size_t why_nbytes)
{
    (void)params;
    if (addr == NULL || nbytes > UINTPTR_MAX - (uintptr_t)addr) {
        snprintf(why, why_nbytes, "%p with %zu bytes is not mapped memory", addr, nbytes);
        return NIXL_E_INVALID_ARG;
    }
    *memory_p = (struct nxr_memory){
        .kind = &nxr_memory_host, .addr = addr, .nbytes = nbytes, .fd = -1, .is_registered = true};
    return NIXL_OK;
}

static void host_release(struct nxr_memory *memory)
{
    if (memory->is_registered) {
        nxr_memory_unpin(memory->addr);
    } else {
        nxr_memory_host_free(memory->addr, memory->mapped_nbytes);
    }
}

/*
 * Map the pages that were touched already, so that copies do not fault for each of them. Untouched
 * pages are left out: they would use memory for bytes that may never be used.
 */
static void map_touched_pages(int fd, char *addr, int advice)
{
    off_t begin = 0, end;

    while ((begin = lseek(fd, begin, SEEK_DATA)) >= 0 &&
           (end = lseek(fd, begin, SEEK_HOLE)) > begin) {
        madvise(addr + begin, (size_t)(end - begin), advice);
        begin = end;
    }
}

int nxr_memory_host_map(int fd, size_t nbytes, bool is_read_only, void **addr_p,
                        size_t *mapped_nbytes_p)
{
    int writes = is_read_only ? 0 : PROT_WRITE;
    struct stat info;
    void *addr;

    if (!nxr_memfd_is_safe(fd, nbytes) || fstat(fd, &info) != 0) {
        nxr_warn(
            MEMORY,
            "a region of %zu bytes came with a descriptor that is not sealed memory of that size",
            nbytes);
        return NIXL_E_TRANSPORT;
    }
    addr = mmap(NULL, (size_t)info.st_size, PROT_READ | writes, MAP_SHARED, fd, 0);
    if (addr == MAP_FAILED) {
        nxr_warn(MEMORY, "cannot map a region of %zu bytes: %m", nbytes);
        return NIXL_E_NO_MEMORY;
    }
    if (nbytes <= POPULATE_MAX) {
        map_touched_pages(fd, addr, is_read_only ? MADV_POPULATE_READ : MADV_POPULATE_WRITE);
    }
    *addr_p = addr;
    *mapped_nbytes_p = (size_t)info.st_size;
    return NIXL_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

static int host_start(char *why, size_t why_nbytes)
{
    (void)why;
    (void)why_nbytes;
    return NIXL_OK;
}

static void host_stop(void)
{
}

static bool host_owns(const void *addr)
{
    return !nxr_range_is_device(addr);
}

/* Peers' host memory is mapped by transports, and copied by the processor. */
static int host_import(struct nxr_segment *segment, int fd)
{
    (void)segment;
    (void)fd;
    return NIXL_E_UNSUPPORTED;
}

static void host_unimport(struct nxr_segment *segment)
{
    (void)segment;
}

static int host_copy(struct nxr_device_copy *copy)
{
    (void)copy;
    return NIXL_E_UNSUPPORTED;
}

static void host_copy_arm(struct nxr_device_copy *copy)
{
    (void)copy;
}

static void host_pin(void *addr, size_t nbytes)
{
    (void)addr;
    (void)nbytes;
}

static void host_unpin(void *addr)
{
    (void)addr;
}

static struct nxr_copy_rate host_expect(const struct nxr_range *range, bool is_with_host)
{
    (void)range;
    (void)is_with_host;
    return (struct nxr_copy_rate){0};
}

static const char *host_pci(const struct nxr_range *range)
{
    (void)range;
    return "";
}

const struct nxr_memory_kind nxr_memory_host = {
    .kind = NIXL_MEM_HOST,
    .name = "host",
    .start = host_start,
    .stop = host_stop,
    .alloc = host_alloc,
    .adopt = host_adopt,
    .release = host_release,
    .owns = host_owns,
    .import = host_import,
    .unimport = host_unimport,
    .copy_start = host_copy,
    .copy_test = host_copy,
    .copy_arm = host_copy_arm,
    .pin = host_pin,
    .unpin = host_unpin,
    .expect = host_expect,
    .pci = host_pci,
};
