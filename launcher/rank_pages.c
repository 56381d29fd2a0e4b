/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending sections of a rank's page: see rank_pages.h. Each is compared with a copy of what was
 * sent. Holes of the page, which nobody has written, are skipped without being read, which would
 * fill them. One thread; the state is what was sent.
 */
#include "config.h"

#include "launcher/rank_pages.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What was sent of a section. */
struct sent {
    uint32_t id;
    unsigned char *bytes; /* NULL: nothing */
    size_t nbytes;
};

static struct sent sent_sections[] = {{NXR_OBSERVE_STATS, NULL, 0}, {NXR_OBSERVE_TRACE, NULL, 0}};
static unsigned n_looks;

/* Send the parts of some bytes of a section that differ from what was sent. */
static void send_changes(pid_t pid, const struct nxr_observe_section *section, size_t offset,
                         const unsigned char *bytes, size_t nbytes, unsigned char *sent,
                         rank_pages_send_fn *send)
{
    for (size_t at = 0; at < nbytes; at += RANK_PAGES_PART) {
        size_t part = nbytes - at < RANK_PAGES_PART ? nbytes - at : RANK_PAGES_PART;

        if (memcmp(bytes + at, sent + offset + at, part) != 0) {
            send(pid, section, offset + at, bytes + at, part);
            memcpy(sent + offset + at, bytes + at, part);
        }
    }
}

static void send_section(int fd, pid_t pid, const struct nxr_observe_section *section,
                         struct sent *sent, rank_pages_send_fn *send)
{
    off_t end = (off_t)(section->offset + section->nbytes), at = (off_t)section->offset;
    unsigned char bytes[NXR_OBSERVE_PAGE];

    if (sent->bytes == NULL) {
        sent->bytes = mmap(NULL, section->nbytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (sent->bytes == MAP_FAILED) {
        sent->bytes = NULL;
        return;
    }
    sent->nbytes = section->nbytes;
    while ((at = lseek(fd, at, SEEK_DATA)) >= 0 && at < end) {
        size_t most = end - at < NXR_OBSERVE_PAGE ? (size_t)(end - at) : NXR_OBSERVE_PAGE;
        ssize_t n = pread(fd, bytes, most, at);

        if (n <= 0) {
            return;
        }
        send_changes(pid, section, (size_t)at - section->offset, bytes, (size_t)n, sent->bytes,
                     send);
        at += n;
    }
}

static void send_sections(int fd, const struct nxr_observe_head *head, bool is_end,
                          rank_pages_send_fn *send)
{
    uint32_t n = atomic_load_explicit(&head->n_sections, memory_order_acquire);

    for (uint32_t i = 0; i < n && i < NXR_OBSERVE_N_SECTIONS; i++) {
        for (size_t j = 0; j < sizeof(sent_sections) / sizeof(sent_sections[0]); j++) {
            if (head->sections[i].id == sent_sections[j].id &&
                (is_end || sent_sections[j].id == NXR_OBSERVE_STATS)) {
                send_section(fd, head->pid, &head->sections[i], &sent_sections[j], send);
            }
        }
    }
}

void rank_pages_forget(void)
{
    for (size_t i = 0; i < sizeof(sent_sections) / sizeof(sent_sections[0]); i++) {
        if (sent_sections[i].bytes != NULL) {
            munmap(sent_sections[i].bytes, sent_sections[i].nbytes);
            sent_sections[i].bytes = NULL;
        }
    }
    n_looks = 0;
}

void rank_pages_look(int fd, rank_pages_send_fn *send)
{
    struct nxr_observe_page page;
    unsigned every;

    if (!nxr_observe_map(fd, &page)) {
        return;
    }
    every = 1 + (unsigned)page.head->size / RANK_PAGES_RANKS_PER_S;
    if (n_looks++ % every == 0) {
        send_sections(fd, page.head, false, send);
    }
    nxr_observe_unmap(&page);
}

void rank_pages_end(int fd, rank_pages_send_fn *send)
{
    struct nxr_observe_page page;

    if (nxr_observe_map(fd, &page)) {
        send_sections(fd, page.head, true, send);
        nxr_observe_unmap(&page);
    }
}
