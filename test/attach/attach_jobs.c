/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two jobs that meet by one attach: attach_jobs SIDE WHAT WHERE NAME [SCHEMA]. Rank 0 of one side
 * publishes, rank 0 of the other side attaches, and all other pairs are made by nixl_attach_rank().
 *     publish | attach   which side this is; WHAT is the same for both:
 *     there    each rank of the side that attaches makes every call to each of the other side
 *     back     each rank of the side that publishes does, to ranks that have not spoken to it
 *     both     all ranks of both sides attach to each other at once, and say hello
 *     contact  the publisher dies; the ranks that it has made known go on, and make others known
 *     asked    a rank that is asked for has died
 *     return   ... and comes back, since its job is started with --on-failure restart
 *     refuse   questions that are refused
 */
#include "attach_calls.h"
#include "test/mp/mptest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG_JOB = 101, TAG_CALLS, TAG_HELLO, TAG_DONE, TAG_DIE };

#define MOST_RANKS 64

struct job {
    uint64_t id;
    int32_t size;
};

static const char *what, *where, *name;
static bool is_publisher;
static struct job other; /* the other side's */
static int contact = -1; /* of rank 0: the number of rank 0 of the other side */

static bool is(const char *word)
{
    return strcmp(what, word) == 0;
}

/* ---- how the two meet ------------------------------------------------------------------------ */

/* The next event about a peer. */
static struct nixl_event next_event(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    do {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    } while (event.type == NIXL_EVENT_REGION_CLOSED);
    return event;
}

/* Rank 0: meet rank 0 of the other side. */
static void meet_first(void)
{
    struct nixl_peer_info info = NIXL_PEER_INFO_INIT;
    struct nixl_event event;

    if (is_publisher) {
        char text[512];

        MPT_OK(nixl_publish(where, name, "jobs"));
        MPT_OK(nixl_publish_query(where, name, text, sizeof(text)));
        printf("at %s\npublished\n", text);
        fflush(stdout);
        event = next_event();
        MPT_EQ(event.type, NIXL_EVENT_PEER_JOINED);
        MPT_TRUE(strcmp(event.name, name) == 0);
        contact = event.rank;
    } else {
        MPT_OK(nixl_attach(where, name, "jobs", MPT_PATIENCE, &contact));
    }
    MPT_OK(nixl_peer_query(contact, &info));
    MPT_EQ(info.rank, contact);
    MPT_EQ(info.job_rank, 0);
    other = (struct job){info.job, info.job_size};
}

/* All ranks learn which job they have met: numbers of rank 0 would mean nothing to them. */
static void meet(void)
{
    struct nixl_note note;

    if (nixl_rank() == 0) {
        meet_first();
        for (int rank = 1; rank < nixl_size(); rank++) {
            MPT_OK(nixl_notify(rank, TAG_JOB, &other, sizeof(other), MPT_PATIENCE));
        }
        return;
    }
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(0, TAG_JOB, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_EQ(note.nbytes, sizeof(other));
    memcpy(&other, note.payload, sizeof(other));
}

/* The number of a rank of the other side, through that process. */
static int reach(int through, int job_rank)
{
    struct nixl_peer_info info = NIXL_PEER_INFO_INIT;
    int rank = -1, again = -1;

    MPT_OK(nixl_attach_rank(through, other.id, job_rank, MPT_PATIENCE, &rank));
    MPT_OK(nixl_peer_query(rank, &info));
    MPT_EQ(info.job, other.id);
    MPT_EQ(info.job_rank, job_rank);
    MPT_EQ(info.job_size, other.size);
    MPT_OK(nixl_attach_rank(through, other.id, job_rank, 0, &again));
    MPT_EQ(again, rank);
    MPT_OK(nixl_peer_number(other.id, job_rank, &again));
    MPT_EQ(again, rank);
    return rank;
}

/* ---- every call between all ------------------------------------------------------------------ */

/* Each rank of this side makes every call to each of the other side, to one after the other. */
static void visit_all(void)
{
    int n_rounds = other.size > nixl_size() ? other.size : nixl_size();
    int ranks[MOST_RANKS];

    MPT_TRUE(other.size <= MOST_RANKS);
    for (int i = 0; i < other.size; i++) {
        /* Of a rank other than 0: through rank 0 of its own job at first, and then by itself. */
        ranks[i] = reach(i == 0 ? 0 : nixl_rank(), i);
    }
    for (int round = 0; round < n_rounds; round++) {
        int goal = (nixl_rank() + round) % n_rounds;

        mpt_barrier(); /* one visitor at a time */
        if (goal < other.size) {
            MPT_OK(nixl_notify(ranks[goal], TAG_CALLS, NULL, 0, MPT_PATIENCE));
            attach_calls_visit(ranks[goal]);
        }
    }
    for (int i = 0; i < other.size; i++) {
        MPT_OK(nixl_notify(ranks[i], TAG_DONE, NULL, 0, MPT_PATIENCE));
    }
    /* Who is still served by others learns of a rank that leaves: nobody leaves before. */
    for (int i = 0; i < other.size; i++) {
        mpt_hear(ranks[i], TAG_DONE);
    }
}

/* Serve all ranks of the other side; those who have come are known by name. */
static void serve_all(void)
{
    int n_done = 0, served[MOST_RANKS];
    struct nixl_note note;

    MPT_TRUE(other.size <= MOST_RANKS);
    nixl_note_init(&note);
    while (n_done < other.size) {
        MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, 0, 0, MPT_PATIENCE, &note));
        MPT_TRUE(note.rank >= nixl_size());
        MPT_TRUE(note.tag == TAG_CALLS || note.tag == TAG_DONE);
        if (note.tag == TAG_CALLS) {
            attach_calls_serve(note.rank);
        }
        if (note.tag == TAG_DONE) {
            served[n_done++] = note.rank;
        }
    }
    for (int i = 0; i < n_done; i++) {
        MPT_OK(nixl_notify(served[i], TAG_DONE, NULL, 0, MPT_PATIENCE));
    }
}

