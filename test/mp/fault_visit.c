/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member that dies or is stopped inside a collective, while members read and write each other's
 * buffers where they are.
 *
 *     fault_visit kill|stop|cont allocated|own
 *
 * Each round is another collective. Its victim has taken away a page that it will touch in the
 * midst of it, so that it is hit there and nowhere else; it then kills itself (kill), or stops
 * itself, and rank 0 kills it (stop) or lets it go on (cont). Survivors of a death get
 * NIXL_E_PEER_LOST, from this collective or, where they needed nothing of the victim, from the
 * next; without it the victim goes on. Buffers are allocated regions, or memory of the ranks' own.
 */
#include "mptest.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define TAG_PID 0xfd01

#define PIECE (128u << 10) /* of one member for another: large enough to be shared */
#define PAGE  4096

static int rank, size;
static bool is_allocated;
static int signal_of_victim; /* what it sends itself */
static int signal_of_rank_0; /* what rank 0 sends to it when it has stopped; 0: nothing */
static unsigned char *src, *dst;
static struct nixl_region *regions[2];
static pid_t *pids; /* rank 0: of all */

/* ---- the page that is not there -------------------------------------------------------------- */

static unsigned char *volatile trap;
static volatile sig_atomic_t n_hits;

static void hit(int number, siginfo_t *info, void *context)
{
    unsigned char *at = info->si_addr;

    (void)context;
    if (trap == NULL || at < trap || at >= trap + PAGE ||
        mprotect(trap, PAGE, PROT_READ | PROT_WRITE) != 0) {
        signal(number, SIG_DFL); /* a fault of another kind: again, and for good */
        return;
    }
    n_hits++;
    kill(getpid(), signal_of_victim);
}

static void set_trap(unsigned char *at)
{
    struct sigaction action = {.sa_sigaction = hit, .sa_flags = SA_SIGINFO};

    MPT_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    n_hits = 0;
    trap = at - (uintptr_t)at % PAGE;
    MPT_EQ(mprotect(trap, PAGE, PROT_NONE), 0);
}

/* ---- the collectives ------------------------------------------------------------------------- */

struct round {
    const char *name;
    bool needs_regions; /* else the kernel would touch the page, and fail */
    int (*run)(struct nixl_team *team, int victim);
    unsigned char *(*trap_of)(struct nixl_team *team, int victim);
    void (*check)(struct nixl_team *team, int victim);
};

static size_t all_nbytes(struct nixl_team *team)
{
    return (size_t)nixl_team_size(team) * PIECE;
}

/* The root is killed as it writes the others' shares into their buffers. */
static int broadcast_of_victim(struct nixl_team *team, int victim)
{
    return nixl_broadcast(team, victim, nixl_team_rank(team) == victim ? src : dst,
                          all_nbytes(team), MPT_PATIENCE);
}

static unsigned char *first_of_src(struct nixl_team *team, int victim)
{
    (void)team;
    (void)victim;
    return src;
}

static void check_broadcast_of_victim(struct nixl_team *team, int victim)
{
    MPT_CHECK(nixl_team_rank(team) == victim ? src : dst, all_nbytes(team), (uint64_t)victim);
}

/* A receiver is hit as it reads from the root. */
static int broadcast_to_victim(struct nixl_team *team, int victim)
{
    (void)victim;
    return nixl_broadcast(team, 0, nixl_team_rank(team) == 0 ? src : dst, all_nbytes(team),
                          MPT_PATIENCE);
}

static unsigned char *last_of_dst(struct nixl_team *team, int victim)
{
    (void)victim;
    return dst + all_nbytes(team) - PAGE;
}

static void check_broadcast_to_victim(struct nixl_team *team, int victim)
{
    (void)victim;
    MPT_CHECK(nixl_team_rank(team) == 0 ? src : dst, all_nbytes(team), 0);
}

/* The last member is hit in its own share, while others read and write theirs in its buffers. */
static int allreduce(struct nixl_team *team, int victim)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;

    (void)victim;
    args.src = src;
    args.dst = dst;
    args.count = all_nbytes(team);
    args.type = NIXL_TYPE_UINT8;
    args.op = NIXL_REDUCE_XOR;
    return nixl_allreduce(team, &args, MPT_PATIENCE);
}

static unsigned char *last_of_src(struct nixl_team *team, int victim)
{
    (void)victim;
    return src + all_nbytes(team) - PAGE;
}

static void check_allreduce(struct nixl_team *team, int victim)
{
    size_t nbytes = all_nbytes(team);
    unsigned char *expected = calloc(1, nbytes), *other = malloc(nbytes);

    (void)victim;
    MPT_TRUE(expected != NULL && other != NULL);
    for (int i = 0; i < nixl_team_size(team); i++) {
        mpt_fill(other, nbytes, (uint64_t)i);
        for (size_t k = 0; k < nbytes; k++) {
            expected[k] ^= other[k];
        }
    }
    MPT_EQ(memcmp(dst, expected, nbytes), 0);
    free(expected);
    free(other);
}

/* A member is hit as it reads from the first one, or, in memory of its own, copies its own piece.
 */
static int alltoall(struct nixl_team *team, int victim)
{
    (void)victim;
    return nixl_alltoall(team, src, dst, PIECE, MPT_PATIENCE);
}

static unsigned char *piece_of_dst(struct nixl_team *team, int victim)
{
    (void)team;
    return dst + (is_allocated ? 0 : (size_t)victim * PIECE);
}

