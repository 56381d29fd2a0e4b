/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of an engine's ranks: foreign_ranks.c finds it out, foreign_verdict.c judges. */
#ifndef NIXLRUN_LAUNCHER_FOREIGN_RANKS_H
#define NIXLRUN_LAUNCHER_FOREIGN_RANKS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum member_state { MEMBER_UNKNOWN, MEMBER_STARTED, MEMBER_ENDED };

/* What is known of a rank from the reports of nixlrun-rank. */
struct member {
    enum member_state state;
    char *host; /* NULL, pid 0: not reported */
    pid_t pid;
    int wait_status;
    int n_restarts;
    int n_missed; /* beats since its last message */
    bool is_out_ended;
    bool is_gone;  /* the engine says so */
    int gone_code; /* and with which code */
};

struct foreign_ranks {
    struct member *members; /* [np] */
    int n_started, n_ended;
    int suspect; /* the rank of the first failure, if the engine may have killed it; else -1 */
};
extern struct foreign_ranks foreign_ranks;

/* The name of a rank in messages: "rank 3 on host b (pid 17)". */
struct rank_name {
    char text[HOST_NAME_MAX + 64];
};

/* The first rank without any report, or -1. */
int foreign_ranks_missing(void);

/* Why a rank is lost whose end only the engine has reported: the text after its name. */
const char *foreign_rank_why_lost(int rank);

/* As far as known: a rank without a report has no pid. */
struct rank_name foreign_rank_name(int rank);

/* Mark as lost the ranks that have ended according to the engine but have not reported it. */
void foreign_ranks_lose_gone(void);

#endif
