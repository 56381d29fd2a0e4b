/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of the local engine: the session (one run of nixlrun), its spaces (PMIx namespaces: the
 * job of the command line, and one more per PMIx_Spawn) and their ranks. All of it belongs to the
 * main thread; PMIx's threads only queue work (server.h).
 */
#ifndef NIXLRUN_LAUNCHER_LOCAL_H
#define NIXLRUN_LAUNCHER_LOCAL_H

#include "launcher/input.h"
#include "launcher/job.h"
#include "launcher/stream.h"

#include <pmix_common.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* RANK_WAITING: its process has failed, and the next one is going to be started. */
enum rank_state { RANK_STARTING, RANK_RUNNING, RANK_WAITING, RANK_ENDED };

/* One process. */
struct rank {
    struct space *space;
    int rank;
    int id; /* index in session.ranks: the guardian's name for it */
    int app_num;
    pid_t pid; /* 0 until it is started */
    enum rank_state state;
    int wait_status;
    int64_t ended_ns;
    bool is_connected; /* has called PMIx_Init and not PMIx_Finalize */
    bool was_connected;
    bool was_told_to_end;      /* because the job ends: its end is no new failure */
    bool fell_first;           /* it was dying already when another rank's failure ended the job */
    bool was_ended_by_request; /* by PMIx job control: no failure at all */
    bool has_aborted;          /* has called PMIx_Abort */
    bool has_failed;
    bool is_refused;      /* it may not be signalled, which was said */
    bool is_beyond_reach; /* it could not be killed, for it runs as another user */
    int abort_code;
    int page_fd;          /* what others can observe of its last process; 0: nothing */
    pid_t met_pid;        /* of the process that has joined the others and not left; 0: none */
    bool was_replaced;    /* by a process that nixlrun has not started */
    bool has_joined;      /* this process has met the others */
    bool may_leave;       /* ... and they have agreed that all may go */
    bool has_left;        /* ... and has left them in order */
    int n_restarts;       /* how often nixlrun has started it again */
    uint32_t incarnation; /* processes of it that the others may know of, before this one */
    struct loop_timer restart_timer; /* set while it is RANK_WAITING */
    bool (*start_again)(struct rank *rank);
    pmix_byte_object_t card;  /* of the process that has joined; no bytes: none */
    struct upcall *meeting;   /* it waits for the other ranks (server_meet.c); NULL: it does not */
    struct upcall *leaving;   /* likewise, in nixl_finalize() */
    struct stream streams[2]; /* stdout, stderr */
    struct inlet inlet;       /* stdin */
};

/* Ranks of one PMIx namespace. */
struct space {
    struct space *next;
    int number; /* 0: the job of the command line */
    pmix_nspace_t nspace;
    const struct launch_app *apps;
    int n_apps;
    const struct launch_place *places; /* one per rank, or NULL: not bound */
    struct rank *ranks;
    int n_ranks;
    int n_live;         /* not ended: those that are going to be started again, too */
    int n_meeting;      /* ranks whose `meeting` is set */
    bool has_met;       /* ranks have been answered: a later one gets their cards late */
    int master_port;    /* for MASTER_PORT */
    pmix_proc_t parent; /* its spawner; for number > 0 */
    int n_starting;
    struct upcall *spawn; /* unanswered while ranks are starting */
    bool tells_parent_of_end;
};

struct session {
    const struct launch_job *job;
    const char *tmpdir; /* ours; removed when we end */
    char host[256];
    struct space *spaces;
    int n_spaces;
    struct rank **ranks; /* by id */
    int n_ranks;
    int n_live;         /* not ended, over all spaces */
    size_t n_spare_fds; /* descriptors that we may open beyond those which the job needs */
};

extern struct session session;

/* ---- space.c: namespaces --------------------------------------------------------------------- */

/*
 * Make a space with a rank for each process of the apps and register it with PMIx. The apps and
 * places must live until exit. `parent` is NULL for the first. Returns NULL after a line on stderr.
 */
struct space *space_make(const struct launch_app *apps, int n_apps,
                         const struct launch_place *places, const pmix_proc_t *parent);

struct space *space_find(const char *nspace);

/* The rank with this PMIx name, or NULL. */
struct rank *rank_find(const pmix_proc_t *proc);

pmix_proc_t rank_proc(const struct rank *rank);

/* "rank 3", or "rank 1 of spawned job 2". In a static buffer, good for one use. */
const char *rank_name(const struct rank *rank);

/* ---- rank.c: the life of a process ----------------------------------------------------------- */

/* Find and test the programs of the apps. Returns 0, or an exit code after a line on stderr. */
int rank_check_programs(const struct launch_app *apps, int n_apps);

/*
 * Start all ranks of the space. Returns 0, or an exit code after a line on stderr: then the ranks
 * before the one that cannot be started may run, the others count as ended.
 */
int rank_start_all(struct space *space);

/*
 * Start the next process of a rank whose former one has ended. Returns 0; -EAGAIN: not all of the
 * former's output could be passed on yet; or an exit code after a line on stderr.
 */
int rank_start_again(struct rank *rank);

/* Serve the guardian's reports. */
int rank_listen(void);

/* ---- finish.c: failures and the end of the job ----------------------------------------------- */

/* It could not be killed and is left behind. */
void finish_rank_left(struct rank *rank);

/* A process could not be started; the line is on stderr. */
void finish_start_failure(struct rank *rank, int exit_code);

/* The wait status of the rank is known: judge it, notify the others, and end the job if needed. */
void finish_rank_ended(struct rank *rank);

/* A rank has called PMIx_Abort for the whole job. */
void finish_abort(struct rank *rank, int code, const char *message);

/* A rank ends the job in order: nixlrun's exit code is `code`, whatever happens later. */
void finish_by_rank(int code);

/* A rank has called PMIx_Abort for some processes only: print a line. */
void finish_abort_some(struct rank *rank, const char *message);

/* Send all ranks `signal`, kill them after the grace; `exit_code` holds unless one failed. */
void finish_begin(int signal, int exit_code);

/* SIGKILL all ranks, without grace. */
void finish_kill(void);

/* Exit at once: unfinished work, including output, is dropped. */
void finish_abandon(int exit_code);
bool finish_is_abandoned(void);

/* nixlrun itself cannot continue. */
void finish_broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

bool finish_has_begun(void);

/* Arm --timeout. */
void finish_arm_timeout(void);

int finish_exit_code(void);

/* ---- restart.c: ranks that are started again ------------------------------------------------- */

/*
 * A rank has failed, as `why` says. True: it is going to be started again, by start_again(), and
 * the line is on stderr. start_again() returns false if it is to be called again soon.
 */
bool restart_rank(struct rank *rank, const char *why, bool (*start_again)(struct rank *rank));

/* It was to be started again, but cannot: it has ended. */
void restart_end(struct rank *rank);

/*
 * The job ends: ranks that wait to be started again have ended, and their failures count. Returns
 * the exit code of the first; 0: there is none.
 */
int restart_give_up(void);

/* Say how often ranks were started again, if any was. */
void restart_say_sum(void);

/* ---- spawn.c: PMIx_Spawn --------------------------------------------------------------------- */

void spawn_rank_started(struct rank *rank);

/* The last rank of the space has ended. */
void spawn_space_ended(struct space *space);

/* True if the rank belongs to an unanswered spawn: the spawn fails, the job continues. */
bool spawn_rank_failed(struct rank *rank);

#endif
