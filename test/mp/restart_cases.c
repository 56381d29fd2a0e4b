/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of ranks that die and come back, by name: restart_cases CASE. What each is about stands
 * at its function. Run with --on-failure restart.
 */
#include "mptest.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TAG_PID   1
#define TAG_GO    2
#define TAG_LATE  3
#define TAG_TOKEN 4

static int rank, incarnation;

static void say(int to, uint64_t tag, const void *bytes, size_t nbytes)
{
    MPT_OK(nixl_notify(to, tag, bytes, nbytes, MPT_PATIENCE));
}

static struct nixl_note hear(int from, uint64_t tag)
{
    struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(from, tag, UINT64_MAX, MPT_PATIENCE, &note));
    return note;
}

/* The next event of a peer. */
static void expect(int type, int who, unsigned which)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    do {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    } while (event.type == NIXL_EVENT_REGION_CLOSED);
    MPT_EQ(event.type, type);
    MPT_EQ(event.rank, who);
    MPT_EQ(event.incarnation, which);
}

static void expect_return(int who, unsigned which)
{
    expect(NIXL_EVENT_PEER_LOST, who, which - 1);
    expect(NIXL_EVENT_PEER_JOINED, who, which);
}

static void tell_pid(int to)
{
    pid_t pid = getpid();

    say(to, TAG_PID, &pid, sizeof(pid));
}

static pid_t hear_pid(int from)
{
    struct nixl_note note = hear(from, TAG_PID);
    pid_t pid;

    memcpy(&pid, note.payload, sizeof(pid));
    return pid;
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    pause();
}

/* Exchange one notification with a rank. */
static void greet(int who)
{
    say(who, TAG_GO, NULL, 0);
    (void)hear(who, TAG_GO);
}

/*
 * How many processes of this rank came here before? By the length of a file, which the one with
 * `n_most` before it removes.
 */
static int n_starts_before(int n_most)
{
    char path[64];
    off_t n;
    int fd;

    snprintf(path, sizeof(path), "restart_cases.%d", (int)getppid());
    fd = open(path, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
    MPT_TRUE(fd >= 0);
    n = lseek(fd, 0, SEEK_END);
    MPT_EQ(write(fd, "x", 1), 1);
    close(fd);
    if (n == n_most) {
        unlink(path);
    }
    return (int)n;
}

/*
 * PMIx's client waits with recv() for the first answer of its server, and die_connecting() makes
 * this process die there: the connection is closed before, so that the second answer fails.
 */
static bool dies_connecting;

__attribute__((visibility("default"))) ssize_t recv(int fd, void *buf, size_t nbytes, int flags)
{
    if (dies_connecting) {
        close(fd);
        die();
    }
    return recvfrom(fd, buf, nbytes, flags, NULL, NULL);
}

/* ---- the cases, after nixl_init() ------------------------------------------------------------ */

/* It fails before the ranks have met: they wait for it, and nobody notices. */
static void early(void)
{
    MPT_EQ(incarnation, 0);
    greet((rank + 1) % 2);
}

/* It dies while it connects to nixlrun, again and again. Its server must bear that. */
static void connecting(void)
{
    early();
}

/* The new process dies, too, before it is readmitted; the third one is taken. */
static void again(void)
{
    if (rank == 1) {
        if (incarnation < 2) {
            die();
        }
        greet(0);
        return;
    }
    expect_return(1, 1);
    expect_return(1, 2);
    MPT_EQ(nixl_peer_readmit(1, 1), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_peer_state(1), NIXL_PEER_LOST);
    MPT_OK(nixl_peer_readmit(1, 2));
    greet(1);
}

/* Rank 0 itself comes back. */
static void lowest(void)
{
    if (rank == 0) {
        if (incarnation == 0) {
            die();
        }
        for (int other = 1; other < nixl_size(); other++) {
            greet(other);
        }
        return;
    }
    expect_return(0, 1);
    MPT_OK(nixl_peer_readmit(0, 1));
    greet(0);
}

/* Take each that has come back since this process has joined, or before it. */
static void take_all_back(int n_ended)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    for (int n_joined = 0; n_joined < n_ended;) {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
        if (event.type == NIXL_EVENT_PEER_JOINED) {
            MPT_OK(nixl_peer_readmit(event.rank, event.incarnation));
            n_joined++;
        }
    }
}

/* All but rank 0 die at once. Those who come back take each other for what they are then. */
static void both(void)
{
    int size = nixl_size();

    if (rank > 0 && incarnation == 0) {
        (void)hear(0, TAG_GO);
        die();
    }
    if (rank > 0) {
        greet(0);
        return;
    }
    for (int other = 1; other < size; other++) {
        say(other, TAG_GO, NULL, 0);
    }
    take_all_back(size - 1);
    for (int other = 1; other < size; other++) {
        greet(other);
    }
}