/* Each rank takes one event of each of the other side, whoever has begun. */
static void take_events(void)
{
    bool has_joined[MOST_RANKS] = {false};
    struct nixl_peer_info info = NIXL_PEER_INFO_INIT;

    for (int i = is_publisher && nixl_rank() == 0 ? 1 : 0; i < other.size; i++) {
        struct nixl_event event = next_event();

        MPT_EQ(event.type, NIXL_EVENT_PEER_JOINED);
        MPT_TRUE(strcmp(event.name, name) == 0);
        MPT_OK(nixl_peer_query(event.rank, &info));
        MPT_EQ(info.job, other.id);
        MPT_TRUE(info.job_rank >= 0 && info.job_rank < other.size && !has_joined[info.job_rank]);
        has_joined[info.job_rank] = true;
    }
}

static void calls(bool is_visitor)
{
    if (is_visitor) {
        visit_all();
    } else {
        serve_all();
    }
    take_events();
}

/* All at once: both sides ask for the same pairs. */
static void both(void)
{
    struct nixl_note note;
    int ranks[MOST_RANKS];

    nixl_note_init(&note);
    for (int i = 0; i < other.size; i++) {
        ranks[i] = reach(i % 2 == 0 ? 0 : nixl_rank(), i);
        MPT_OK(nixl_notify(ranks[i], TAG_HELLO, NULL, 0, MPT_PATIENCE));
    }
    for (int i = 0; i < other.size; i++) { /* who has heard all may have left already */
        MPT_OK(nixl_notify_recv(ranks[i], TAG_HELLO, UINT64_MAX, MPT_PATIENCE, &note));
    }
    take_events();
}

/* ---- deaths ---------------------------------------------------------------------------------- */

/* Wait for an order; each death ends one such wait. */
static void await(uint64_t tag)
{
    struct nixl_note note;
    int status;

    nixl_note_init(&note);
    do {
        status = nixl_notify_recv(NIXL_ANY_RANK, tag, UINT64_MAX, MPT_PATIENCE, &note);
    } while (status == NIXL_E_PEER_LOST);
    MPT_OK(status);
}

/* Until that attached process is lost to this one. */
static void await_loss(int rank)
{
    struct nixl_event event;

    do {
        event = next_event();
    } while (event.type == NIXL_EVENT_PEER_JOINED);
    MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
    MPT_EQ(event.rank, rank);
    MPT_EQ(nixl_notify(rank, TAG_HELLO, NULL, 0, MPT_PATIENCE), NIXL_E_PEER_LOST);
}

/* Rank 0 of the publishing side, of 3, dies; the other side has one rank. */
static void contact_dies(void)
{
    int rank = -1;

    if (is_publisher) {
        await(nixl_rank() == 0 ? TAG_DIE : TAG_DONE);
        MPT_TRUE(nixl_rank() != 0 || raise(SIGKILL) == 0);
        return;
    }
    rank = reach(contact, 1);
    MPT_OK(nixl_notify(contact, TAG_DIE, NULL, 0, MPT_PATIENCE));
    await_loss(contact);
    MPT_EQ(nixl_attach_rank(contact, other.id, 2, MPT_PATIENCE, &rank), NIXL_E_PEER_LOST);
    MPT_OK(nixl_notify(reach(nixl_rank(), 2), TAG_DONE, NULL, 0, MPT_PATIENCE));
    MPT_OK(nixl_notify(reach(nixl_rank(), 1), TAG_DONE, NULL, 0, MPT_PATIENCE));
    MPT_OK(nixl_detach(contact, MPT_PATIENCE));
}

/* Readmit rank 2 once it has come back. */
static void readmit(void)
{
    struct nixl_event event;

    do {
        event = next_event();
    } while (event.type != NIXL_EVENT_PEER_JOINED || event.rank >= nixl_size());
    MPT_EQ(event.rank, 2);
    MPT_OK(nixl_peer_readmit(2, event.incarnation));
}

