/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun in the peers' loop. PEER_MALLOC=1: registered malloc memory. PEER_SIGNAL=1: what follows
 * data is a signal, not a notification.
 */
#include "peer.h"

#include <nixlrun.h>

static struct nixl_region *region;
static unsigned char *mine, *local;
static int other;

static void check(int status)
{
    if (status != NIXL_OK) {
        nixl_abort(1, nixl_last_error()->text);
    }
}

/* Polls, as the barriers of the other peers do, so that no target sleeps that others keep awake. */
static void barrier(void)
{
    struct nixl_note note;
    int status;

    nixl_note_init(&note);
    check(nixl_notify(other, 2, NULL, 0, NIXL_FOREVER));
    do {
        status = nixl_notify_recv(other, 2, UINT64_MAX, 0, &note);
    } while (status == NIXL_INPROGRESS);
    check(status);
}

static void fetch_add(long n)
{
    const uint64_t one = 1;
    uint64_t before;

    for (long i = 0; i < n; i++) {
        check(nixl_atomic(other, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &before));
    }
}

static int start_put(struct nixl_req **req_p)
{
    return nixl_put_x(other, region, 0, local, peer_nbytes, NULL, req_p);
}

static int start_get(struct nixl_req **req_p)
{
    return nixl_get_x(other, region, 0, local, peer_nbytes, NULL, req_p);
}

/* Start all, then wait for all. */
static void run_window(int (*start)(struct nixl_req **req_p), long count)
{
    static struct nixl_req *reqs[PEER_MAX_WINDOW];
    long n_reqs = 0;

    for (long i = 0; i < count; i++) {
        int status = start(&reqs[n_reqs]);

        if (status == NIXL_INPROGRESS) {
            n_reqs++;
        } else {
            check(status);
        }
    }
    while (n_reqs > 0) {
        check(nixl_req_wait(&reqs[--n_reqs], NIXL_FOREVER));
    }
}

static void put(long count)
{
    if (count == 1) {
        check(nixl_put(other, region, 0, local, peer_nbytes));
    } else {
        run_window(start_put, count);
    }
    check(nixl_flush(other, NIXL_FOREVER));
}

static void get(long count)
{
    if (count == 1) {
        check(nixl_get(other, region, 0, local, peer_nbytes));
    } else {
        run_window(start_get, count);
    }
}

static void put_signal(size_t nbytes)
{
    check(nixl_put_notify(other, region, 0, local, nbytes, 1, NULL, 0, NIXL_FOREVER));
}

static void receive(size_t nbytes, int tag)
{
    struct nixl_note note;

    (void)nbytes;
    nixl_note_init(&note);
    check(nixl_notify_recv(other, (uint64_t)tag, UINT64_MAX, NIXL_FOREVER, &note));
}

static void wait_signal(void)
{
    receive(0, 1);
}

#define SIGNAL_OFFSET PEER_MAX_NBYTES

static void put_then_add(size_t nbytes)
{
    check(nixl_put_signal(other, region, 0, local, nbytes, region, SIGNAL_OFFSET, NIXL_SIGNAL_ADD,
                          1));
}

static void wait_for_word(void)
{
    static uint64_t n_awaited;

    check(nixl_signal_wait((const void *)(mine + SIGNAL_OFFSET), NIXL_COMPARE_GE, ++n_awaited,
                           NIXL_FOREVER, NULL));
}

/* Two-sided messages are notifications here; what does not fit into one is put. */
static void send_message(size_t nbytes, int tag)
{
    if (nbytes <= NIXL_NOTE_MAX) {
        check(nixl_notify(other, (uint64_t)tag, local, nbytes, NIXL_FOREVER));
    } else {
        check(
            nixl_put_notify(other, region, 0, local, nbytes, (uint64_t)tag, NULL, 0, NIXL_FOREVER));
    }
}

static void send_window(long n)
{
    for (long i = 0; i < n * peer_window; i++) {
        if (peer_rank == 0) {
            send_message(peer_nbytes, 2);
        } else {
            receive(peer_nbytes, 2);
        }
    }
}

int main(void)
{
    struct peer_calls calls = {.barrier = barrier,
                               .put = put,
                               .get = get,
                               .put_signal = put_signal,
                               .wait_signal = wait_signal,
                               .send = send_message,
                               .receive = receive,
                               .send_window = send_window,
                               .fetch_add = fetch_add};

    if (getenv("PEER_SIGNAL") != NULL) {
        calls.put_signal = put_then_add;
        calls.wait_signal = wait_for_word;
    }
    peer_pin_early();
    check(nixl_init(NULL));
    peer_rank = nixl_rank();
    other = !peer_rank;
    if (posix_memalign((void **)&local, 4096, PEER_DATA_NBYTES) != 0) {
        nixl_abort(1, "no memory");
    }
    memset(local, 0, PEER_DATA_NBYTES);
    if (getenv("PEER_MALLOC") != NULL) {
        if (posix_memalign((void **)&mine, 4096, PEER_DATA_NBYTES) != 0) {
            nixl_abort(1, "no memory");
        }
        check(nixl_region_register("data", mine, PEER_DATA_NBYTES, NULL, &region));
    } else {
        check(nixl_region_alloc("data", PEER_DATA_NBYTES, NULL, &region));
        mine = nixl_region_addr(region);
    }
    memset(mine, 0, PEER_DATA_NBYTES);
    calls.mine = mine;
    calls.local = local;
    peer_run(&calls);
    check(nixl_region_close(region, NIXL_FOREVER));
    check(nixl_finalize());
    return 0;
}
