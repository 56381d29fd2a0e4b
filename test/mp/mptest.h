/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of the multi-process tests. A test is a plain C program:
 *
 *     int main(void)
 *     {
 *         mpt_start();
 *         MPT_OK(nixl_init(NULL));
 *         MPT_EQ(nixl_size(), 2);
 *         MPT_OK(nixl_finalize());
 *         return mpt_passed();
 *     }
 *
 * A check that fails prints both values and what the library says of it, and ends the rank with 1.
 * The launcher then ends the job. Exit codes: 0 passed, 1 failed, 77 skipped.
 */
#ifndef NXR_TEST_MPTEST_H
#define NXR_TEST_MPTEST_H

#include "nixlrun.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MPT_US 1000ll
#define MPT_MS 1000000ll
#define MPT_S  1000000000ll

/*
 * Long enough for a loaded machine, shorter than any test's timeout: a wait of that length is
 * reported. 60 seconds, or as many as MPT_PATIENCE in the environment says, where many ranks
 * share a processor.
 */
#define MPT_PATIENCE mpt_patience_ns()
int64_t mpt_patience_ns(void);

/* First call: sends stdout and stderr to the rank's own file where run-mp wants that. */
void mpt_start(void);

/* Last call: says that all checks held. Returns the exit code. */
int mpt_passed(void);

/* End the rank: this machine cannot run the test. */
void mpt_skip(const char *format, ...) NIXL_PRINTF(1, 2) NIXL_NORETURN;

/* End the rank: a check has failed. */
void mpt_fail(const char *file, int line, const char *format, ...) NIXL_PRINTF(3, 4) NIXL_NORETURN;

/* Called first by mpt_fail(), with the place and the text: for programs that print TAP. */
extern void (*mpt_on_fail)(const char *file, int line, const char *text);

/* Make every call of the library but nixl_init and those that end: each must return `expected`. */
void mpt_every_call(struct nixl_region *region, int expected);

/*
 * Wait for a rank without end, in every call that blocks, each in a thread. Every rank prepares
 * before all meet. When the rank is lost all threads must have come back with NIXL_E_PEER_LOST
 * until a moment of mpt_now_ns(). One of them has taken the news of one death from NIXL_ANY_RANK.
 */
void mpt_waits_prepare(void);
void mpt_waits_start(int rank);
void mpt_waits_join(int64_t until_ns);
void mpt_waits_close(void);

/*
 * A collective by its number. src has `nbytes` for each member, a multiple of 4, and dst has room
 * for as many; those that need less take the first of them. A broadcast is of dst. With req_p it is
 * started, else it is waited for. `op` is of the extended form, which NULL without req_p is not.
 */
enum mpt_collective {
    MPT_BARRIER,
    MPT_BROADCAST,
    MPT_GATHER,
    MPT_SCATTER,
    MPT_ALLGATHER,
    MPT_ALLTOALL,
    MPT_REDUCE,
    MPT_ALLREDUCE,
    MPT_REDUCE_SCATTER,
    MPT_SCAN,
    MPT_GATHERV,
    MPT_SCATTERV,
    MPT_ALLGATHERV,
    MPT_ALLTOALLV,
    MPT_N_COLLECTIVES
};
struct mpt_call {
    struct nixl_team *team;
    int root;
    const void *src;
    void *dst;
    size_t nbytes;
    const struct nixl_op *op;
};
int mpt_collective(enum mpt_collective which, const struct mpt_call *call, struct nixl_req **req_p);

/*
 * Every collective of the team, on `nwords` words for each member, with every byte checked. All
 * members call with the same seed. At most 64 members.
 */
void mpt_check_team(struct nixl_team *team, uint64_t seed, size_t nwords);

/*
 * nixl_finalize() where ranks have died and the living come at about the same time: it succeeds,
 * and does not wait for the dead.
 */
void mpt_finalize(void);

/*
 * Receive a notification of that rank, or NIXL_ANY_RANK, and tag. It is the caller's until this
 * thread's next call.
 */