/* Rank 2 of the publishing side dies. It is refused until it comes back, and has another number. */
static void asked_dies(bool returns)
{
    struct nixl_peer_info info = NIXL_PEER_INFO_INIT;
    int former, rank = -1;

    if (is_publisher && nixl_rank() == 2 && nixl_incarnation() == 0) {
        await(TAG_DIE);
        MPT_EQ(raise(SIGKILL), 0);
    }
    if (is_publisher) {
        if (nixl_rank() < 2 && returns) {
            readmit();
        }
        await(TAG_DONE);
        return;
    }
    former = reach(contact, 2);
    MPT_OK(nixl_notify(former, TAG_DIE, NULL, 0, MPT_PATIENCE));
    await_loss(former);
    if (returns) {
        rank = reach(contact, 2);
        MPT_TRUE(rank > former);
        MPT_OK(nixl_peer_query(rank, &info));
        MPT_EQ(info.incarnation, 1);
        MPT_OK(nixl_notify(rank, TAG_DONE, NULL, 0, MPT_PATIENCE));
        MPT_EQ(nixl_notify(former, TAG_DONE, NULL, 0, MPT_PATIENCE), NIXL_E_PEER_LOST);
    } else {
        MPT_EQ(nixl_attach_rank(contact, other.id, 2, 100 * MPT_MS, &rank), NIXL_E_PEER_LOST);
        printf("%s\n", nixl_last_error()->text);
        MPT_EQ(nixl_peer_number(other.id, 2, &rank), NIXL_E_NOT_FOUND);
    }
    MPT_OK(nixl_detach(former, MPT_PATIENCE));
    MPT_OK(nixl_notify(reach(contact, 1), TAG_DONE, NULL, 0, MPT_PATIENCE));
    MPT_OK(nixl_notify(contact, TAG_DONE, NULL, 0, MPT_PATIENCE));
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(int status, int expected)
{
    MPT_EQ(status, expected);
    printf("%d: %s\n", status, nixl_last_error()->text);
}

/* The side that attaches has 2 ranks. */
static void refuse(void)
{
    struct nixl_peer_info own = NIXL_PEER_INFO_INIT;
    int rank = -7;

    if (is_publisher) {
        if (nixl_rank() == 0) {
            await(TAG_DONE);
        }
        return;
    }
    if (nixl_rank() == 0) {
        await(TAG_DONE);
        MPT_OK(nixl_peer_query(0, &own));
        refused(nixl_attach_rank(contact, other.id, other.size, MPT_S, &rank), NIXL_E_INVALID_ARG);
        refused(nixl_attach_rank(contact, other.id, -1, MPT_S, &rank), NIXL_E_INVALID_ARG);
        refused(nixl_attach_rank(contact, own.job, 1, MPT_S, &rank), NIXL_E_INVALID_ARG);
        refused(nixl_attach_rank(contact, other.id + 1, 1, MPT_S, &rank), NIXL_E_INVALID_ARG);
        refused(nixl_attach_rank(contact, other.id, 1, -1, &rank), NIXL_E_INVALID_ARG);
        refused(nixl_attach_rank(contact, other.id, 1, MPT_S, NULL), NIXL_E_INVALID_ARG);
        refused(nixl_attach_rank(99, other.id, 1, MPT_S, &rank), NIXL_E_INVALID_ARG);
        refused(nixl_attach_rank(1, other.id + 1, 1, 0, &rank), NIXL_E_NOT_FOUND);
        refused(nixl_attach_rank(0, other.id + 1, 1, MPT_MS, &rank), NIXL_E_NOT_FOUND);
        MPT_EQ(nixl_peer_number(own.job, 1, NULL), NIXL_E_INVALID_ARG);
        MPT_EQ(nixl_peer_number(own.job, 2, &rank), NIXL_E_NOT_FOUND);
        MPT_EQ(rank, -7);
        MPT_OK(nixl_peer_number(own.job, 1, &rank));
        MPT_EQ(rank, 1);
        MPT_OK(nixl_notify(contact, TAG_DONE, NULL, 0, MPT_PATIENCE));
    } else {
        refused(nixl_attach_rank(1, other.id, 0, 0, &rank), NIXL_E_NOT_FOUND);
        MPT_OK(nixl_notify(0, TAG_DONE, NULL, 0, MPT_PATIENCE));
    }
}

int main(int argc, char **argv)
{
    mpt_start();
    if (argc < 5) {
        mpt_fail(__FILE__, __LINE__, "usage: attach_jobs publish|attach WHAT WHERE NAME");
    }
    is_publisher = strcmp(argv[1], "publish") == 0;
    what = argv[2];
    where = argv[3];
    name = argv[4];
    MPT_OK(nixl_init(NULL));
    if (nixl_incarnation() == 0) {
        meet();
    }
    if (is("there") || is("back")) {
        calls(is("there") != is_publisher);
    } else if (is("both")) {
        both();
    } else if (is("contact")) {
        contact_dies();
    } else if (is("asked") || is("return")) {
        asked_dies(is("return"));
    } else if (is("refuse")) {
        refuse();
    } else {
        mpt_fail(__FILE__, __LINE__, "'%s' is not known", what);
    }
    MPT_OK(nixl_finalize());
    puts("done");
    return mpt_passed();
}
