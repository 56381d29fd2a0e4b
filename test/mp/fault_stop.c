/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that is stopped by SIGSTOP: it is neither dead nor does it answer.
 *
 *     fault_stop timeouts|words|copy|kill|serving
 *
 * timeouts  every call with a timeout comes back; what needs no answer works; a question ends when
 *           another thread says so
 * words     words of its registered memory: what has timed out, or was canceled, is not done later
 * copy      a peer that is stopped in the middle of a put: close says so, and succeeds when it
 *           goes on
 * kill      the same, but the peer is killed: close does not wait for the dead
 * serving   an owner that is stopped while it serves a put to it (NIXLRUN_PROCESS_VM=0,
 *           NIXLRUN_OP_TIMEOUT=500ms): the put ends with NIXL_E_TIMEOUT when nothing moves any
 *           more
 */
#define _GNU_SOURCE /* gettid */
#include "mptest.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAG_PID   0xfc01
#define TAG_NEVER 0xfc02
#define TAG_FILL  0xfc03
#define TAG_DONE  0xfc04
#define TAG_TOKEN 0xfc05

#define NBYTES (48u << 20)

static _Thread_local struct nixl_note note;

static pid_t receive_pid(void)
{
    pid_t pid;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(1, TAG_PID, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&pid, note.payload, sizeof(pid));
    MPT_TRUE(pid > 1);
    return pid;
}

static void send_pid(void)
{
    pid_t pid = getpid();

    MPT_OK(nixl_notify(0, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
}

/* A call that must time out, after `timeout_ns` and not before. */
#define TIMES_OUT(_call, _timeout_ns)                                                              \
    do {                                                                                           \
        int64_t _start_ns = mpt_now_ns();                                                          \
                                                                                                   \
        MPT_STATUS(_call, NIXL_E_TIMEOUT);                                                         \
        MPT_GE(mpt_now_ns() - _start_ns, (_timeout_ns));                                           \
    } while (0)

/* ---- questions ------------------------------------------------------------------------------- */

static char token[NIXL_TOKEN_MAX + 1];
static _Atomic int64_t asking_thread;

static void *ask_for_grant(void *arg)
{
    struct nixl_grant_info info = NIXL_GRANT_INFO_INIT;

    atomic_store(&asking_thread, gettid());
    MPT_STATUS(nixl_grant_query(token, &info), NIXL_E_CANCELED);
    MPT_HAS("nixl_question_cancel() has ended it");
    return arg;
}

/* The owner is stopped; the other thread asks soon. */
static void check_question(void)
{
    const int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    pthread_t thread;
    int status;

    MPT_EQ(nixl_question_cancel(gettid()), NIXL_INPROGRESS);
    MPT_EQ(pthread_create(&thread, NULL, ask_for_grant, NULL), 0);
    do {
        MPT_LT(mpt_now_ns(), end_ns);
        status = atomic_load(&asking_thread) == 0 ? NIXL_INPROGRESS
                                                  : nixl_question_cancel(asking_thread);
    } while (status == NIXL_INPROGRESS);
    MPT_OK(status);
    MPT_EQ(pthread_join(thread, NULL), 0);
    MPT_EQ(nixl_question_cancel(0), NIXL_INPROGRESS);
}

static void lend(struct nixl_region *region, struct nixl_req **req_p)
{
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;

    blocks.region = region;
    blocks.block_nbytes = 64;
    blocks.nblocks = 1;
    MPT_EQ(nixl_grant_create(&blocks, NULL, token, sizeof(token), req_p), NIXL_INPROGRESS);
    MPT_OK(nixl_notify(0, TAG_TOKEN, token, sizeof(token), MPT_PATIENCE));
}

static void check_timeouts(struct nixl_region *region, pid_t pid)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_event event = NIXL_EVENT_INIT;
    struct nixl_region *unknown = NULL;
    uint64_t word = 5, n_sent = 0;
    int status;

    MPT_OK(nixl_put(1, region, 0, &word, 8));
    mpt_bring(pid, SIGSTOP, "T");
    MPT_OK(nixl_put(1, region, 8, &word, 8));
    MPT_OK(nixl_flush(1, MPT_PATIENCE));
    MPT_OK(nixl_get(1, region, 8, &word, 8));
    nixl_note_init(&note);
    TIMES_OUT(nixl_notify_recv(1, TAG_NEVER, UINT64_MAX, 20 * MPT_MS, &note), 20 * MPT_MS);
    do {
        status = nixl_notify(1, TAG_FILL, &word, 8, 0);
        n_sent += status == NIXL_OK;
    } while (status == NIXL_OK);
    MPT_STATUS(status, NIXL_E_AGAIN);
    TIMES_OUT(nixl_notify(1, TAG_FILL, &word, 8, 20 * MPT_MS), 20 * MPT_MS);
    MPT_OK(nixl_region_open("unknown", &unknown));
    TIMES_OUT(nixl_region_query(1, unknown, 20 * MPT_MS, &info), 20 * MPT_MS);
    TIMES_OUT(nixl_event_recv(20 * MPT_MS, &event), 20 * MPT_MS);
    check_question();
    MPT_EQ(nixl_peer_state(1), NIXL_PEER_ALIVE);
    MPT_EQ(kill(pid, SIGCONT), 0);
    MPT_OK(nixl_notify(1, TAG_DONE, &n_sent, 8, NIXL_FOREVER));
    MPT_OK(nixl_region_close(unknown, MPT_PATIENCE));
}

static void count_notes(void)
{
    uint64_t n_received = 0, n_sent;

    for (;; n_received++) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(0, 0, 0, MPT_PATIENCE, &note));
        if (note.tag == TAG_DONE) {
            break;
        }
        MPT_EQ(note.tag, TAG_FILL);
    }
    memcpy(&n_sent, note.payload, 8);
    MPT_EQ(n_received, n_sent);
}

