/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/attach.h
 * Processes that were started separately: making one known by a name, and attaching to it.
 */
#ifndef NIXLRUN_ATTACH_H
#define NIXLRUN_ATTACH_H

#include <nixlrun/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NIXL_PUBLISH_NAME_MAX 63   /**< longest name of a publication, in bytes */
#define NIXL_SCHEMA_MAX       4096 /**< longest schema, in bytes without the final zero */

/**
 * Make this process known by a name, so that processes of other jobs can attach to it.
 *
 * "file:DIR" is for one host, and for all hosts that have the folder in common. The entry is a file
 * of that folder, and vanishes with nixl_unpublish() or nixl_finalize(); what a process leaves
 * behind that was killed attaches nobody, and the next publication of the name replaces it. Beside
 * it lies a secret that only this user can read. A process that attaches proves that it has read
 * the secret, and this one likewise; the secret itself is not sent. If the folder is on a file
 * system that hosts share, such as NFS, or if NIXLRUN_PUBLISH_LISTEN says so, this process also
 * listens at a TCP port, which the entry names, and opens the networks.
 *
 * "tcp://HOST:PORT" is for any host: this process listens at that address of its host, and opens
 * the networks if nixl_init() has not. Both sides prove that they know the user's token, which
 * NIXLRUN_TOKEN_FILE or NIXLRUN_TOKEN gives them. One port may serve several names of this process.
 *
 * "etcd://[USER@]HOST:PORT[,HOST:PORT...][/PREFIX]" is for any host, too: an entry in etcd, by its
 * JSON gateway, says where this process listens, NIXLRUN_PUBLISH_LISTEN or any port of all
 * addresses.
 * It is kept by a lease of 10 s, so that it goes with a process that dies, and put again if etcd
 * has lost it; while etcd is away, attached processes notice nothing. Several endpoints are those
 * of one etcd. PREFIX is "nixlrun" if there is none. "etcds://" is the same by TLS. The token is as
 * for tcp://, and never in etcd; a user of etcd has the password of NIXLRUN_ETCD_PASSWORD_FILE. The
 * entry of a process that does not answer is replaced at once if another one has its port or nobody
 * listens there, and else when its lease has ended, for which this call waits.
 *
 * Whoever attaches appears as an event NIXL_EVENT_PEER_JOINED with its number.
 *
 * @param where   "file:DIR": a folder that this user can write; or "tcp://HOST:PORT": a name or
 *                address of this host (IPv6 in [], 0.0.0.0 or [::] for all), and a port, 0 for any
 *                that is free, see nixl_publish_query(); or "etcd://...", as above
 * @param name    1 .. NIXL_PUBLISH_NAME_MAX bytes of letters, digits, '.', '_' and '-', the first
 *                no '.'
 * @param schema  what both sides must agree on, up to NIXL_SCHEMA_MAX bytes, compared byte by byte;
 *                NULL: ""
 * @return NIXL_OK
 * @return NIXL_E_INVALID_ARG  the detail names the value and what is allowed
 * @return NIXL_E_IN_USE       a living process, which the detail names, has published the name; or
 *                             another process has the port, or something else the key in etcd
 * @return NIXL_E_ACCESS       the folder or a file in it is not this user's to use; there is no
 *                             token, or others can read it; the port is privileged; or etcd
 *                             refuses the user, the prefix or a certificate
 * @return NIXL_E_TIMEOUT      etcd did not answer within 8 s
 * @return NIXL_E_TRANSPORT    what answers is no etcd, or it refuses the request
 * @return NIXL_E_NOT_FOUND    there is no such folder or token file, or HOST is not this host
 * @return NIXL_E_UNSUPPORTED  no random numbers; or "etcd://", and the module for it is not
 *                             installed
 * @return NIXL_E_LIMIT, NIXL_E_NO_MEMORY, NIXL_E_NOT_INIT
 * Threads: any.
 */
NIXL_API int nixl_publish(const char *where, const char *name, const char *schema) NIXL_MUST_CHECK;

