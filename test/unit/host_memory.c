/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory for regions: its size, its pages, its node, its limits, and what a peer maps of it.
 */
#include "config.h"

#include "core/control.h"
#include "memory/memory.h"
#include "transports/transport.h"

#include "test/unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HUGE = 2 << 20, MOST_POPULATED = 16 << 20, MOST_PAGES = 5000 };

TestSuite(host_memory, .timeout = 60);

static struct nxr_memory memory;
static char why[512];
static size_t page;

static void setup(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
}

static int take(size_t nbytes, struct nixl_mem_params params)
{
    why[0] = '\0';
    return nxr_memory_host.alloc(nbytes, &params, &memory, why, sizeof(why));
}

static void give_back(void)
{
    int fd = memory.fd;

    nxr_memory_host.release(&memory);
    close(fd);
}

static int n_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n;
}

/* How many of the pages have been touched. */
static size_t n_touched(const void *addr, size_t nbytes)
{
    static unsigned char is_there[MOST_PAGES];
    size_t n = 0;

    cr_assert_eq(mincore((void *)(uintptr_t)addr, nbytes, is_there), 0);
    for (size_t i = 0; i < nbytes / page; i++) {
        n += is_there[i] & 1;
    }
    return n;
}

/* A line of the mapping that begins at this address: its kB of "Rss:", say, in /proc/self/smaps. */
static long smaps(const void *addr, const char *word)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512], begin[32];
    bool is_it = false;
    long value = -1;

    snprintf(begin, sizeof(begin), "%lx-", (unsigned long)(uintptr_t)addr);
    while (value < 0 && fgets(line, sizeof(line), file) != NULL) {
        is_it = is_it || strncmp(line, begin, strlen(begin)) == 0;
        if (is_it && strncmp(line, word, strlen(word)) == 0) {
            value = atol(line + strlen(word));
        }
    }
    fclose(file);
    return value;
}

/* ---- allocated ------------------------------------------------------------------------------- */

Test(host_memory, whole_pages_that_peers_can_trust, .init = setup)
{
    const size_t sizes[] = {1, page - 1, page, page + 1, 5 * page};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t rounded = (sizes[i] + page - 1) / page * page;

        cr_assert_eq(take(sizes[i], (struct nixl_mem_params){0}), NIXL_OK, "%s", why);
        cr_expect_eq(memory.kind, &nxr_memory_host);
        cr_expect_eq(memory.nbytes, sizes[i]);
        cr_expect_eq(memory.mapped_nbytes, rounded);
        cr_expect_eq(memory.flags, 0);
        cr_expect_eq(memory.is_registered, false);
        cr_expect_str_eq(memory.note, "");
        cr_expect_eq(nxr_memfd_is_safe(memory.fd, sizes[i]), true);
        cr_expect_eq(fcntl(memory.fd, F_GETFD), FD_CLOEXEC);
        cr_expect_eq(n_touched(memory.addr, rounded), 0);
        cr_expect_eq(((char *)memory.addr)[sizes[i] - 1], 0);
        cr_expect_eq(ftruncate(memory.fd, 0), -1);
        give_back();
    }
}

Test(host_memory, it_is_unmapped_when_released, .init = setup)
{
    unsigned char is_there[2];

    cr_assert_eq(take(2 * page, (struct nixl_mem_params){0}), NIXL_OK);
    give_back();
    cr_expect_eq(mincore(memory.addr, 2 * page, is_there), -1);
}

Test(host_memory, more_than_there_can_be_is_refused, .init = setup)
{
    int n = n_descriptors();

    cr_expect_eq(take(SIZE_MAX, (struct nixl_mem_params){0}), NIXL_E_NO_MEMORY);
    cr_expect(strstr(why, "cannot allocate 18446744073709551615 bytes: ") != NULL, "%s", why);
    cr_expect_eq(take(SIZE_MAX / 2 + 1, (struct nixl_mem_params){0}), NIXL_E_NO_MEMORY);
    cr_expect_eq(take(SIZE_MAX / 2 - page, (struct nixl_mem_params){0}), NIXL_E_NO_MEMORY);
    cr_expect_eq(n_descriptors(), n);
}

Test(host_memory, limits_of_the_process_are_named, .init = setup)
{
    struct rlimit limit = {16 * page, RLIM_INFINITY};
    int n = n_descriptors();

    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect_eq(take(16 * page, (struct nixl_mem_params){0}), NIXL_OK);
    give_back();
    cr_expect_neq(take(16 * page + 1, (struct nixl_mem_params){0}), NIXL_OK);
    cr_expect(strstr(why, "(ulimit -f is set and counts here)") != NULL, "%s", why);
    cr_expect(strstr(why, "ulimit -v") == NULL, "%s", why);
    limit.rlim_cur = RLIM_INFINITY;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = (rlim_t)64 << 30;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    cr_expect_eq(take((size_t)128 << 30, (struct nixl_mem_params){0}), NIXL_E_NO_MEMORY);
    cr_expect(strstr(why, " (ulimit -v is set)") != NULL, "%s", why);
    cr_expect(strstr(why, "ulimit -f") == NULL, "%s", why);
    cr_expect_eq(n_descriptors(), n);
}