static void test_timeouts(void)
{
    struct nixl_region *region = NULL;
    struct nixl_req *lent = NULL;

    MPT_OK(nixl_region_alloc("stop", 64, NULL, &region));
    mpt_barrier();
    if (nixl_rank() == 0) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(1, TAG_TOKEN, UINT64_MAX, MPT_PATIENCE, &note));
        memcpy(token, note.payload, sizeof(token));
        check_timeouts(region, receive_pid());
    } else {
        lend(region, &lent);
        send_pid();
        count_notes();
        MPT_OK(nixl_grant_revoke(token, MPT_PATIENCE));
        MPT_STATUS(nixl_req_wait(&lent, MPT_PATIENCE), NIXL_E_CANCELED);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* ---- words of registered memory ---------------------------------------------------------------
 */

#define N_WORDS 100 /* more than can be asked for at once */

/* Nothing is done for a caller that has got the report that it is not. */
static void ask_the_stopped(struct nixl_region *region, pid_t pid)
{
    static struct nixl_req *reqs[N_WORDS];
    const uint64_t one = 1, ones = UINT64_MAX;
    uint64_t before = 42;

    MPT_OK(nixl_atomic(1, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &before));
    MPT_EQ(before, 0);
    mpt_bring(pid, SIGSTOP, "T");
    for (int i = 0; i < N_WORDS; i++) {
        MPT_STATUS(nixl_put_x(1, region, 8, &ones, 8, NULL, &reqs[i]), NIXL_INPROGRESS);
    }
    TIMES_OUT(nixl_atomic(1, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &before), MPT_S);
    TIMES_OUT(nixl_put(1, region, 8, &ones, 8), MPT_S);
    for (int i = 0; i < N_WORDS; i++) {
        int32_t outcome = NIXL_OUTCOME_DONE;

        MPT_OK(nixl_req_cancel(&reqs[i], MPT_PATIENCE, &outcome));
        MPT_EQ(outcome, NIXL_OUTCOME_UNTOUCHED);
    }
    MPT_EQ(kill(pid, SIGCONT), 0);
    for (uint64_t i = 1; i <= 3 * N_WORDS; i++) {
        MPT_OK(nixl_atomic(1, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &before));
        MPT_EQ(before, i);
    }
    MPT_OK(nixl_get(1, region, 8, &before, 8));
    MPT_EQ(before, 0);
}

static void test_words(void)
{
    static uint64_t memory[8];
    struct nixl_region *region = NULL;

    MPT_OK(nixl_region_register("words", memory, sizeof(memory), NULL, &region));
    mpt_barrier();
    if (nixl_rank() == 0) {
        ask_the_stopped(region, receive_pid());
    } else {
        send_pid();
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* ---- stopped in the middle of a copy ----------------------------------------------------------
 */

/* Catch the peer in mid-copy: try until close finds a copy in flight. */
static void close_during_copy(pid_t pid, bool is_kill)
{
    struct nixl_region *region = NULL;
    uint64_t seed = (uint64_t)mpt_now_ns();
    int status = NIXL_OK;

    for (int round = 0; status == NIXL_OK; round++) {
        const volatile unsigned char *first;
        int64_t end_ns;

        MPT_LT(round, 200);
        MPT_OK(nixl_region_alloc("copy", NBYTES, NULL, &region));
        first = nixl_region_addr(region);
        for (end_ns = mpt_now_ns() + MPT_PATIENCE; *first == 0;) {
            MPT_LT(mpt_now_ns(), end_ns);
        }
        for (end_ns = mpt_now_ns() + (int64_t)(mpt_random(&seed) % 3000000);
             mpt_now_ns() < end_ns;) {
        }
        mpt_bring(pid, SIGSTOP, "T");
        status = nixl_region_close(region, 0);
        if (status == NIXL_OK) {
            MPT_EQ(kill(pid, SIGCONT), 0);
        }
    }
    MPT_STATUS(status, NIXL_INPROGRESS);
    TIMES_OUT(nixl_region_close(region, 20 * MPT_MS), 20 * MPT_MS);
    memset(nixl_region_addr(region), 1, 4096); /* the memory is still there */
    MPT_EQ(kill(pid, is_kill ? SIGKILL : SIGCONT), 0);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void copy_until_told(void)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    unsigned char *src = malloc(NBYTES);
    struct nixl_region *region = NULL;

    memset(src, 7, NBYTES);
    MPT_OK(nixl_region_open("copy", &region));
    for (nixl_note_init(&note);
         nixl_notify_recv(0, TAG_DONE, UINT64_MAX, 0, &note) == NIXL_INPROGRESS;) {
        int status = nixl_region_query(0, region, MPT_MS, &info);

        while (status == NIXL_OK) {
            status = nixl_put(0, region, 0, src, NBYTES);
        }
        MPT_TRUE(status == NIXL_E_STALE || status == NIXL_E_TIMEOUT ||
                 status == NIXL_E_PEER_LOST); /* rank 0 is leaving */
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    free(src);
}

static void test_copy(bool is_kill)
{
    if (nixl_rank() == 0) {
        close_during_copy(receive_pid(), is_kill);
        if (!is_kill) {
            MPT_OK(nixl_notify(1, TAG_DONE, NULL, 0, MPT_PATIENCE));
        }
    } else {
        send_pid();
        copy_until_told();
    }
}

/* ---- stopped while it serves ----------------------------------------------------------------- */

#define STOP_ROUNDS  3
#define STOPPED_NS   (1800 * MPT_MS) /* longer than the put's time, and than it takes to cancel */
#define SERVE_NBYTES (16u << 20)

static atomic_bool is_continued;

static void *stop_and_continue(void *arg)
{
    const struct timespec stopped = {.tv_sec = STOPPED_NS / MPT_S, .tv_nsec = STOPPED_NS % MPT_S};
    pid_t pid = *(const pid_t *)arg;

    mpt_bring(pid, SIGSTOP, "T");
    nanosleep(&stopped, NULL);
    MPT_EQ(kill(pid, SIGCONT), 0);
    atomic_store(&is_continued, true);
    return NULL;
}

/* An owner that is not stopped, on a busy machine. */
static void put_in_the_end(struct nixl_region *region, const void *src)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    int status;

    do {
        MPT_LT(mpt_now_ns(), end_ns);
        status = nixl_put(1, region, 0, src, SERVE_NBYTES);
    } while (status == NIXL_E_TIMEOUT);
    MPT_OK(status);
}

/*
 * M30: what a put that was given up had sent arrives until a flush has returned, and not later: the
 * bytes that are put after that are the last ones.
 */
static void put_to_stopped(struct nixl_region *region, pid_t pid)
{
    unsigned char *src = malloc(SERVE_NBYTES);
    int n_timeouts = 0;

    memset(src, 7, SERVE_NBYTES);
    put_in_the_end(region, src);
    for (int round = 0; round < STOP_ROUNDS; round++) {
        pthread_t thread;
        int status = NIXL_OK;

        atomic_store(&is_continued, false);
        MPT_EQ(pthread_create(&thread, NULL, stop_and_continue, &pid), 0);
        while (status == NIXL_OK && !atomic_load(&is_continued)) {
            status = nixl_put(1, region, 0, src, SERVE_NBYTES);
        }
        if (status != NIXL_OK) { /* else it was stopped behind the last byte */
            MPT_STATUS(status, NIXL_E_TIMEOUT);
            MPT_EQ(nixl_last_error()->rank, 1);
            MPT_TRUE(strstr(nixl_last_error()->text, "NIXLRUN_OP_TIMEOUT (500 ms)") != NULL);
            n_timeouts++;
        }
        MPT_EQ(pthread_join(thread, NULL), 0);
    }
    MPT_NE(n_timeouts, 0);
    MPT_OK(nixl_flush(1, MPT_PATIENCE));
    memset(src, 8, SERVE_NBYTES);
    put_in_the_end(region, src);
    free(src);
}

static void test_serving(void)
{
    struct nixl_region *region;
    void *memory = malloc(SERVE_NBYTES);

    memset(memory, 0, SERVE_NBYTES);
    MPT_OK(nixl_region_register("serving", memory, SERVE_NBYTES, NULL, &region));
    mpt_barrier();
    if (nixl_rank() == 0) {
        put_to_stopped(region, receive_pid());
        MPT_OK(nixl_notify(1, TAG_DONE, NULL, 0, MPT_PATIENCE));
    } else {
        send_pid();
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(0, TAG_DONE, UINT64_MAX, MPT_PATIENCE, &note));
        MPT_CHECK_BYTES(memory, SERVE_NBYTES, 8);
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    free(memory);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    mpt_start();
    MPT_OK(nixl_init(NULL));
    mpt_barrier();
    if (strcmp(what, "timeouts") == 0) {
        test_timeouts();
    } else if (strcmp(what, "words") == 0) {
        test_words();
    } else if (strcmp(what, "serving") == 0) {
        test_serving();
    } else {
        test_copy(strcmp(what, "kill") == 0);
    }
    mpt_finalize();
    return mpt_passed();
}