const struct nixl_note *mpt_hear(int from, uint64_t tag);

/* All ranks meet; made of notifications with tags that start with 0xba. */
void mpt_barrier(void);

/*
 * Where run-mp has put a rank, seen from here: what nixl_scope() must say. And the network by which
 * ranks on other hosts must be reached, as NIXLRUN_TRANSPORTS calls it; NULL where there is none.
 */
enum nixl_scope_kind mpt_scope(int rank);
int mpt_host_of(int rank); /* hosts are counted from 0 */
const char *mpt_network(void);

int64_t mpt_now_ns(void);

/* The CPU time of all threads of this process: what else runs on the machine is not in it. */
int64_t mpt_cpu_ns(void);

/*
 * A process by its pid: its state as ps has it, 0 if there is none; its name and its parent, each
 * unless NULL.
 */
char mpt_look_at(pid_t pid, char name[32], pid_t *parent_p);

/* Send a signal and wait until the process is in one of these states; '-': or gone. */
void mpt_bring(pid_t pid, int signal, const char *states);

/* A reproducible random number; each call moves *state on. */
uint64_t mpt_random(uint64_t *state);

/* Bytes that depend on `seed` and on their place, and whether memory holds them. */
void mpt_fill(void *memory, size_t nbytes, uint64_t seed);
void mpt_check(const char *file, int line, const void *memory, size_t nbytes, uint64_t seed);
#define MPT_CHECK(_memory, _nbytes, _seed)                                                         \
    mpt_check(__FILE__, __LINE__, (_memory), (_nbytes), (_seed))

/* The same for memory of which every byte is `value`. */
void mpt_check_bytes(const char *file, int line, const void *memory, size_t nbytes, int value);
#define MPT_CHECK_BYTES(_memory, _nbytes, _value)                                                  \
    mpt_check_bytes(__FILE__, __LINE__, (_memory), (_nbytes), (_value))

/* Remove a directory with all that is in it, as far as that is possible. */
void mpt_remove_tree(const char *path);

/* What this process uses, to be compared with the same at another time. */
int mpt_n_descriptors(void);
long mpt_resident_kib(void);

void mpt_status(const char *file, int line, const char *call, int status, int expected);
void mpt_compare(const char *file, int line, const char *what, intmax_t a, intmax_t b, bool holds);
void mpt_true(const char *file, int line, const char *what, bool holds);
void mpt_compare_text(const char *file, int line, const char *what, const char *a, const char *b);
void mpt_error_has(const char *file, int line, const char *text);

/* A call of the library and the status that it must return. */
#define MPT_STATUS(_call, _expected) mpt_status(__FILE__, __LINE__, #_call, (_call), (_expected))
#define MPT_OK(_call)                MPT_STATUS(_call, NIXL_OK)

#define MPT_COMPARE(_a, _op, _b)                                                                   \
    do {                                                                                           \
        intmax_t _left = (intmax_t)(_a), _right = (intmax_t)(_b);                                  \
                                                                                                   \
        mpt_compare(__FILE__, __LINE__, #_a " " #_op " " #_b, _left, _right, _left _op _right);    \
    } while (0)
#define MPT_EQ(_a, _b)   MPT_COMPARE(_a, ==, _b)
#define MPT_NE(_a, _b)   MPT_COMPARE(_a, !=, _b)
#define MPT_LT(_a, _b)   MPT_COMPARE(_a, <, _b)
#define MPT_GE(_a, _b)   MPT_COMPARE(_a, >=, _b)
#define MPT_TRUE(_a)     mpt_true(__FILE__, __LINE__, #_a, !!(_a))
#define MPT_TEXT(_a, _b) mpt_compare_text(__FILE__, __LINE__, #_a, (_a), (_b))
#define MPT_HAS(_text)   mpt_error_has(__FILE__, __LINE__, (_text)) /* nixl_last_error() does */

#endif
