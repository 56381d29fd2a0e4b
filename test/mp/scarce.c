/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls without memory: `scarce`. In each call of rank 0, the first, the second, the third ...
 * request of the library for memory fails. The call returns NIXL_E_NO_MEMORY, or does without; then
 * it succeeds, as if nothing had been. Neither leaves memory behind when it is made again and
 * again. The last rank is the peer of all calls, and may be the same.
 */
#define _GNU_SOURCE /* mallinfo2 */
#include "lack.h"
#include "mptest.h"
#include "test/op_form.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_REQUESTS 200 /* of one call */
#define TAG_NOTE      0x5c01
#define TAG_ANSWER    0x5c02
#define TAG_END       0x5c03
#define LARGE_NBYTES  (256u << 10)
#define N_REPEATED    300 /* more than handles that are kept apart */
#define LEAST_NBYTES  24  /* that malloc() takes */

/* ---- the calls ------------------------------------------------------------------------------- */

static int peer;
static struct nixl_region *region, *made_region;
static struct nixl_context *context;
static struct nixl_cq *cq;
static struct nixl_channel *channel;
static struct nixl_team *team;
static struct nixl_xfer *xfer;
static struct nixl_req *req;
static char buffer[LARGE_NBYTES];
static _Thread_local struct nixl_note note;
static char token[NIXL_TOKEN_MAX + 1], path[400];

static int wait_if_started(int status)
{
    if (status == NIXL_INPROGRESS) {
        MPT_TRUE(req != NULL);
        status = nixl_req_wait(&req, MPT_PATIENCE);
    }
    MPT_TRUE(req == NULL);
    return status;
}

static int alloc_region(void)
{
    return nixl_region_alloc("made", 4096, NULL, &made_region);
}

static int register_region(void)
{
    return nixl_region_register("made", buffer, sizeof(buffer), NULL, &made_region);
}

static int open_file(void)
{
    return nixl_region_open_file("made", path, NULL, &made_region);
}

static int open_region(void)
{
    return nixl_region_open("other", &made_region);
}

static void close_region(void)
{
    MPT_TRUE(made_region != NULL);
    MPT_OK(nixl_region_close(made_region, MPT_PATIENCE));
    made_region = NULL;
}

/* The first use of a peer's part. If it cannot be opened, the next use tries again. */
static int put_to_new(void)
{
    int status = open_region();

    if (status != NIXL_OK) {
        return status;
    }
    status = nixl_put(peer, made_region, 0, buffer, 8);
    if (status != NIXL_OK) {
        MPT_OK(nixl_put(peer, made_region, 0, buffer, 8));
    }
    close_region();
    return status;
}

static int add_to_new(void)
{
    uint64_t one = 1, before = 0;
    int status = open_region();

    if (status != NIXL_OK) {
        return status;
    }
    status = nixl_atomic(peer, made_region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &before);
    close_region();
    return status;
}

static int put_large(void)
{
    return wait_if_started(nixl_put_x(peer, region, 0, buffer, LARGE_NBYTES, NULL, &req));
}

static int get_large(void)
{
    return wait_if_started(nixl_get_x(peer, region, 0, buffer, LARGE_NBYTES, NULL, &req));
}

/* What the peer has got is taken, so that nothing waits for room. */
static int note_arrived(int status)
{
    if (status == NIXL_OK) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(peer, peer > 0 ? TAG_ANSWER : TAG_NOTE, UINT64_MAX, MPT_PATIENCE,
                                &note));
    }
    return status;
}

static int put_and_note(void)
{
    return note_arrived(
        wait_if_started(nixl_put_x(peer, region, 0, buffer, LARGE_NBYTES,
                                   (struct nixl_op[]){op_note(TAG_NOTE, "abc", 3)}, &req)));
}

static int put_and_signal(void)
{
    return wait_if_started(nixl_put_x(peer, region, 8, buffer, LARGE_NBYTES - 8,
                                      (struct nixl_op[]){op_signal(region, 0, NIXL_SIGNAL_ADD, 1)},
                                      &req));
}

static int notify(void)
{
    return note_arrived(wait_if_started(nixl_notify_x(peer, TAG_NOTE, "abc", 3, NULL, &req)));
}

static int get_and_note(void)
{
    return note_arrived(
        wait_if_started(nixl_get_x(peer, region, 0, buffer, LARGE_NBYTES,
                                   (struct nixl_op[]){op_note(TAG_NOTE, "abc", 3)}, &req)));
}