/* A survivor is stopped while another rank dies, comes back, and is used by the third. */
static void stopped(void)
{
    pid_t pid;

    if (rank == 2) {
        if (incarnation == 0) {
            (void)hear(0, TAG_GO);
            die();
        }
        greet(0);
        greet(1);
        return;
    }
    if (rank == 1) {
        tell_pid(0);
        expect_return(2, 1);
        MPT_OK(nixl_peer_readmit(2, 1));
        greet(2);
        return;
    }
    pid = hear_pid(1);
    mpt_bring(pid, SIGSTOP, "T");
    say(2, TAG_GO, NULL, 0);
    expect_return(2, 1);
    MPT_OK(nixl_peer_readmit(2, 1));
    greet(2);
    mpt_bring(pid, SIGCONT, "RSD");
}

/* Rank 1 dies and comes back; rank 0 has a channel with it, a token of it, and a notification. */
static void leave_things(struct nixl_region *region)
{
    static struct nixl_channel *channel;
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req;
    void *slot;

    MPT_OK(nixl_channel_open("c", 0, NIXL_CHANNEL_PRODUCER, 64, 4, NULL, &channel));
    MPT_OK(nixl_channel_acquire(channel, MPT_PATIENCE, &slot));
    memset(slot, 7, 64);
    MPT_OK(nixl_channel_publish(channel, 64));
    MPT_STATUS(nixl_pair_expose(0, region, 0, 64, NIXL_PAIR_READ, NIXL_FOREVER, token,
                                sizeof(token), &req),
               NIXL_INPROGRESS);
    say(0, TAG_TOKEN, token, sizeof(token));
    say(0, TAG_LATE, NULL, 0);
    (void)hear(0, TAG_GO);
    die();
}

static void come_back(void)
{
    struct nixl_channel *channel;
    struct nixl_team *team;
    const int ranks[] = {0, 1};

    MPT_EQ(nixl_team_world(0, &team), NIXL_E_UNSUPPORTED);
    MPT_EQ(nixl_team_create(ranks, 2, 0, &team), NIXL_E_UNSUPPORTED);
    MPT_EQ(nixl_channel_open("c", 0, NIXL_CHANNEL_PRODUCER, 64, 4, NULL, &channel), NIXL_E_STALE);
    greet(0);
    MPT_OK(nixl_channel_open("new", 0, NIXL_CHANNEL_PRODUCER, 64, 4, NULL, &channel));
    (void)hear(0, TAG_GO);
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
}

static void kinds(void)
{
    struct nixl_channel *channel, *any, *new_channel;
    char token[NIXL_TOKEN_MAX + 1], bytes[64];
    struct nixl_region *region;
    struct nixl_team *team;
    struct nixl_note note;
    struct nixl_req *req;
    const int ranks[] = {0, 1};
    void *slot;

    MPT_OK(nixl_region_alloc("r", 64, NULL, &region));
    if (rank == 1) {
        if (incarnation == 0) {
            leave_things(region);
        }
        come_back();
        return;
    }
    MPT_OK(nixl_channel_open("c", 1, NIXL_CHANNEL_CONSUMER, 64, 4, NULL, &channel));
    MPT_OK(nixl_channel_open("any", NIXL_ANY_RANK, NIXL_CHANNEL_CONSUMER, 64, 4, NULL, &any));
    note = hear(1, TAG_TOKEN);
    memcpy(token, note.payload, sizeof(token));
    say(1, TAG_GO, NULL, 0);
    expect_return(1, 1);
    MPT_OK(nixl_peer_readmit(1, 1));
    greet(1);
    nixl_note_init(&note);
    MPT_EQ(nixl_notify_recv(1, TAG_LATE, UINT64_MAX, 0, &note), NIXL_INPROGRESS);
    MPT_EQ(nixl_pair_read(token, bytes, sizeof(bytes), &req), NIXL_E_STALE);
    MPT_EQ(nixl_team_create(ranks, 2, 0, &team), NIXL_E_UNSUPPORTED);
    MPT_OK(nixl_channel_recv(channel, MPT_PATIENCE, &slot, NULL, NULL));
    MPT_CHECK_BYTES(slot, 64, 7); /* it had arrived before the death */
    MPT_OK(nixl_channel_release(channel, slot));
    MPT_EQ(nixl_channel_recv(channel, MPT_PATIENCE, &slot, NULL, NULL), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_channel_recv(any, 0, &slot, NULL, NULL), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, 1);
    MPT_EQ(nixl_channel_recv(any, 0, &slot, NULL, NULL), NIXL_INPROGRESS);
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
    MPT_OK(nixl_channel_close(any, MPT_PATIENCE));
    MPT_OK(nixl_channel_open("new", 1, NIXL_CHANNEL_CONSUMER, 64, 4, NULL, &new_channel));
    say(1, TAG_GO, NULL, 0);
    MPT_EQ(nixl_channel_recv(new_channel, MPT_PATIENCE, &slot, NULL, NULL), NIXL_E_STALE);
    MPT_OK(nixl_channel_close(new_channel, MPT_PATIENCE));
    MPT_OK(nixl_get(1, region, 0, bytes, sizeof(bytes)));
}

/*
 * A queue that waits for a rank reports its loss though it is readmitted before the queue looks.
 * The name of its host stays where it is.
 */
