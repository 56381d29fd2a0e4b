/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PMIx server in nixlrun. PMIx calls us back on its own threads; such an upcall is copied into
 * a struct upcall and served by the main thread, from the event loop, in order.
 */
#ifndef NIXLRUN_LAUNCHER_SERVER_H
#define NIXLRUN_LAUNCHER_SERVER_H

#include "launcher/local.h"

#include <pmix.h>
#include <pmix_server.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * A request of a client. The memory behind the pointers belongs to PMIx and lives until the answer.
 * `serve` answers exactly once, now or later, by one of the upcall_answer functions, which free the
 * upcall.
 */
struct upcall {
    struct upcall *next;
    void (*serve)(struct upcall *call);
    pmix_proc_t from;
    int code; /* status, operation, range or channel, depending on the request */
    const pmix_proc_t *procs;
    size_t n_procs;
    const pmix_info_t *data;
    size_t n_data;
    const pmix_info_t *info; /* directives */
    size_t n_info;
    const pmix_app_t *apps;
    size_t n_apps;
    const pmix_query_t *queries;
    size_t n_queries;
    char **keys;
    char *text;             /* ours: freed with the upcall. The name of a spawned namespace */
    pmix_proc_t *own_procs; /* ours, too */
    char *blob;
    size_t blob_nbytes;
    pmix_op_cbfunc_t op_done;
    pmix_info_cbfunc_t info_done;
    pmix_lookup_cbfunc_t lookup_done;
    pmix_spawn_cbfunc_t spawn_done;
    pmix_modex_cbfunc_t modex_done;
    void *done_arg;
    struct loop_timer timer; /* for a request that waits */
    pmix_status_t status;    /* the answer: ours, freed with the upcall */
    pmix_info_t *answer;
    size_t n_answer;
    pmix_pdata_t *found; /* of a look-up */
    size_t n_found;
};

/* Any thread: queue a copy of `call`, allocated here. Returns the status for PMIx. */
pmix_status_t upcall_queue(const struct upcall *call);

/* Answer: PMIx's thread gives the answer, soon, and frees the upcall and `info`, which is ours. */
void upcall_answer(struct upcall *call, pmix_status_t status);
void upcall_answer_info(struct upcall *call, pmix_status_t status, pmix_info_t *info, size_t n);

/* n > 0 empty ones, for PMIX_INFO_FREE(). Without memory nixlrun ends, as by x_array(). */
pmix_info_t *info_new(size_t n);

/* The directive of this key, or NULL. */
const pmix_info_t *info_find(const pmix_info_t *info, size_t n_info, const char *key);

/* The directive PMIX_TIMEOUT in nanoseconds; 0: none. */
int64_t info_timeout_ns(const pmix_info_t *info, size_t n_info);

/* Is the rank among the processes that the call names? None named: the caller's whole namespace. */
bool upcall_means(const struct upcall *call, const struct rank *rank);

/* Open the queue of upcalls. Returns 0, or -1 after a line on stderr. */
int upcalls_open(void);

/* Start the server with its files in session.tmpdir. Returns 0, or -1 after a line on stderr. */
int server_open(void);

/* Add the location of this host's topology to a job's data, if clients of this PMIx use it. */
void server_add_topology(void *list);

/* Serve what is queued. */
void server_serve(void);

/*
 * A rank has ended while PMIx considers it connected: serve what it sent before that. PMIx's thread
 * may not have read it yet if this process was stopped meanwhile.
 */
void server_hear_out(const struct rank *rank);

/* Notify every client that registered for it of the end of the process, with this code. */
void server_notify_end(const struct rank *rank, pmix_status_t code, int exit_code);

/* Notify them that the rank has joined late, with its card. */
void server_notify_joined(const struct rank *rank, pmix_byte_object_t card);

/* The number of the latest change of which clients were notified (util/meet.h). */
uint64_t server_last_change(void);

/* A rank has written this: pass it to the clients that pull its output. */
void iof_deliver(const struct rank *rank, int which, const char *data, size_t nbytes);

/*
 * Does this call ask to meet the other ranks, to join or to leave? It is answered when all living
 * ranks of the space have asked, or when the rank ends.
 */
bool meet_wants(const struct upcall *call);
void meet_come(struct upcall *call);

/* The process has left PMIx in order: another one may take its place. */
void meet_rank_left(struct rank *rank);

/* The rank has ended: it does not meet the others. meet_look() must follow. */
void meet_rank_ended(struct rank *rank);

/* The number of living ranks may have changed: have all of them come? */
void meet_look(struct space *space);

/* A process of the space has started or has ended: answer queries that wait for its table. */
void query_look(const struct space *space);

/* The process has ended: drop what it published for its own lifetime. */
void data_forget(const pmix_proc_t *proc);

/* Notify clients of the end of a whole spawned job. */
void server_notify_job_end(const struct space *space);

/* All upcalls, in one table (server_upcalls.c). */
extern pmix_server_module_t server_module;

#endif
