/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that die in the midst of a call that makes a team: all survivors get the same.
 *
 *     fault_team create|split|shrink FIRST [two]
 *
 * The ranks form groups of four, each with a scenario of its own: group g has number FIRST + g. A
 * scenario says which member dies, and before which of its messages of the call; the last ones say
 * that it dies when the call has returned. With `two` the next member dies as well, when it asks
 * others how the call has ended. The program is linked with the library's own functions, and two of
 * them are wrapped here: so deaths come at exact points, with no clock. The survivors tell each
 * other what they got, and make a team of their own.
 */
#include "mptest.h"

#include "collective/mailbox.h"
#include "control/question.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUP 4
#define TAG   UINT64_C(0xfa17)

enum call { CREATE, SPLIT, SHRINK };

/* What a survivor got. */
struct verdict {
    int status;
    int n_members;
};

static enum call call;
static int members[GROUP], me, first, second = -1; /* places; the last two die */
static int dies_at = -1, n_messages;               /* this member dies before that message */
static int asks_until = -1, n_asked;               /* ... or before that question */

int __real_nxr_mailbox_swap(struct nixl_team *team, struct nxr_mailbox *post,
                            const struct nxr_mailbox_swap *swap);
int __wrap_nxr_mailbox_swap(struct nixl_team *team, struct nxr_mailbox *post,
                            const struct nxr_mailbox_swap *swap);
int __real_nxr_question_ask(struct nxr_peer *peer, union nxr_wire_message *message,
                            int64_t timeout_ns);
int __wrap_nxr_question_ask(struct nxr_peer *peer, union nxr_wire_message *message,
                            int64_t timeout_ns);

static NIXL_NORETURN void die(void)
{
    kill(getpid(), SIGKILL);
    abort();
}

int __wrap_nxr_mailbox_swap(struct nixl_team *team, struct nxr_mailbox *post,
                            const struct nxr_mailbox_swap *swap)
{
    if (dies_at >= 0 && n_messages++ == dies_at) {
        die();
    }
    return __real_nxr_mailbox_swap(team, post, swap);
}

int __wrap_nxr_question_ask(struct nxr_peer *peer, union nxr_wire_message *message,
                            int64_t timeout_ns)
{
    if (asks_until >= 0 && n_asked++ == asks_until) {
        die();
    }
    return __real_nxr_question_ask(peer, message, timeout_ns);
}

/* ---- scenarios ------------------------------------------------------------------------------- */

/* Members of a group are as far apart as they can be: on several hosts, where there are some. */
static void join_group(int first_scenario, bool has_two)
{
    int n_groups = nixl_size() / GROUP, group = nixl_rank() % n_groups;
    int scenario = first_scenario + group;

    for (int i = 0; i < GROUP; i++) {
        members[i] = group + i * n_groups;
        me = members[i] == nixl_rank() ? i : me;
    }
    first = scenario % GROUP;
    second = has_two ? (first + 1) % GROUP : -1;
    printf("scenario %d: the member at place %d dies before message %d", scenario, first,
           scenario / GROUP);
    printf(has_two ? ", the next before question %d\n" : "\n", scenario / GROUP % 3);
    if (me == first) {
        dies_at = scenario / GROUP;
    } else if (me == second) {
        asks_until = scenario / GROUP % 3;
    }
}

static bool is_victim(int place)
{
    return place == first || place == second;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int make_team(struct nixl_team *before, struct nixl_team **team_p)
{
    switch (call) {
    case SPLIT:
        return nixl_team_split(before, me % 2, -me, MPT_PATIENCE, team_p);
    case SHRINK:
        return nixl_team_shrink(before, MPT_PATIENCE, team_p);
    default:
        return nixl_team_create(members, GROUP, me == 0 ? NIXL_FOREVER : MPT_PATIENCE, team_p);
    }
}

/* The team that is divided or shrunk; victims are armed when all have it. */
static struct nixl_team *make_before(void)
{
    struct nixl_team *before = NULL;
    int point = dies_at, question = asks_until;

    dies_at = asks_until = -1;
    if (call != CREATE) {
        MPT_OK(nixl_team_create(members, GROUP, MPT_PATIENCE, &before));
        MPT_OK(nixl_barrier(before, MPT_PATIENCE));
    }
    dies_at = point;
    asks_until = question;
    return before;
}

/* All survivors tell all others what they got. */
static void compare(const struct verdict *own)
{
    struct verdict other;
    static struct nixl_note note;

    nixl_note_init(&note);
    for (int i = 0; i < GROUP; i++) {
        if (i != me && !is_victim(i)) {
            MPT_OK(nixl_notify(members[i], TAG, own, sizeof(*own), MPT_PATIENCE));
        }
    }
    for (int i = 0; i < GROUP; i++) {
        if (i == me || is_victim(i)) {
            continue;
        }
        MPT_OK(nixl_notify_recv(members[i], TAG, UINT64_MAX, MPT_PATIENCE, &note));
        MPT_EQ(note.nbytes, sizeof(other));
        memcpy(&other, note.payload, sizeof(other));
        if (other.status != own->status || other.n_members != own->n_members) {
            mpt_fail(__FILE__, __LINE__, "place %d got %s and %d members, place %d %s and %d", me,
                     nixl_strerror(own->status), own->n_members, i, nixl_strerror(other.status),
                     other.n_members);
        }
    }
}

/* What the survivors do next: each team that has a dead member says so, and they make one. */
static void go_on(struct nixl_team *team)
{
    int ranks[GROUP], n = 0;
    struct nixl_team *left;

    for (int i = 0; i < GROUP; i++) {
        if (!is_victim(i)) {
            ranks[n++] = members[i];
        }
    }
    if (team != NULL && call != SPLIT && nixl_team_size(team) > n) {
        MPT_STATUS(nixl_barrier(team, MPT_PATIENCE), NIXL_E_PEER_LOST);
        MPT_OK(nixl_team_shrink(team, MPT_PATIENCE, &left));
    } else {
        MPT_OK(nixl_team_create(ranks, (size_t)n, MPT_PATIENCE, &left));
    }
    MPT_EQ(nixl_team_size(left), n);
    MPT_OK(nixl_barrier(left, MPT_PATIENCE));
    MPT_OK(nixl_team_free(left));
}

static void survive(int status, struct nixl_team *team)
{
    struct verdict own = {.status = status};

    if (status == NIXL_OK) {
        own.n_members = nixl_team_size(team);
    } else {
        MPT_STATUS(status, NIXL_E_PEER_LOST);
        MPT_TRUE(nixl_last_error()->rank == members[first] ||
                 (second >= 0 && nixl_last_error()->rank == members[second]));
        MPT_EQ(nixl_peer_state(nixl_last_error()->rank), NIXL_PEER_LOST);
        team = NULL;
    }
    printf("got: %s\n", nixl_strerror(status));
    compare(&own);
    go_on(team);
    if (team != NULL) {
        MPT_OK(nixl_team_free(team));
    }
}

int main(int argc, char **argv)
{
    struct nixl_team *before, *team = NULL;
    int status;

    mpt_start();
    MPT_TRUE(argc > 2);
    call = strcmp(argv[1], "split") == 0 ? SPLIT : strcmp(argv[1], "shrink") == 0 ? SHRINK : CREATE;
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size() % GROUP, 0);
    join_group(atoi(argv[2]), argc > 3);
    before = make_before();
    status = make_team(before, &team);
    if (is_victim(me)) {
        die();
    }
    survive(status, team);
    if (before != NULL) {
        MPT_OK(nixl_team_free(before));
    }
    mpt_finalize();
    return mpt_passed();
}
