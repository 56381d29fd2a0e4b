/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0 puts into and gets from a file of rank 1, past the page cache, with some requests under
 * way. Beside it, in turns: the same requests by rank 1 itself, the bytes alone over a TCP
 * connection, and a loop that receives a block and writes it, or reads one and sends it. The limit
 * is the slower one of the first two. What is put is written anew each time, in every lane. Rank 1
 * sleeps while rank 0 acts, as a program does that only owns a file.
 */
#include "config.h"

#include "bench.h"
#include "storage_load.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME      "nixl_bench.storage"
#define TAG_OVER  UINT64_C(0x62656e6368000003)
#define PEER_GOAL (1 / 0.95)
#define GIB       1073741824.0

static const struct peer_case {
    const char *name;
    uint64_t nbytes;
    bool is_random, is_put;
    int depth;
} cases[] = {
    {"put in order", 1 << 20, false, true, 8}, {"get in order", 1 << 20, false, false, 8},
    {"put at random", 65536, true, true, 8},   {"get at random", 65536, true, false, 8},
    {"put at random", 4096, true, true, 32},   {"get at random", 4096, true, false, 32},
};

enum peer_lane { LANE_NIXLRUN, LANE_FILE, LANE_NETWORK, LANE_LOOP, N_LANES };

struct storage_peer {
    struct bench *bench;
    const struct peer_case *how;
    struct storage_load load; /* of rank 0 to rank 1, or of rank 1 itself */
    int fd;                   /* the file, past the page cache; rank 1 */
    unsigned char *block;     /* of the bare lanes */
    uint64_t at;              /* of the loop */
};

/* ---- lanes ----------------------------------------------------------------------------------- */

/* Rank `actor` acts, the other one sleeps until it is told. How long an operation took. */
static double by_library(struct storage_peer *peer, int actor, uint64_t *n_ops_p)
{
    struct bench *bench = peer->bench;
    struct storage_turn turn = {.n_ops = 0};
    struct nixl_note note;

    if (bench->rank == actor) {
        turn = storage_load_turn(&peer->load);
        bench_check(nixl_notify(bench->peer, TAG_OVER, &turn, sizeof(turn), BENCH_TIMEOUT_NS),
                    "nixl_notify");
    } else {
        nixl_note_init(&note);
        bench_check(nixl_notify_recv(actor, TAG_OVER, UINT64_MAX, BENCH_TIMEOUT_NS, &note),
                    "nixl_notify_recv");
        memcpy(&turn, note.payload, sizeof(turn));
    }
    *n_ops_p = turn.n_ops;
    return turn.op_ns;
}

static uint64_t loop_offset(struct storage_peer *peer)
{
    uint64_t n_blocks = STORAGE_FILE_NBYTES / peer->how->nbytes;

    if (!peer->how->is_random) {
        return peer->at++ % n_blocks * peer->how->nbytes;
    }
    peer->at = peer->at * 6364136223846793005u + 1442695040888963407u;
    return (peer->at >> 33) % n_blocks * peer->how->nbytes;
}

static void move_block(struct storage_peer *peer)
{
    const struct peer_case *how = peer->how;
    off_t offset = (off_t)loop_offset(peer);
    ssize_t n = how->is_put ? pwrite(peer->fd, peer->block, how->nbytes, offset)
                            : pread(peer->fd, peer->block, how->nbytes, offset);

    if (n != (ssize_t)how->nbytes) {
        bench_die("nixl_bench: %s: %s", storage_load_path(), n < 0 ? strerror(errno) : "cut short");
    }
}

/* What both ranks have used since rank 0's and rank 1's `since`, for a GiB. On rank 0. */
static double cpu_since(struct storage_peer *peer, double since, uint64_t n_ops)
{
    double least, most;

    stage_spread(peer->bench, storage_cpu_seconds() - since, &least, &most);
    return (least + most) * GIB / ((double)n_ops * (double)peer->how->nbytes);
}