static void check_alltoall(struct nixl_team *team, int victim)
{
    unsigned char *other = malloc(all_nbytes(team));

    (void)victim;
    MPT_TRUE(other != NULL);
    for (int i = 0; i < nixl_team_size(team); i++) {
        mpt_fill(other, all_nbytes(team), (uint64_t)i);
        MPT_EQ(memcmp(dst + (size_t)i * PIECE, other + (size_t)nixl_team_rank(team) * PIECE, PIECE),
               0);
    }
    free(other);
}

static const struct round rounds[] = {
    {"broadcast of the victim", true, broadcast_of_victim, first_of_src, check_broadcast_of_victim},
    {"broadcast to the victim", true, broadcast_to_victim, last_of_dst, check_broadcast_to_victim},
    {"allreduce", false, allreduce, last_of_src, check_allreduce},
    {"alltoall", false, alltoall, piece_of_dst, check_alltoall},
};

/* ---- rank 0 watches the stopped ranks -------------------------------------------------------- */

static char state_of(pid_t pid)
{
    char path[64], state = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    MPT_TRUE(file != NULL);
    MPT_EQ(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    fclose(file);
    return state;
}

static void *send_when_stopped(void *arg)
{
    const struct timespec pause = {.tv_nsec = MPT_MS};
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    pid_t pid = *(const pid_t *)arg;

    while (state_of(pid) != 'T') {
        MPT_LT(mpt_now_ns(), end_ns);
        nanosleep(&pause, NULL);
    }
    MPT_EQ(kill(pid, signal_of_rank_0), 0);
    return NULL;
}

static void exchange_pids(void)
{
    static struct nixl_note note;
    pid_t pid = getpid();

    if (rank != 0) {
        MPT_OK(nixl_notify(0, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
        return;
    }
    pids = calloc((size_t)size, sizeof(*pids));
    MPT_TRUE(pids != NULL);
    for (int i = 1; i < size; i++) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(i, TAG_PID, UINT64_MAX, MPT_PATIENCE, &note));
        memcpy(&pids[i], note.payload, sizeof(pid));
        MPT_TRUE(pids[i] > 1);
    }
}

/* ---- one round ------------------------------------------------------------------------------- */

/* All are well in the end: the victim, too, which was hit once. */
static void expect_all(const struct round *round, struct nixl_team *team, int victim, int status)
{
    MPT_OK(status);
    round->check(team, victim);
    MPT_EQ(n_hits, nixl_team_rank(team) == victim);
}

/* The victim is lost: the team of the others is whole. */
static struct nixl_team *expect_loss(const struct round *round, struct nixl_team *team, int victim,
                                     int status)
{
    struct nixl_team *smaller;

    MPT_NE(nixl_team_rank(team), victim); /* the victim must not come here */
    if (status == NIXL_OK) {
        round->check(team, victim);
        status = nixl_barrier(team, MPT_PATIENCE);
    }
    MPT_STATUS(status, NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, nixl_team_translate(team, victim, NULL));
    MPT_OK(nixl_team_shrink(team, MPT_PATIENCE, &smaller));
    MPT_EQ(nixl_team_size(smaller), nixl_team_size(team) - 1);
    MPT_OK(nixl_team_free(team));
    mpt_fill(src, all_nbytes(smaller), (uint64_t)nixl_team_rank(smaller));
    MPT_OK(allreduce(smaller, 0));
    check_allreduce(smaller, 0);
    return smaller;
}

static struct nixl_team *run_round(const struct round *round, struct nixl_team *team)
{
    int victim = nixl_team_size(team) - 1, me = nixl_team_rank(team), status;
    pthread_t thread;

    printf("%s\n", round->name);
    mpt_fill(src, all_nbytes(team), (uint64_t)me);
    memset(dst, 0, all_nbytes(team));
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    if (me == victim) {
        set_trap(round->trap_of(team, victim));
    }
    if (rank == 0 && signal_of_rank_0 != 0) {
        pid_t *pid = &pids[nixl_team_translate(team, victim, NULL)];

        MPT_EQ(pthread_create(&thread, NULL, send_when_stopped, pid), 0);
    }
    status = round->run(team, victim);
    if (rank == 0 && signal_of_rank_0 != 0) {
        MPT_EQ(pthread_join(thread, NULL), 0);
    }
    if (signal_of_rank_0 == SIGCONT) {
        expect_all(round, team, victim, status);
        n_hits = 0;
        return team;
    }
    return expect_loss(round, team, victim, status);
}

static unsigned char *make_buffer(int i, const char *name, size_t nbytes)
{
    if (is_allocated) {
        MPT_OK(nixl_region_alloc(name, nbytes, NULL, &regions[i]));
        return nixl_region_addr(regions[i]);
    }
    return aligned_alloc(PAGE, nbytes);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "kill";
    struct nixl_team *team;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    is_allocated = argc > 2 && strcmp(argv[2], "allocated") == 0;
    signal_of_victim = strcmp(mode, "kill") == 0 ? SIGKILL : SIGSTOP;
    signal_of_rank_0 = strcmp(mode, "stop") == 0   ? SIGKILL
                       : strcmp(mode, "cont") == 0 ? SIGCONT
                                                   : 0;
    src = make_buffer(0, "src", (size_t)size * PIECE);
    dst = make_buffer(1, "dst", (size_t)size * PIECE);
    MPT_TRUE(src != NULL && dst != NULL);
    exchange_pids();
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        if (is_allocated || !rounds[i].needs_regions) {
            team = run_round(&rounds[i], team);
        }
    }
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    MPT_OK(nixl_team_free(team));
    for (int i = 0; i < 2 && is_allocated; i++) {
        MPT_OK(nixl_region_close(regions[i], MPT_PATIENCE));
    }
    if (!is_allocated) {
        free(src);
        free(dst);
    }
    free(pids);
    mpt_finalize();
    return mpt_passed();
}
