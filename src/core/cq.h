/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues. A queue has the requests that it will report, those that have ended, and the
 * waits for signals; notifications and events stay where they are until they are taken.
 *
 * Locks: requests_lock (request.c) for the lists of requests; nxr_cqs_lock (cq.c) for
 * the list of queues and for waits; both innermost.
 */
#ifndef NXR_CORE_CQ_H
#define NXR_CORE_CQ_H

#include "core/context.h"
#include "core/request.h"
#include "util/symbol.h"

/* Is it an open queue? Any pointer. */
bool nxr_cq_is_open(const struct nixl_cq *cq);

struct nixl_cq {
    struct nxr_list link; /* of all queues */
    struct nixl_context *context;
    uint32_t flags;
    uint32_t entry_nbytes;
    struct nxr_list under_way, ended; /* struct nixl_req; requests_lock */
    _Atomic size_t n_ended;
    struct nxr_list waits; /* for signals; nxr_cqs_lock */
    _Atomic size_t n_waits;
    void **lent; /* n_lent of max_lent: freed by the next call */
    size_t n_lent, max_lent;
    int fd;      /* epoll, of both event fds; -1: not asked for yet; nxr_cqs_lock */
    int news_fd; /* eventfd: news that another reader took off the event fd */
    atomic_bool is_armed;
};

/* The list of queues. */
extern NXR_HIDDEN pthread_mutex_t nxr_cqs_lock;
extern NXR_HIDDEN struct nxr_list nxr_cqs;

/* Close what nixl_cq_fd() has opened, if it was called. Only for cq.c. */
void nxr_cq_close_fd(struct nixl_cq *cq);

/* Is there anything to report? The nxr_ready_fn of a queue. */
bool nxr_cq_has_any(void *cq);

/* Is it an open queue? NIXL_OK, or the failure of `operation`, recorded. */
int nxr_cq_check(const char *operation, const struct nixl_cq *cq);

/* ---- for request_watch.c, with requests_lock held -------------------------------------------- */

/* The queue has the request from now on. */
static inline void nxr_cq_begun(struct nixl_req *req)
{
    nxr_list_append(&req->cq->under_way, &req->cq_link);
}

/* It has ended. */
static inline void nxr_cq_ended(struct nixl_req *req)
{
    nxr_list_remove(&req->cq_link);
    nxr_list_append(&req->cq->ended, &req->cq_link);
    atomic_fetch_add_explicit(&req->cq->n_ended, 1, memory_order_release);
}

/* The oldest that has ended, or is under way, removed from the queue; or NULL. */
static inline struct nixl_req *nxr_cq_take_from(struct nxr_list *list)
{
    struct nxr_list *link = nxr_list_pop(list);

    if (link == NULL) {
        return NULL;
    }
    nxr_list_init(link);
    return nxr_list_entry(link, struct nixl_req, cq_link);
}

/* ---- waits for signals (cq_watch.c) ---------------------------------------------------------- */

/* A word of this process that a queue watches, and the value that it is compared with. */
struct nxr_cq_watch {
    const uint64_t *word;
    uint64_t value, user_data;
    int rank; /* its loss ends the wait; -1: none */
    bool (*is_true)(uint64_t seen, enum nixl_compare compare, uint64_t value);
    /*
     * Ask whether that rank leaves, if it has not been asked. True: it is known to;
     * nxr_cq_rank_leaves() is called when that becomes known. Holds job.lock.
     */
    bool (*ask_leaving)(int rank);
    enum nixl_compare compare;
    int64_t expires_at; /* then it ends with NIXL_E_TIMEOUT; INT64_MAX: never */
};

/* Report once when the word compares true. NIXL_INPROGRESS, NIXL_E_NO_MEMORY. Any thread. */
int nxr_cq_watch(struct nixl_cq *cq, const struct nxr_cq_watch *watch);

/*
 * A rank that was asked is in its last nixl_finalize(), and what it has done is visible: waits that
 * need it end. Caller holds job.lock.
 */
void nxr_cq_rank_leaves(int rank);

/* For cq.c: has a wait ended? Take one that has; false: there is none. */
bool nxr_cq_has_wait_over(struct nixl_cq *cq);
bool nxr_cq_take_wait(struct nixl_cq *cq, struct nixl_cq_entry *entry);

/* For cq.c: end those with that user_data. Free all, of a queue that nobody uses. */
void nxr_cq_cancel_waits(struct nixl_cq *cq, uint64_t user_data);
void nxr_cq_drop_waits(struct nixl_cq *cq);

/* ---- notifications --------------------------------------------------------------------------- */

/* A notification that was taken out of the rings; free() frees it. */
struct nxr_note {
    struct nxr_list link;
    int64_t since_ns; /* of nxr_coarse_now_ns() */
    int rank;
    bool is_late; /* data that was sent before it did not arrive */
    uint32_t nbytes;
    uint64_t tag;
    uint64_t traced; /* its number among those of its sender; 0: it is not traced */
    unsigned char payload[];
};

/* Where queues get the notifications of a context; set once (init.c). Any thread, without locks. */
struct nxr_note_source {
    bool (*has)(struct nixl_context *context);
    struct nxr_note *(*take)(struct nixl_context *context); /* NULL: there is none */
};
extern NXR_HIDDEN struct nxr_note_source nxr_note_source;

extern const struct nxr_subsystem nxr_cq_subsystem;
extern const struct nxr_subsystem nxr_cq_watch_subsystem;
extern const struct nxr_subsystem nxr_cq_fd_subsystem;

#endif