static void watch(void)
{
    static uint64_t word;
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_cq_entry entry;
    const char *host;
    struct nixl_cq *cq;
    size_t n = 0;

    if (rank == 1) {
        if (incarnation == 0) {
            hear(0, TAG_GO);
            die();
        }
        greet(0);
        return;
    }
    host = nixl_host(1);
    MPT_OK(nixl_cq_open(NULL, &cq));
    op.cq = cq;
    op.flags = NIXL_OP_RANK;
    op.rank = 1;
    op.user_data = 42;
    MPT_EQ(nixl_signal_wait_x(&word, NIXL_COMPARE_EQ, 1, &op, NULL), NIXL_INPROGRESS);
    say(1, TAG_GO, NULL, 0);
    expect_return(1, 1);
    MPT_OK(nixl_peer_readmit(1, 1));
    MPT_OK(nixl_cq_wait(cq, &entry, 1, MPT_PATIENCE, &n));
    MPT_EQ(n, 1);
    MPT_EQ(entry.kind, NIXL_CQ_SIGNAL);
    MPT_EQ(entry.user_data, 42);
    MPT_EQ(entry.status, NIXL_E_PEER_LOST);
    MPT_EQ(nixl_signal_wait_x(&word, NIXL_COMPARE_EQ, 1, &op, NULL), NIXL_INPROGRESS);
    MPT_EQ(nixl_cq_wait(cq, &entry, 1, 0, &n), NIXL_INPROGRESS);
    greet(1);
    MPT_TRUE(host != NULL && nixl_host(1) == host);
    MPT_OK(nixl_cq_close(cq));
}

/* Rank 0's file is written through its window for rank 1, by both processes of this. */
static void window(void)
{
    static char bytes[1 << 20], back[sizeof(bytes)];
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region *region;
    char path[64];

    if (rank == 0) {
        snprintf(path, sizeof(path), "restart_cases.window.%d", (int)getpid());
        params.flags = NIXL_FILE_CREATE;
        params.nbytes = sizeof(bytes);
        MPT_OK(nixl_region_open_file("f", path, &params, &region));
        unlink(path);
        greet(1);
        expect_return(1, 1);
        MPT_OK(nixl_peer_readmit(1, 1));
        greet(1);
        MPT_EQ(nixl_peer_state(1), NIXL_PEER_ALIVE);
        return;
    }
    memset(bytes, 1 + incarnation, sizeof(bytes));
    MPT_OK(nixl_region_open("f", &region));
    MPT_OK(nixl_put(0, region, 0, bytes, sizeof(bytes)));
    MPT_OK(nixl_get(0, region, 0, back, sizeof(back)));
    MPT_CHECK_BYTES(back, sizeof(back), 1 + incarnation);
    greet(0);
    if (incarnation == 0) {
        die();
    }
}

/*
 * A process dies in its nixl_finalize(), which the others have heard of. The next one of its rank
 * has not come there: they wait for it.
 */
static void ending(void)
{
    struct nixl_note note;
    pid_t pid;

    nixl_note_init(&note);
    if (rank == 1) {
        (void)hear(0, TAG_GO);
        if (incarnation == 0) {
            die();
        }
        tell_pid(0);
        if (incarnation == 2) {
            MPT_STATUS(nixl_notify_recv(0, TAG_LATE, UINT64_MAX, MPT_PATIENCE, &note),
                       NIXL_E_PEER_LOST);
            MPT_HAS("nixl_finalize");
            MPT_EQ(nixl_peer_state(0), NIXL_PEER_ALIVE);
        }
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        if (rank == 0) {
            say(1, TAG_GO, NULL, 0);
        }
        if (rank == 0 && i == 1) {
            pid = hear_pid(1);
            MPT_STATUS(nixl_notify_recv(1, TAG_LATE, UINT64_MAX, MPT_PATIENCE, &note),
                       NIXL_E_PEER_LOST);
            MPT_HAS("nixl_finalize");
            kill(pid, SIGKILL);
        }
        take_all_back(1);
    }
    if (rank == 0) {
        say(1, TAG_GO, NULL, 0);
        (void)hear_pid(1);
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

/* A rank that has found a fault must not be started again. */
static void end_job(const char *file, int line, const char *text)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, text);
    nixl_abort(1, "a check has failed");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"early", early},   {"connecting", connecting}, {"again", again}, {"lowest", lowest},
        {"both", both},     {"stopped", stopped},       {"kinds", kinds}, {"watch", watch},
        {"window", window}, {"ending", ending}};
    const char *name = argc > 1 ? argv[1] : "";

    mpt_start();
    mpt_on_fail = end_job;
    if (strcmp(getenv("RANK"), "1") == 0) {
        if (strcmp(name, "early") == 0 && n_starts_before(1) == 0) {
            return 3;
        }
        dies_connecting = strcmp(name, "connecting") == 0 && n_starts_before(4) < 4;
    }
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    incarnation = nixl_incarnation();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, name) == 0) {
            cases[i].run();
        }
    }
    mpt_finalize();
    return mpt_passed();
}
