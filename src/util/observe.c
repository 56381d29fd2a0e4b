/* SPDX-License-Identifier: Apache-2.0 */
/* Reading observation pages. No state, no lock. */
#include "config.h"

#include "util/observe.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ATTEMPTS 64

/* The writer writes for some nanoseconds at a time, unless it is stopped or has died. */
bool nxr_observe_read(void *copy, const void *record, size_t nbytes)
{
    const _Atomic uint32_t *counter = record;

    for (int i = 0; i < ATTEMPTS; i++) {
        uint32_t before = atomic_load_explicit(counter, memory_order_acquire);

        memcpy(copy, record, nbytes);
        nxr_fence_acquire();
        if (before % 2 == 0 && atomic_load_explicit(counter, memory_order_relaxed) == before) {
            return true;
        }
    }
    return false;
}

static bool is_page(const struct nxr_observe_head *head)
{
    return head->magic == NXR_OBSERVE_MAGIC && head->version == NXR_OBSERVE_VERSION &&
           head->size > 0 && head->rank >= 0 && head->rank < head->size;
}

bool nxr_observe_map(int fd, struct nxr_observe_page *page_p)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat info;
    void *memory;

    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &info) != 0 ||
        info.st_size < NXR_OBSERVE_PAGE) {
        return false;
    }
    memory = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    *page_p = (struct nxr_observe_page){memory, (size_t)info.st_size};
    if (!is_page(page_p->head)) {
        nxr_observe_unmap(page_p);
        return false;
    }
    return true;
}

void nxr_observe_unmap(const struct nxr_observe_page *page)
{
    munmap((void *)page->head, page->nbytes);
}

const void *nxr_observe_find(const struct nxr_observe_page *page, uint32_t id, uint32_t version,
                             size_t nbytes)
{
    uint32_t n = atomic_load_explicit(&page->head->n_sections, memory_order_acquire);

    for (uint32_t i = 0; i < n && i < NXR_OBSERVE_N_SECTIONS; i++) {
        const struct nxr_observe_section section = page->head->sections[i];

        if (section.id == id && section.version == version && section.nbytes >= nbytes &&
            section.offset % NXR_OBSERVE_PAGE == 0 && section.offset <= page->nbytes &&
            section.nbytes <= page->nbytes - section.offset) {
            return (const char *)page->head + section.offset;
        }
    }
    return NULL;
}
