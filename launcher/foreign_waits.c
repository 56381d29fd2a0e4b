/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the observation pages of ranks that an engine has started, from the reports of
 * nixlrun-rank (rank_waits.h). They are pages of nixlrun's own, so waits_read() finds them, in this
 * process and in nixlrun ps. They tell of long waits only.
 */
#include "config.h"

#include "launcher/foreign.h"
#include "launcher/foreign_copy.h"
#include "launcher/rank_waits.h"
#include "launcher/waits.h"
#include "launcher/xalloc.h"
#include "util/file_limit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECTION_NBYTES                                                                             \
    ((sizeof(struct nxr_observe_waits) + NXR_OBSERVE_PAGE - 1) / NXR_OBSERVE_PAGE *                \
     NXR_OBSERVE_PAGE)
#define COPY_NBYTES (NXR_OBSERVE_PAGE + SECTION_NBYTES)

/* The page of each rank; head NULL: nothing was reported yet, or there is no memory. */
struct copy {
    struct nxr_observe_head *head;
    struct nxr_observe_waits *waits;
    int fd;
    uint32_t n_threads; /* that were announced */
};
static struct copy *page_copies;

static void copy_make(struct copy *copy)
{
    int fd = memfd_create(NXR_OBSERVE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *memory = MAP_FAILED;

    if (fd >= 0 && nxr_file_resize(fd, COPY_NBYTES) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0) {
        memory = mmap(NULL, COPY_NBYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (memory == MAP_FAILED) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    copy->fd = fd; /* it stays open: by it others find the copy */
    copy->head = memory;
    copy->waits = (struct nxr_observe_waits *)((char *)memory + NXR_OBSERVE_PAGE);
    copy->head->sections[0] = (struct nxr_observe_section){
        NXR_OBSERVE_WAITS, NXR_OBSERVE_WAITS_VERSION, NXR_OBSERVE_PAGE, SECTION_NBYTES};
    atomic_store(&copy->head->n_sections, 1);
    copy->head->version = NXR_OBSERVE_VERSION;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* False: these are not the digits of exactly so many bytes. */
bool foreign_copy_read_digits(const char *digits, void *bytes, size_t nbytes)
{
    unsigned char *at = bytes;

    if (strlen(digits) != 2 * nbytes) {
        return false;
    }
    for (size_t i = 0; i < nbytes; i++) {
        int high = digit_of(digits[2 * i]), low = digit_of(digits[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        at[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

static bool copy_is_of(const struct copy *copy, const struct rank_waits_head *head)
{
    const struct nxr_observe_head *ours = copy->head;

    return ours->incarnation == head->incarnation && ours->pid == head->pid &&
           ours->began_ns == head->began_ns && ours->job == head->job;
}

/* Another process has the rank now, or the same has joined again: readers find this copy, too. */
static void copy_retire(struct copy *copy)
{
    static int former[FOREIGN_COPY_MOST_FORMER];
    static size_t n_former;
    int *place = &former[n_former++ % FOREIGN_COPY_MOST_FORMER];

    copy->head->mirrored = 'X';
    munmap(copy->head, COPY_NBYTES);
    if (*place > 0) {
        close(*place);
    }
    *place = copy->fd;
    *copy = (struct copy){.head = NULL};
}

static void take_head(struct copy *copy, int rank, const char *host, const char *digits)
{
    struct rank_waits_head head;

    if (!foreign_copy_read_digits(digits, &head, sizeof(head)) || head.rank != rank ||
        head.size <= rank || head.n_threads > RANK_WAITS_THREADS) {
        return;
    }
    if (copy->head != NULL && copy->head->mirrored != WAITS_LETTER_ABSENT &&
        !copy_is_of(copy, &head)) {
        copy_retire(copy);
    }
    if (copy->head == NULL) {
        copy_make(copy);
    }
    if (copy->head == NULL) {
        return;
    }
    for (int i = 0; i < RANK_WAITS_THREADS; i++) {
        atomic_store(&copy->waits->records[i].is_used, 0);
    }
    copy->waits->notes.n = copy->waits->notes.n_listed = 0;
    copy->waits->flights.n = copy->waits->flights.n_listed = 0;
    copy->n_threads = head.n_threads;
    copy->head->job = head.job;
    copy->head->rank = head.rank;
    copy->head->size = head.size;
    copy->head->pid = head.pid;
    copy->head->incarnation = head.incarnation;
    copy->head->began_ns = head.began_ns;
    copy->head->mirrored = head.state;
    memset(copy->head->host, 0, sizeof(copy->head->host));
    memccpy(copy->head->host, host, '\0', sizeof(copy->head->host) - 1);
    atomic_store(&copy->head->life, head.life);
    copy->head->magic = NXR_OBSERVE_MAGIC;
}

/* Times were durations. */
static void take_record(struct nxr_wait_record *record, const char *digits)
{
    struct nxr_wait_record told = {.tid = 0};

    if (foreign_copy_read_digits(digits, &told, RANK_WAITS_RECORD_NBYTES)) {
        told.since_ns = nxr_now_ns() - told.since_ns;
        told.counter = 0;
        told.is_used = 1;
        memcpy(record, &told, sizeof(told));
    }
}

static void take_notes(struct nxr_wait_notes *notes, const char *digits)
{
    struct nxr_wait_notes told = {.n = 0};

    if (foreign_copy_read_digits(digits, &told, RANK_WAITS_NOTES_NBYTES) &&
        told.n_listed <= RANK_WAITS_LISTED) {
        told.counter = 0;
        memcpy(notes, &told, sizeof(told));
    }
}

static void take_flights(struct nxr_wait_flights *flights, const char *digits)
{
    struct nxr_wait_flights told = {.n = 0};

    if (foreign_copy_read_digits(digits, &told, RANK_WAITS_FLIGHTS_NBYTES) &&
        told.n_listed <= RANK_WAITS_LISTED) {
        told.counter = 0;
        memcpy(flights, &told, sizeof(told));
    }
}

void foreign_waits_take(int rank, const char *host, int part, const char *digits)
{
    struct copy *copy;

    if (page_copies == NULL) {
        page_copies = x_calloc((size_t)foreign.job->np, sizeof(*page_copies));
    }
    copy = &page_copies[rank];
    if (part == 0) {
        take_head(copy, rank, host, digits);
    } else if (copy->head == NULL || part < 0 || (uint32_t)part > copy->n_threads + 2) {
        return;
    } else if ((uint32_t)part <= copy->n_threads) {
        take_record(&copy->waits->records[part - 1], digits);
    } else if ((uint32_t)part == copy->n_threads + 1) {
        take_notes(&copy->waits->notes, digits);
    } else {
        take_flights(&copy->waits->flights, digits);
        atomic_store(&copy->waits->listed_ns, nxr_now_ns());
    }
}

struct nxr_observe_head *foreign_copy_of(int rank, int *fd_p)
{
    struct copy *copy = page_copies != NULL ? &page_copies[rank] : NULL;

    if (copy == NULL || copy->head == NULL) {
        return NULL;
    }
    *fd_p = copy->fd;
    return copy->head;
}

void foreign_waits_ended(int rank)
{
    if (page_copies != NULL && page_copies[rank].head != NULL) {
        page_copies[rank].head->mirrored = 'X';
    }
}
