/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the library does not get: lack.h. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "lack.h"

#include "mptest.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t nbytes);
void *__libc_calloc(size_t n, size_t nbytes);
void *__libc_realloc(void *old, size_t nbytes);
void *__libc_memalign(size_t alignment, size_t nbytes);

#define VISIBLE __attribute__((visibility("default"))) /* instead of those of the C library */

static uintptr_t code_begin, code_end; /* of the library */
static _Thread_local int n_left;       /* requests until one fails; 0: none does */
static _Atomic int n_left_of_all;      /* the same, of any thread */
static _Thread_local bool has_failed;

static bool must_fail(const void *caller)
{
    if ((uintptr_t)caller < code_begin || (uintptr_t)caller >= code_end) {
        return false;
    }
    if (n_left > 0 && --n_left == 0) {
        has_failed = true;
        return true;
    }
    return atomic_load(&n_left_of_all) > 0 && atomic_fetch_sub(&n_left_of_all, 1) == 1;
}

VISIBLE void *malloc(size_t nbytes)
{
    if (must_fail(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(nbytes);
}

VISIBLE void *calloc(size_t n, size_t nbytes)
{
    if (must_fail(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(n, nbytes);
}

VISIBLE void *realloc(void *old, size_t nbytes)
{
    if (must_fail(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(old, nbytes);
}

VISIBLE void *aligned_alloc(size_t alignment, size_t nbytes)
{
    if (must_fail(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_memalign(alignment, nbytes);
}

VISIBLE void *mmap(void *addr, size_t nbytes, int access, int flags, int fd, off_t offset)
{
    if (must_fail(__builtin_return_address(0))) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, addr, nbytes, access, flags, fd, offset); /* NOLINT */
}

static int find_code(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (strstr(info->dlpi_name, "libnixlrun.so") == NULL) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X) != 0) {
            code_begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            code_end = code_begin + info->dlpi_phdr[i].p_memsz;
        }
    }
    return 1;
}

/* ---- which requests -------------------------------------------------------------------------- */

void lack_find_library(void)
{
    dl_iterate_phdr(find_code, NULL);
    if (code_end == 0) {
        mpt_skip("the library is not loaded as a shared one");
    }
}

void lack_begin(int k)
{
    has_failed = false;
    n_left = k;
}

bool lack_end(void)
{
    n_left = 0;
    return has_failed;
}

void lack_begin_all(int k)
{
    atomic_store(&n_left_of_all, k);
}

bool lack_end_all(void)
{
    return atomic_exchange(&n_left_of_all, 0) <= 0;
}
