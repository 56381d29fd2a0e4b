/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sections of the pages of ranks that an engine has started, copied from the reports of
 * nixlrun-rank (rank_pages.h) into the pages that foreign_waits.c keeps of them. No state.
 */
#include "config.h"

#include "launcher/foreign_copy.h"
#include "launcher/rank_pages.h"
#include "util/file_limit.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* No section is larger; it takes memory only where it was written. */
#define SECTION_MOST_NBYTES (UINT64_C(1) << 38)

/* The section with this id and size, which is made if there is none. NULL: it cannot be. */
static const struct nxr_observe_section *section_of(struct nxr_observe_head *head, int fd,
                                                    const struct nxr_observe_section *told)
{
    uint32_t n = atomic_load(&head->n_sections);
    struct nxr_observe_section section = *told;

    for (uint32_t i = 0; i < n; i++) {
        if (head->sections[i].id == told->id) {
            return head->sections[i].nbytes == told->nbytes ? &head->sections[i] : NULL;
        }
    }
    section.offset = head->sections[n - 1].offset + head->sections[n - 1].nbytes;
    if (n == NXR_OBSERVE_N_SECTIONS || nxr_file_resize(fd, section.offset + section.nbytes) != 0) {
        return NULL;
    }
    head->sections[n] = section;
    atomic_store(&head->n_sections, n + 1);
    return &head->sections[n];
}

void foreign_pages_take(int rank, int section, const char *text)
{
    unsigned char bytes[RANK_PAGES_PART];
    struct nxr_observe_section told = {.id = (uint32_t)section};
    unsigned long long offset, total;
    const struct nxr_observe_section *ours;
    struct nxr_observe_head *head;
    unsigned version;
    size_t nbytes;
    int n = 0, fd;

    if ((section != NXR_OBSERVE_STATS && section != NXR_OBSERVE_TRACE) ||
        sscanf(text, RANK_PAGES_FORMAT, &offset, &total, &version, &n) != 3 || n == 0) {
        return;
    }
    nbytes = strlen(text + n) / 2;
    if (nbytes > sizeof(bytes) || total > SECTION_MOST_NBYTES || total % NXR_OBSERVE_PAGE != 0 ||
        offset > total || nbytes > total - offset ||
        !foreign_copy_read_digits(text + n, bytes, nbytes)) {
        return;
    }
    head = foreign_copy_of(rank, &fd);
    if (head == NULL) {
        return;
    }
    told.version = version;
    told.nbytes = total;
    ours = section_of(head, fd, &told);
    if (ours != NULL && pwrite(fd, bytes, nbytes, (off_t)(ours->offset + offset)) < 0) {
        return; /* no memory: the counters stay as they were */
    }
}