/* So many blocks over the connection, with the file or without. How long one took. */
static double bare(struct storage_peer *peer, bool has_file, uint64_t n_ops)
{
    struct bench *bench = peer->bench;
    const uint64_t nbytes = peer->how->nbytes;
    const bool is_sender = (bench->rank == 0) == peer->how->is_put;
    int64_t start;
    unsigned char answer = 0;

    stage_barrier(bench);
    start = nxr_now_ns();
    for (uint64_t i = 0; i < n_ops; i++) {
        if (bench->rank == 1 && has_file && !peer->how->is_put) {
            move_block(peer);
        }
        if (bench->rank == 0 && peer->how->is_put) {
            memset(peer->block, (int)i, nbytes);
        }
        if (is_sender) {
            wire_send(bench, bench_other(bench), peer->block, nbytes);
        } else {
            wire_receive(bench, bench_other(bench), peer->block, nbytes, true);
        }
        if (bench->rank == 1 && has_file && peer->how->is_put) {
            move_block(peer);
        }
    }
    if (is_sender) {
        wire_receive(bench, bench_other(bench), &answer, 1, true);
    } else {
        wire_send(bench, bench_other(bench), &answer, 1);
    }
    return (double)(nxr_now_ns() - start) / (double)n_ops;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int compare_ns(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double mb_s(const struct storage_peer *peer, double ns)
{
    return 1e3 * (double)peer->how->nbytes / ns;
}

static void report_peer(struct storage_peer *peer, double ns[N_LANES][STORAGE_N_TURNS], double *cpu)
{
    const struct peer_case *how = peer->how;
    const int n_turns = storage_n_turns(peer->bench);
    const bool has_network = peer->bench->wire != NULL;
    const bool has_goal = how->is_put && !how->is_random;
    double median[N_LANES], limit;
    char what[64], note[160];

    for (int i = 0; i < N_LANES; i++) {
        qsort(ns[i], (size_t)n_turns, sizeof(double), compare_ns);
        median[i] = ns[i][n_turns / 2];
    }
    limit = median[LANE_FILE] > median[LANE_NETWORK] ? median[LANE_FILE] : median[LANE_NETWORK];
    snprintf(what, sizeof(what), "peer's file: %s (%d under way)", how->name, how->depth);
    qsort(cpu, (size_t)n_turns, sizeof(*cpu), compare_ns);
    snprintf(note, sizeof(note), "%.2f s of processors per GiB; the file %.0f MB/s",
             cpu[n_turns / 2], mb_s(peer, median[LANE_FILE]));
    if (has_network) {
        snprintf(note + strlen(note), sizeof(note) - strlen(note),
                 "; the network %.0f; block by block %.0f", mb_s(peer, median[LANE_NETWORK]),
                 mb_s(peer, median[LANE_LOOP]));
    }
    report_row(peer->bench,
               &(struct bench_row){.test = "storage",
                                   .what = what,
                                   .nbytes = how->nbytes,
                                   .has_nbytes = true,
                                   .unit = "ns",
                                   .value = median[LANE_NIXLRUN],
                                   .min = ns[LANE_NIXLRUN][0],
                                   .p99 = ns[LANE_NIXLRUN][n_turns - 1],
                                   .bytes_per_op = (double)how->nbytes,
                                   .limit_name = has_network ? "slower of both" : "file",
                                   .limit = limit,
                                   .goal = has_goal ? PEER_GOAL : 0,
                                   .note = note});
}

static void run_peer_case(struct storage_peer *peer)
{
    double ns[N_LANES][STORAGE_N_TURNS] = {{0}}, cpu[STORAGE_N_TURNS];

    for (int i = 0; i < storage_n_turns(peer->bench); i++) {
        double since = storage_cpu_seconds();
        uint64_t n_ops, n_own;

        ns[LANE_NIXLRUN][i] = by_library(peer, 0, &n_ops);
        cpu[i] = cpu_since(peer, since, n_ops);
        ns[LANE_FILE][i] = by_library(peer, 1, &n_own);
        if (peer->bench->wire != NULL) {
            ns[LANE_NETWORK][i] = bare(peer, false, n_ops);
            ns[LANE_LOOP][i] = bare(peer, true, n_ops / 4 + 1);
        }
    }
    stage_barrier(peer->bench);
    if (peer->bench->rank == 0) {
        report_peer(peer, ns, cpu);
    }
}

/* ---- the test -------------------------------------------------------------------------------- */

static void open_peer(struct storage_peer *peer)
{
    struct nixl_region *region;

    if (peer->bench->rank == 1) {
        storage_load_make(&peer->load, NAME);
        peer->fd = open(storage_load_path(), O_RDWR | O_CLOEXEC | O_DIRECT);
        peer->fd = peer->fd < 0 ? open(storage_load_path(), O_RDWR | O_CLOEXEC) : peer->fd;
        if (peer->fd < 0) {
            bench_die("nixl_bench: %s: %s", storage_load_path(), strerror(errno));
        }
    } else {
        bench_check(nixl_region_open(NAME, &region), "nixl_region_open");
        storage_load_prepare(&peer->load, 1, region);
    }
    if (posix_memalign((void **)&peer->block, 4096, STORAGE_MAX_NBYTES) != 0) {
        bench_die("nixl_bench: no memory");
    }
    memset(peer->block, 0x5a, STORAGE_MAX_NBYTES);
    peer->load.turn_ns = storage_turn_ns(peer->bench);
    peer->load.is_rewritten = true;
    stage_barrier(peer->bench);
}

void storage_of_peer(struct bench *bench)
{
    struct storage_peer peer = {.bench = bench, .fd = -1};

    open_peer(&peer);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        peer.how = &cases[i];
        peer.load.nbytes = cases[i].nbytes;
        peer.load.is_random = cases[i].is_random;
        peer.load.is_put = cases[i].is_put;
        peer.load.depth = cases[i].depth;
        if (storage_is_asked_for(bench, cases[i].nbytes)) {
            run_peer_case(&peer);
        }
    }
    stage_barrier(bench);
    storage_load_close(&peer.load);
    free(peer.block);
    if (bench->rank == 1) {
        close(peer.fd);
        storage_load_remove();
    }
}