/**
 * Where other processes attach to a publication of this process: the text to give to them as
 * `where`. A port of 0 is replaced by the one that was chosen, and an address that stands for all
 * (0.0.0.0, [::]) by the name of this host; with NIXLRUN_ANNOUNCE both are what that says. In a
 * folder and in etcd it is `where`.
 * @param where        as it was given to nixl_publish()
 * @param name         as it was given to nixl_publish()
 * @param text         written with NIXL_OK only; ends with a zero
 * @param text_nbytes  its room
 * @return NIXL_OK, NIXL_E_NOT_INIT
 * @return NIXL_E_NOT_FOUND    this process has not published that name there
 * @return NIXL_E_INVALID_ARG  a value is not allowed, or the room is too small; the detail says how
 *                             much is needed
 * Threads: any.
 */
NIXL_API int nixl_publish_query(const char *where, const char *name, char *text,
                                size_t text_nbytes) NIXL_MUST_CHECK;

/**
 * The names that are published in a folder or in etcd, sorted: a line for each, "NAME PID HOST\n".
 * Whether a publisher lives is not looked at: what a killed process has left in a folder is listed
 * until the name is published again, in etcd until its lease ends. At most 256 names of etcd.
 * @param where        "file:DIR" or "etcd://...", as nixl_publish()
 * @param timeout_ns   more than 0: how long an etcd that is away is waited for; NIXL_FOREVER
 * @param text         ends with a zero; may be NULL if text_nbytes is 0
 * @param text_nbytes  its room
 * @param needed_p     written with NIXL_OK and NIXL_E_TRUNCATED: the room that is needed; NULL: not
 * @return NIXL_OK
 * @return NIXL_E_TRUNCATED    the room is too small; the detail says how much is needed
 * @return NIXL_E_INVALID_ARG  the detail names the value and what is allowed
 * @return NIXL_E_NOT_FOUND    there is no such folder
 * @return NIXL_E_ACCESS       the folder cannot be read, or etcd refuses the user, the prefix or a
 *                             certificate
 * @return NIXL_E_TIMEOUT      etcd did not answer in time
 * @return NIXL_E_UNSUPPORTED, NIXL_E_TRANSPORT  as nixl_attach()
 * @return NIXL_E_LIMIT, NIXL_E_NO_MEMORY, NIXL_E_NOT_INIT
 * Threads: any; blocks.
 */
NIXL_API int nixl_publish_list(const char *where, int64_t timeout_ns, char *text,
                               size_t text_nbytes, size_t *needed_p) NIXL_MUST_CHECK;

/**
 * End a publication of this process: nobody attaches by it any more. Those who are attached stay.
 * With etcd away this takes up to a second, and the entry goes with its lease.
 * @return NIXL_OK, NIXL_E_INVALID_ARG, NIXL_E_NOT_INIT
 * @return NIXL_E_NOT_FOUND  this process has not published that name there
 * Threads: any.
 */
NIXL_API int nixl_unpublish(const char *where, const char *name);

/**
 * Attach to the process that has published a name: each of both processes gets a number for the
 * other, nixl_size() or higher, that every call about one rank takes. It is never given again. The
 * numbers of both sides differ, and so may the jobs: a process that was started without a launcher
 * is a job of its own. Both take an event NIXL_EVENT_PEER_JOINED.
 *
 * They use shared memory if they can, and else a network. With "file:DIR" both must belong to one
 * user; a publisher on another host must listen for others, see nixl_publish(), and a line of the
 * log (info) says that it is there. An etcd that is away is waited for; a line of the log says so.
 * If they seem to be on one host and do not share memory, one line of the log says why.
 *
 * If the other process dies, or ends the attachment, what waits for it ends with
 * NIXL_E_PEER_LOST, and NIXL_EVENT_PEER_LOST or NIXL_EVENT_PEER_LEFT tells so. Its number stays
 * valid, and lost, until nixl_detach().
 *
 * @param where       as nixl_publish()
 * @param name        as nixl_publish(); it may be published later, within the timeout
 * @param schema      must equal the publisher's; NULL: ""
 * @param timeout_ns  0: one attempt; NIXL_FOREVER
 * @param rank_p      written with NIXL_OK only: the publisher's number. It is the same as before if
 *                    the two are attached already
 * @return NIXL_OK
 * @return NIXL_INPROGRESS     the timeout is 0, and there is no such living publisher now
 * @return NIXL_E_NOT_FOUND    nobody has published the name within the timeout; the detail lists
 *                             names that are published in the folder or in etcd, or says what was
 *                             found at the port
 * @return NIXL_E_TIMEOUT      there is a publisher, or was one, but it did not answer in time, or
 *                             its files do not fit together; or etcd did not answer; the detail
 *                             says which
 * @return NIXL_E_INVALID_ARG  the schemas differ (the detail quotes both), the publisher is of this
 *                             job, or a value is not allowed
 * @return NIXL_E_ACCESS       the publisher is another user's, its secret or the token cannot be
 *                             read, or one of the two does not know it; or etcd refuses the user,
 *                             the prefix or a certificate
 * @return NIXL_E_TRANSPORT    what answers there is no etcd
 * @return NIXL_E_UNSUPPORTED  the two neither share memory nor have a network in common, their
 *                             versions of nixlrun do not fit, or the module for etcd is not
 *                             installed
 * @return NIXL_E_LIMIT, NIXL_E_NO_MEMORY, NIXL_E_NOT_INIT
 * Threads: any; blocks.
 */