static int signal_word(void)
{
    return wait_if_started(nixl_signal_x(peer, region, 0, NIXL_SIGNAL_ADD, 1, NULL, &req));
}

static int add_to_word(void)
{
    uint64_t one = 1, before = 0;

    return wait_if_started(nixl_atomic_x(peer, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one,
                                         NULL, &before, &req));
}

static int flush(void)
{
    return wait_if_started(nixl_flush_x(peer, region, NULL, &req));
}

static int create_xfer(void)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;

    local.addr = buffer;
    remote.region = region;
    local.block_nbytes = remote.block_nbytes = 512;
    local.stride = remote.stride = 1024;
    local.nblocks = remote.nblocks = 100;
    return nixl_xfer_create(NIXL_XFER_PUT, peer, &local, 1, &remote, 1, &xfer);
}

static void free_xfer(void)
{
    MPT_TRUE(xfer != NULL);
    MPT_OK(nixl_xfer_free(xfer));
    xfer = NULL;
}

static int run_xfer(void)
{
    int status = create_xfer();

    if (status == NIXL_OK) {
        status = wait_if_started(nixl_xfer_start(xfer, &req));
        free_xfer();
    }
    return status;
}

static int open_context(void)
{
    return nixl_context_open("scarce", NULL, &context);
}

static void close_context(void)
{
    MPT_TRUE(context != NULL);
    MPT_OK(nixl_context_close(context));
    context = NULL;
}

static int open_cq(void)
{
    return nixl_cq_open(NULL, &cq);
}

static void close_cq(void)
{
    MPT_TRUE(cq != NULL);
    MPT_OK(nixl_cq_close(cq));
    cq = NULL;
}

static int open_channel(void)
{
    return nixl_channel_open("scarce", peer, NIXL_CHANNEL_CONSUMER, 64, 4, NULL, &channel);
}

static void close_channel(void)
{
    MPT_TRUE(channel != NULL);
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
    channel = NULL;
}

/* A team of this rank alone needs no other one. */
static int create_team(void)
{
    int self = nixl_rank();

    return wait_if_started(nixl_team_create_x(&self, 1, NULL, &team, &req));
}

static void free_team(void)
{
    MPT_TRUE(team != NULL);
    MPT_OK(nixl_team_free(team));
    team = NULL;
}

static int expose(void)
{
    int status = nixl_pair_expose(peer, region, 0, 8, NIXL_PAIR_READ, MPT_PATIENCE, token,
                                  sizeof(token), &req);

    if (status == NIXL_OK || status == NIXL_INPROGRESS) {
        MPT_TRUE(req != NULL);
        status = nixl_req_cancel(&req, MPT_PATIENCE, NULL);
        MPT_TRUE(req == NULL && (status == NIXL_OK || status == NIXL_E_CANCELED));
        status = NIXL_OK;
    }
    return status;
}

static const struct step {
    const char *name;
    int (*call)(void);
    void (*undo)(void);
    bool is_of_new_thread; /* that makes no other call */
} steps[] = {{"open", open_region, close_region, false},
             {"first put", put_to_new, NULL, false},
             {"first put of a thread", put_to_new, NULL, true},
             {"first atomic of a thread", add_to_new, NULL, true},
             {"alloc", alloc_region, close_region, false},
             {"register", register_region, close_region, false},
             {"file", open_file, close_region, false},
             {"put", put_large, NULL, false},
             {"get", get_large, NULL, false},
             {"put and note", put_and_note, NULL, false},
             {"get and note", get_and_note, NULL, false},
             {"put and signal", put_and_signal, NULL, false},
             {"notify", notify, NULL, false},
             {"signal", signal_word, NULL, false},
             {"atomic", add_to_word, NULL, false},
             {"flush", flush, NULL, false},
             {"xfer", create_xfer, free_xfer, false},
             {"xfer started", run_xfer, NULL, false},
             {"context", open_context, close_context, false},
             {"cq", open_cq, close_cq, false},
             {"channel", open_channel, close_channel, false},
             {"team", create_team, free_team, false},
             {"pair", expose, NULL, false}};
#define N_STEPS     (sizeof(steps) / sizeof(steps[0]))
#define N_OF_OTHERS 4 /* the first ones need a rank that is not this one */