/* ---- wishes ---------------------------------------------------------------------------------- */

Test(host_memory, populated_memory_is_touched, .init = setup)
{
    cr_assert_eq(take(8 * page + 1, (struct nixl_mem_params){.flags = NIXL_MEM_POPULATE}), NIXL_OK);
    cr_expect_eq(memory.flags, NIXL_MEM_POPULATE);
    cr_expect_eq(n_touched(memory.addr, 9 * page), 9);
    give_back();
}

Test(host_memory, what_would_be_touched_has_to_be_available, .init = setup)
{
    const uint32_t flags[] = {NIXL_MEM_POPULATE, NIXL_MEM_HUGE, NIXL_MEM_PINNED};
    const size_t nbytes = (size_t)1 << 44;
    int n = n_descriptors();

    for (size_t i = 0; i < 3; i++) {
        cr_expect_eq(take(nbytes, (struct nixl_mem_params){.flags = flags[i]}), NIXL_E_NO_MEMORY);
        cr_expect(strncmp(why, "cannot allocate 17592186044416 bytes: the host has ", 51) == 0,
                  "%s", why);
    }
    cr_expect_eq(take(nbytes, (struct nixl_mem_params){0}), NIXL_OK, "%s", why);
    give_back();
    cr_expect_eq(n_descriptors(), n);
}

Test(host_memory, memory_of_a_node, .init = setup)
{
    struct nixl_mem_params params = {.flags = NIXL_MEM_NUMA, .numa_node = 0};
    int mode = -1;

    cr_assert_eq(take(4 * page, params), NIXL_OK, "%s", why);
    if (memory.flags == NIXL_MEM_NUMA) {
        cr_expect_str_eq(memory.note, "");
        cr_assert_eq(syscall(SYS_get_mempolicy, &mode, NULL, 0, memory.addr, MPOL_F_ADDR), 0);
        cr_expect_eq(mode, MPOL_BIND);
    } else { /* a container forbids it */
        cr_expect_eq(memory.flags, 0);
        cr_expect(strstr(memory.note, "the kernel refuses to bind memory: ") == memory.note);
    }
    give_back();
}

Test(host_memory, a_node_that_does_not_exist, .init = setup)
{
    const int nodes[] = {-1, 1023, 1024, 1 << 20};
    int n = n_descriptors();

    for (size_t i = 0; i < 4; i++) {
        struct nixl_mem_params params = {.flags = NIXL_MEM_NUMA, .numa_node = nodes[i]};
        char wanted[64];

        if (take(page, params) == NIXL_OK) {
            cr_expect_eq(nodes[i], 1023, "only the kernel knows");
            cr_expect_eq(memory.flags, 0);
            give_back();
            continue;
        }
        snprintf(wanted, sizeof(wanted), "NUMA node %d does not exist; allowed: 0", nodes[i]);
        cr_expect(strncmp(why, wanted, strlen(wanted)) == 0, "%s", why);
        cr_expect(strchr(why, '\n') == NULL);
        params.flags |= NIXL_MEM_HUGE;
        cr_expect_eq(take(page, params), NIXL_E_NO_DEVICE);
    }
    cr_expect_eq(n_descriptors(), n);
}

/* Is it huge, with a word if not by what the administrator has reserved? */
Test(host_memory, huge_pages_or_the_reason, .init = setup)
{
    cr_assert_eq(take(HUGE + 1, (struct nixl_mem_params){.flags = NIXL_MEM_HUGE}), NIXL_OK);
    if (memory.note[0] == '\0') {
        cr_expect_eq(memory.mapped_nbytes, 2 * HUGE);
        cr_expect_eq(memory.flags, NIXL_MEM_HUGE);
    } else if (memory.flags == NIXL_MEM_HUGE) {
        cr_expect_str_eq(
            memory.note,
            "no reserved huge pages are free (vm.nr_hugepages); using transparent ones");
        cr_expect(smaps(memory.addr, "ShmemPmdMapped:") > 0);
    } else {
        cr_expect_eq(memory.flags, 0);
        cr_expect_str_eq(memory.note, "no huge pages: none are reserved and free, and the kernel "
                                      "provides no transparent ones");
    }
    give_back();
}

Test(host_memory, less_than_a_huge_page, .init = setup)
{
    cr_assert_eq(take(HUGE - page, (struct nixl_mem_params){.flags = NIXL_MEM_HUGE}), NIXL_OK);
    if (memory.note[0] != '\0') {
        cr_expect_eq(memory.flags, 0);
        cr_expect_str_eq(memory.note,
                         "no huge pages: none are reserved and free, and the region is "
                         "smaller than one");
        cr_expect_eq(memory.mapped_nbytes, HUGE - page);
    }
    give_back();
}