NIXL_API int nixl_attach(const char *where, const char *name, const char *schema,
                         int64_t timeout_ns, int *rank_p) NIXL_MUST_CHECK;

/**
 * Attach to another rank of a job that is attached already: to the process that is that rank now.
 * So one publication makes a whole job reachable, and each pair of processes costs nothing before
 * it is used.
 *
 * `through` makes the two known to each other. It is a process of the job that is wanted, to which
 * this one is attached; or a rank of this job that is attached to one; or the caller's own rank:
 * any process of that job to which this one is attached. Nothing else is needed, neither the token
 * nor the publication. The libraries of the ranks on the way, and of the rank itself, answer in the
 * background.
 *
 * The two are then attached like a publisher and a process that has attached to it: each takes an
 * event NIXL_EVENT_PEER_JOINED with the name of the publication by which the jobs have met, and
 * each ends the attachment by itself. A rank whose process has died and that is started again gets
 * another number by another call, once the rank that it is asked of has readmitted it.
 *
 * @param through     the rank to ask
 * @param job         the job that is wanted, as nixl_peer_query() tells it
 * @param job_rank    the rank in that job; job_size of nixl_peer_query() tells how many there are
 * @param timeout_ns  0: one attempt, which waits for answers up to NIXLRUN_RESOLVE_TIMEOUT;
 *                    NIXL_FOREVER
 * @param rank_p      written with NIXL_OK only: the number of that rank. It is the same as before
 *                    if the two are attached already
 * @return NIXL_OK
 * @return NIXL_E_PEER_LOST    the rank is lost to those who were asked, or its process has ended;
 *                             or `through` has
 * @return NIXL_E_NOT_FOUND    `through` is attached to no living process of that job
 * @return NIXL_E_TIMEOUT      somebody on the way does not answer, as the detail says
 * @return NIXL_E_INVALID_ARG  the job has no such rank, it is the caller's own, `through` is of a
 *                             third job, or a value is not allowed
 * @return NIXL_E_UNSUPPORTED  the two neither share memory nor have a network in common
 * @return NIXL_E_ACCESS       `through` does not vouch for this process
 * @return NIXL_E_LIMIT, NIXL_E_NO_MEMORY, NIXL_E_NOT_INIT
 * Threads: any; blocks.
 */
NIXL_API int nixl_attach_rank(int through, uint64_t job, int job_rank, int64_t timeout_ns,
                              int *rank_p) NIXL_MUST_CHECK;

/**
 * End an attachment, also one that the other process has ended or that died: each end makes its own
 * call. Operations to that number which are under way end with NIXL_E_PEER_LOST, and so do later
 * calls; no event follows. Notifications of the other process that were not received are dropped.
 * Requests, transfers and channels with that number are freed by their own calls.
 *
 * @param rank        the number of an attached process
 * @param timeout_ns  how long to wait until the other process has learned of it; 0: not at all
 * @return NIXL_OK           the other process has learned of it, or has ended
 * @return NIXL_INPROGRESS   the timeout is 0: it learns of it soon
 * @return NIXL_E_TIMEOUT    it has not answered in time. The attachment is ended nevertheless
 * @return NIXL_E_CANCELED   another thread has called it with 0 meanwhile, which ends the wait, and
 *                           for which that returns NIXL_INPROGRESS. It is ended nevertheless
 * @return NIXL_E_INVALID_ARG, NIXL_E_NOT_INIT
 * @return NIXL_E_PEER_LOST  the number has been detached before
 * Threads: any.
 */
NIXL_API int nixl_detach(int rank, int64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_ATTACH_H */