/* The k-th request of the call fails; 0: none does. Returns false if it has not so many. */
static bool lack_here(const struct step *step, int k)
{
    bool has_failed;
    int status;

    lack_begin(k);
    status = step->call();
    has_failed = lack_end();
    if (status != NIXL_OK) {
        if (step->call != open_file || status != NIXL_E_LIMIT) { /* as RLIMIT_AS says */
            MPT_STATUS(status, NIXL_E_NO_MEMORY);
        }
        MPT_EQ(nixl_last_error()->status, status);
        MPT_TRUE(nixl_last_error()->text[0] != '\0');
        MPT_EQ(has_failed, true);
    } else if (step->undo != NULL) {
        step->undo();
    }
    return has_failed;
}

struct lacking {
    const struct step *step;
    int k;
    bool was_lacking;
};

static void *lack_there(void *arg)
{
    struct lacking *lacking = arg;

    lacking->was_lacking = lack_here(lacking->step, lacking->k);
    return NULL;
}

static bool lack(const struct step *step, int k)
{
    struct lacking lacking = {step, k, false};
    pthread_t thread;

    if (!step->is_of_new_thread) {
        return lack_here(step, k);
    }
    MPT_EQ(pthread_create(&thread, NULL, lack_there, &lacking), 0);
    MPT_EQ(pthread_join(thread, NULL), 0);
    return lacking.was_lacking;
}

/* Make the call so often that what it may keep for the next one is there. */
static bool repeat(const struct step *step, int k)
{
    bool was_lacking = false;

    for (int i = 0; i < N_REPEATED; i++) {
        was_lacking = lack(step, k);
    }
    return was_lacking;
}

static bool leaves_nothing(const struct step *step, int k)
{
    size_t before, after;
    bool was_lacking;

    repeat(step, k);
    before = mallinfo2().uordblks;
    was_lacking = repeat(step, k);
    after = mallinfo2().uordblks;
    printf("%s without request %d: %zu bytes before, %zu after %d calls\n", step->name, k, before,
           after, N_REPEATED);
    MPT_TRUE(after < before + N_REPEATED * LEAST_NBYTES);
    return was_lacking;
}

static void run_step(const struct step *step)
{
    int k = 1;

    leaves_nothing(step, 0);
    while (leaves_nothing(step, k)) {
        lack(step, 0);
        MPT_LT(k++, MOST_REQUESTS);
    }
    printf("%s: %d requests\n", step->name, k - 1);
}

/* The peer answers each note. */
static void answer_notes(void)
{
    do {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(0, TAG_NOTE & TAG_END, TAG_NOTE & TAG_END, MPT_PATIENCE, &note));
        if (note.tag == TAG_NOTE) {
            MPT_OK(nixl_notify(0, TAG_ANSWER, NULL, 0, MPT_PATIENCE));
        }
    } while (note.tag != TAG_END);
}

static void make_file(void)
{
    const char *dir = getenv("TMPDIR"), *rank = getenv("PMIX_RANK");
    int fd;

    snprintf(path, sizeof(path), "%s/scarce.%s", dir != NULL ? dir : "/tmp",
             rank != NULL ? rank : "0");
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    MPT_TRUE(fd >= 0 && ftruncate(fd, 4096) == 0);
    close(fd);
}

int main(void)
{
    struct nixl_region *other = NULL;

    mpt_start();
    lack_find_library();
    make_file();
    MPT_OK(nixl_init(NULL));
    peer = nixl_size() - 1;
    MPT_OK(nixl_region_alloc("scarce", LARGE_NBYTES, NULL, &region));
    if (nixl_rank() == peer && peer > 0) {
        MPT_OK(nixl_region_alloc("other", 4096, NULL, &other));
    }
    mpt_barrier();
    for (size_t i = peer > 0 ? 0 : N_OF_OTHERS; nixl_rank() == 0 && i < N_STEPS; i++) {
        run_step(&steps[i]);
    }
    if (nixl_rank() == 0 && peer > 0) {
        MPT_OK(nixl_notify(peer, TAG_END, NULL, 0, MPT_PATIENCE));
    } else if (nixl_rank() == peer && peer > 0) {
        answer_notes();
    }
    mpt_barrier();
    if (other != NULL) {
        MPT_OK(nixl_region_close(other, MPT_PATIENCE));
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    MPT_EQ(unlink(path), 0);
    return mpt_passed();
}
