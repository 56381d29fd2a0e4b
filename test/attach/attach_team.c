/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Teams of two jobs that are attached, for test_team.sh. Usage:
 *     attach_team serve|visit WHERE NAME N_OTHERS [ROUNDS]
 * Each rank of the serving job publishes NAME.RANK. Each rank of the visiting job attaches to all
 * of them, says its rank, and then all make a team: first the servers, then the visitors, each side
 * by its own numbers. Every collective is verified. ROUNDS: how often. In the last one with `kill`
 * as the sixth argument, the last visitor kills itself in the midst of a collective; the others
 * lose it and make a team without it. With `split` it does so while the others split the team. With
 * `leave` the first server leaves behind its part of a broadcast, which the others begin only then.
 */
#include "test/mp/mptest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA    "teams"
#define TAG_HELLO 1
#define MOST      32

static const char *where, *name;
static int members[MOST], n_members, n_servers, me;
static bool is_server;

static const char *name_of(int rank)
{
    static char text[NIXL_PUBLISH_NAME_MAX + 1];

    snprintf(text, sizeof(text), "%s.%d", name, rank);
    return text;
}

/* ---- meeting --------------------------------------------------------------------------------- */

static void meet_visitors(int n)
{
    MPT_OK(nixl_publish(where, name_of(nixl_rank()), SCHEMA));
    puts("published");
    fflush(stdout);
    n_servers = nixl_size();
    for (int i = 0; i < n_servers; i++) {
        members[i] = i;
    }
    for (int i = 0; i < n; i++) {
        struct nixl_note note;
        int32_t rank;

        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, TAG_HELLO, UINT64_MAX, MPT_PATIENCE, &note));
        memcpy(&rank, note.payload, sizeof(rank));
        MPT_TRUE(rank >= 0 && rank < n && note.rank >= nixl_size());
        members[n_servers + rank] = note.rank;
    }
    me = nixl_rank();
    n_members = n_servers + n;
}

static void meet_servers(int n)
{
    int32_t rank = nixl_rank();

    n_servers = n;
    for (int i = 0; i < n; i++) {
        MPT_OK(nixl_attach(where, name_of(i), SCHEMA, MPT_PATIENCE, &members[i]));
        MPT_OK(nixl_notify(members[i], TAG_HELLO, &rank, sizeof(rank), MPT_PATIENCE));
    }
    for (int i = 0; i < nixl_size(); i++) {
        members[n + i] = i;
    }
    me = n + rank;
    n_members = n + nixl_size();
}

/* ---- teams ----------------------------------------------------------------------------------- */

static struct nixl_team *reform(int n)
{
    struct nixl_team *team;

    MPT_OK(nixl_team_reform(members, (size_t)n, MPT_PATIENCE, &team));
    MPT_EQ(nixl_team_size(team), n);
    MPT_EQ(nixl_team_rank(team), me);
    for (int i = 0; i < n; i++) {
        MPT_EQ(nixl_team_translate(team, i, NULL), members[i]);
        MPT_EQ(nixl_team_translate(NULL, members[i], team), i);
    }
    return team;
}

/* Other calls refuse such members, and say which one takes them. */
static void refusals(void)
{
    struct nixl_team *team;
    int list[2] = {nixl_rank(), members[is_server ? n_members - 1 : 0]};

    MPT_EQ(nixl_team_create(list, 2, 0, &team), NIXL_E_INVALID_ARG);
    MPT_TRUE(strstr(nixl_last_error()->text, "nixl_team_reform") != NULL);
}

static void verify(struct nixl_team *team, uint64_t seed)
{
    struct nixl_team *part, *rest;

    for (size_t nwords = 1; nwords <= 100000; nwords *= 10) {
        mpt_check_team(team, seed + nwords, nwords);
    }
    MPT_OK(nixl_team_split(team, me % 2, -me, MPT_PATIENCE, &part));
    mpt_check_team(part, seed, 1000);
    MPT_OK(nixl_team_shrink(team, MPT_PATIENCE, &rest));
    mpt_check_team(rest, seed, 1000);
    MPT_OK(nixl_team_free(rest));
    MPT_OK(nixl_team_free(part));
}

/* The last member dies: the others learn of it, whether they had spoken to it or not. */
static void lose_last(struct nixl_team *team)
{
    struct nixl_team *rest;
    int status = NIXL_OK;

    for (int i = 0; status == NIXL_OK; i++) {
        if (me == n_members - 1 && i == 3) {
            kill(getpid(), SIGKILL);
        }
        status = nixl_barrier(team, MPT_PATIENCE);
    }
    MPT_EQ(status, NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, members[n_members - 1]);
    MPT_EQ(nixl_team_reform(members, (size_t)n_members, MPT_PATIENCE, &rest), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, members[n_members - 1]);
    rest = reform(n_members - 1);
    mpt_check_team(rest, 1, 1000);
    MPT_OK(nixl_team_free(rest));
}

/* The last member dies instead of taking part in a split: the same for all others. */
static void lose_in_split(struct nixl_team *team)
{
    struct nixl_team *part;

    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    if (me == n_members - 1) {
        kill(getpid(), SIGKILL);
    }
    MPT_STATUS(nixl_team_split(team, me % 2, -me, MPT_PATIENCE, &part), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, members[n_members - 1]);
}

/*
 * The first member leaves when it has done its part, which is all that the others need. The next
 * call needs it.
 */
static void leave_first(struct nixl_team *team)
{
    uint64_t word = me == 0 ? 0x1122334455667788 : 0;
    struct nixl_event event = NIXL_EVENT_INIT;

    if (me == 0) {
        MPT_OK(nixl_broadcast(team, 0, &word, sizeof(word), MPT_PATIENCE));
        return;
    }
    do {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    } while (event.type != NIXL_EVENT_PEER_LEFT || event.rank != members[0]);
    MPT_OK(nixl_broadcast(team, 0, &word, sizeof(word), MPT_PATIENCE));
    MPT_EQ(word, 0x1122334455667788);
    mpt_barrier(); /* a member that fails ends the calls of the others */
    MPT_EQ(nixl_barrier(team, MPT_PATIENCE), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, members[0]);
    MPT_TRUE(strstr(nixl_last_error()->text, "has left") != NULL);
}

int main(int argc, char **argv)
{
    const char *how;
    int n_others, rounds;

    mpt_start();
    MPT_TRUE(argc >= 5);
    is_server = strcmp(argv[1], "serve") == 0;
    where = argv[2];
    name = argv[3];
    n_others = atoi(argv[4]);
    rounds = argc > 5 ? atoi(argv[5]) : 1;
    how = argc > 6 ? argv[6] : "";
    MPT_OK(nixl_init(NULL));
    if (is_server) {
        meet_visitors(n_others);
    } else {
        meet_servers(n_others);
    }
    refusals();
    for (int i = 0; i < rounds; i++) {
        struct nixl_team *team = reform(n_members);

        verify(team, (uint64_t)i);
        if (i == rounds - 1 && strcmp(how, "kill") == 0) {
            lose_last(team);
        } else if (i == rounds - 1 && strcmp(how, "split") == 0) {
            lose_in_split(team);
        } else if (i == rounds - 1 && strcmp(how, "leave") == 0) {
            leave_first(team);
        }
        MPT_OK(nixl_team_free(team));
    }
    if (is_server) {
        MPT_OK(nixl_unpublish(where, name_of(nixl_rank())));
    }
    mpt_finalize();
    return mpt_passed();
}