/* No kind of GPU is registered here. */
Test(host_memory, each_wish_that_is_not_met_has_its_words, .init = setup)
{
    struct nixl_mem_params params = {.flags = NIXL_MEM_HUGE | NIXL_MEM_PINNED | NIXL_MEM_POPULATE};
    const char *pinned;

    cr_assert_eq(take(page, params), NIXL_OK);
    cr_expect_eq(memory.flags & (NIXL_MEM_PINNED | NIXL_MEM_POPULATE), NIXL_MEM_POPULATE);
    pinned = strstr(memory.note, "not pinned: ");
    cr_assert(pinned != NULL, "%s", memory.note);
    cr_expect(pinned == memory.note || strncmp(pinned - 2, "; ", 2) == 0, "%s", memory.note);
    give_back();
}

/* ---- the user's ------------------------------------------------------------------------------ */

Test(host_memory, memory_of_the_user_stays, .init = setup)
{
    static char mine[100] = "mine";

    cr_assert_eq(nxr_memory_host.adopt(mine, sizeof(mine), NULL, &memory, why, sizeof(why)),
                 NIXL_OK);
    cr_expect_eq(memory.addr, mine);
    cr_expect_eq(memory.nbytes, sizeof(mine));
    cr_expect_eq(memory.fd, -1);
    cr_expect_eq(memory.is_registered, true);
    nxr_memory_host.release(&memory);
    cr_expect_str_eq(mine, "mine");
}

Test(host_memory, what_is_no_memory_is_refused, .init = setup)
{
    char *last = (char *)UINTPTR_MAX - 9;

    cr_expect_eq(nxr_memory_host.adopt(NULL, 1, NULL, &memory, why, sizeof(why)),
                 NIXL_E_INVALID_ARG);
    cr_expect(strstr(why, " with 1 bytes is not mapped memory") != NULL, "%s", why);
    cr_expect_eq(nxr_memory_host.adopt(last, 10, NULL, &memory, why, sizeof(why)),
                 NIXL_E_INVALID_ARG);
    cr_expect_eq(nxr_memory_host.adopt(last, 9, NULL, &memory, why, sizeof(why)), NIXL_OK);
}

/* ---- a peer's -------------------------------------------------------------------------------- */

/* Map memory with n touched pages at its end: what is mapped, in kB of pages. */
static long map(size_t nbytes, int n, bool is_read_only)
{
    struct nxr_memory own;
    void *addr = NULL;
    size_t mapped_nbytes = 0;
    long resident;

    cr_assert_eq(take(nbytes, (struct nixl_mem_params){0}), NIXL_OK);
    own = memory;
    for (int i = 1; i <= n; i++) {
        ((char *)own.addr)[own.mapped_nbytes - (size_t)i * page] = (char)i;
    }
    cr_assert_eq(nxr_memory_host_map(own.fd, nbytes, is_read_only, &addr, &mapped_nbytes), NIXL_OK);
    cr_expect_eq(mapped_nbytes, own.mapped_nbytes);
    cr_expect_neq(addr, own.addr);
    resident = smaps(addr, "Rss:");
    for (int i = 1; i <= n; i++) {
        cr_expect_eq(((char *)addr)[mapped_nbytes - (size_t)i * page], i);
    }
    if (!is_read_only) {
        ((char *)addr)[0] = 'x';
        cr_expect_eq(((char *)own.addr)[0], 'x');
    } else {
        cr_expect_eq(mprotect(addr, mapped_nbytes, PROT_READ), 0);
    }
    nxr_memory_host_free(addr, mapped_nbytes);
    give_back();
    return resident;
}

Test(host_memory, touched_pages_are_mapped_at_once, .init = setup)
{
    long kb = (long)page / 1024;

    cr_expect_eq(map(8 * page, 3, false), 3 * kb);
    cr_expect_eq(map(8 * page, 3, true), 3 * kb);
    cr_expect_eq(map(8 * page, 0, false), 0);
    cr_expect_eq(map(MOST_POPULATED, 2, false), 2 * kb);
    cr_expect_eq(map(MOST_POPULATED + 1, 2, false), 0);
}

Test(host_memory, a_part_that_may_not_be_written_is_not, .init = setup, .signal = SIGSEGV)
{
    void *addr;
    size_t mapped_nbytes;

    cr_assert_eq(take(page, (struct nixl_mem_params){0}), NIXL_OK);
    cr_assert_eq(nxr_memory_host_map(memory.fd, page, true, &addr, &mapped_nbytes), NIXL_OK);
    *(volatile char *)addr = 1;
}

Test(host_memory, a_descriptor_that_is_not_what_it_should_be, .init = setup)
{
    int fd = memfd_create("open", MFD_ALLOW_SEALING);
    void *addr = NULL;
    size_t mapped_nbytes;

    cr_assert_eq(ftruncate(fd, (off_t)page), 0);
    cr_expect_eq(nxr_memory_host_map(fd, page, false, &addr, &mapped_nbytes), NIXL_E_TRANSPORT);
    cr_assert_eq(take(page, (struct nixl_mem_params){0}), NIXL_OK);
    cr_expect_eq(nxr_memory_host_map(memory.fd, page + 1, false, &addr, &mapped_nbytes),
                 NIXL_E_TRANSPORT);
    cr_expect_eq(addr, NULL);
}
