/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durable prepared transfers, and durable operations on blocks that are lent: they end, and what
 * follows them comes, behind the fdatasync of their files. The last rank moves, rank 0 has the
 * files. Arguments, one of:
 *   works   all ways to start one and to hear of its end; what is refused
 *   sync    fdatasync fails (BAD_DISK=sync): so do they, and nothing follows
 *   held    fdatasync waits for a reader of the FIFO in BAD_DISK_HOLD (BAD_DISK=hold): meanwhile
 *           they are under way
 *   killed  ... and meanwhile the owner dies
 *   behind  one of the writes of the owner's own put waits for a reader of the FIFO, and fdatasync
 *           fails meanwhile (BAD_DISK=slow): it comes behind all of them
 */
#include "mptest.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_BLOCKS = 300, BLOCK = 4096, HALF = N_BLOCKS / 2, NBYTES = N_BLOCKS * BLOCK };
enum { TAG_DURABLE = 5, TAG_TOKEN };
static const int64_t A_WHILE = 30000000; /* long enough to see that nothing comes */

static struct nixl_region *files[2], *words;
static char paths[2][512], hold[512], held[520];
static int rank, size;
static bool is_owner, is_caller;
static unsigned char *out, *in;
static uint64_t index_of[N_BLOCKS];

/* ---- what all cases use ---------------------------------------------------------------------- */

static void open_files(void)
{
    const char *tmp = getenv("TMPDIR");
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;

    params.flags = NIXL_FILE_CREATE;
    params.nbytes = NBYTES;
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "file 0" : "file 1";

        snprintf(paths[i], sizeof(paths[i]), "%s/durable-%d", tmp != NULL ? tmp : "/tmp", i);
        if (is_owner) {
            MPT_OK(nixl_region_open_file(name, paths[i], &params, &files[i]));
        } else {
            MPT_OK(nixl_region_open(name, &files[i]));
        }
    }
    MPT_OK(nixl_region_alloc("words", 4096, NULL, &words));
    for (uint64_t i = 0; i < N_BLOCKS; i++) {
        index_of[i] = (i * 7 + 3) % N_BLOCKS;
    }
    mpt_barrier();
}

/* A put of all blocks: half of them into each file, or all into one region. */
static struct nixl_xfer *prepare(struct nixl_region *into, enum nixl_xfer_op kind)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote[2] = {NIXL_BLOCKS_INIT, NIXL_BLOCKS_INIT};
    struct nixl_xfer *xfer;

    local.addr = kind == NIXL_XFER_PUT ? out : in;
    local.block_nbytes = remote[0].block_nbytes = remote[1].block_nbytes = BLOCK;
    local.stride = remote[0].stride = remote[1].stride = BLOCK;
    local.nblocks = N_BLOCKS;
    remote[0].region = into != NULL ? into : files[0];
    remote[0].index = index_of;
    remote[0].nblocks = into != NULL ? N_BLOCKS : HALF;
    remote[1].region = files[1];
    remote[1].nblocks = N_BLOCKS - HALF;
    MPT_OK(nixl_xfer_create(kind, 0, &local, 1, remote, into != NULL ? 1 : 2, &xfer));
    return xfer;
}

static struct nixl_op durable_op(uint32_t flags)
{
    struct nixl_op op = NIXL_OP_INIT;

    op.flags = NIXL_OP_DURABLE | flags;
    op.tag = TAG_DURABLE;
    op.signal_region = words;
    op.signal_op = NIXL_SIGNAL_ADD;
    op.signal_value = 1;
    return op;
}

static void hear(int from, uint64_t tag, char *text, size_t nbytes)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(from, tag, UINT64_MAX, MPT_PATIENCE, &note));
    if (text != NULL) {
        MPT_GE(nbytes, note.nbytes);
        memcpy(text, note.payload, note.nbytes);
    }
}

static void hear_nothing(uint64_t tag)
{
    struct nixl_note note;

    nixl_note_init(&note);
    MPT_EQ(nixl_notify_recv(size - 1, tag, UINT64_MAX, A_WHILE, &note), NIXL_E_TIMEOUT);
}

/* The owner looks at its files as any program would. */
static void check_files(uint64_t seed)
{
    for (int i = 0; i < N_BLOCKS; i++) {
        bool is_first = i < HALF;
        off_t at = (off_t)(is_first ? index_of[i] : (uint64_t)(i - HALF)) * BLOCK;
        int fd = open(paths[is_first ? 0 : 1], O_RDONLY | O_CLOEXEC);

        MPT_TRUE(fd >= 0);
        MPT_EQ(pread(fd, in + (size_t)i * BLOCK, BLOCK, at), BLOCK);
        MPT_EQ(close(fd), 0);
    }
    MPT_CHECK(in, NBYTES, seed);
}

/* Rank 0 lends the first file, and the last rank has the token. */
static void lend(char *token, struct nixl_req **req_p)
{
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;

    params.rights = NIXL_GRANT_READ | NIXL_GRANT_WRITE;
    blocks.region = files[0];
    blocks.block_nbytes = NBYTES;
    if (is_owner) {
        MPT_EQ(nixl_grant_create(&blocks, &params, token, NIXL_TOKEN_MAX + 1, req_p),
               NIXL_INPROGRESS);
        MPT_OK(nixl_notify(size - 1, TAG_TOKEN, token, strlen(token) + 1, MPT_PATIENCE));
    }
    if (is_caller) {
        hear(0, TAG_TOKEN, token, NIXL_TOKEN_MAX + 1);
    }
}

static void take_back(const char *token, struct nixl_req **req_p)
{
    mpt_barrier();
    if (is_owner) {
        MPT_OK(nixl_grant_revoke(token, MPT_PATIENCE));
        MPT_EQ(nixl_req_wait(req_p, MPT_PATIENCE), NIXL_E_CANCELED);
    }
}

/* ---- works ----------------------------------------------------------------------------------- */

/* Each way to start one, and to hear of its end at both sides. */
static void started(struct nixl_xfer *xfer, int way)
{
    struct nixl_op op = durable_op(way == 0 ? NIXL_OP_NOTE : NIXL_OP_NOTE | NIXL_OP_SIGNAL);
    struct nixl_cq_entry entry;
    struct nixl_req *req = NULL;
    struct nixl_cq *cq;
    size_t n = 0;

    mpt_fill(out, NBYTES, (uint64_t)way);
    if (way == 0) {
        MPT_OK(nixl_xfer_start_x(xfer, &op, NULL));
    } else if (way == 1) {
        MPT_EQ(nixl_xfer_start_x(xfer, &op, &req), NIXL_INPROGRESS);
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    } else if (way == 2) {
        MPT_EQ(nixl_xfer_start_x(xfer, &op, &req), NIXL_INPROGRESS);
        MPT_OK(nixl_req_detach(&req));
    } else {
        MPT_OK(nixl_cq_open(NULL, &cq));
        op.cq = cq;
        op.user_data = 99;
        MPT_EQ(nixl_xfer_start_x(xfer, &op, NULL), NIXL_INPROGRESS);
        MPT_OK(nixl_cq_wait(cq, &entry, 1, MPT_PATIENCE, &n));
        MPT_EQ(n, 1);
        MPT_EQ(entry.user_data, 99);
        MPT_EQ(entry.status, NIXL_OK);
        MPT_OK(nixl_cq_close(cq));
    }
}

static void all_ways(void)
{
    struct nixl_xfer *xfer = is_caller ? prepare(NULL, NIXL_XFER_PUT) : NULL;
    uint64_t *word = nixl_region_addr(words);

    for (int way = 0; way < 4; way++) {
        if (is_caller) {
            started(xfer, way);
        }
        if (is_owner) {
            hear(size - 1, TAG_DURABLE, NULL, 0);
            check_files((uint64_t)way);
            MPT_OK(nixl_signal_wait(word, NIXL_COMPARE_GE, (uint64_t)way, MPT_PATIENCE, NULL));
        }
        mpt_barrier();
    }
    if (is_caller) {
        MPT_OK(nixl_flush(0, MPT_PATIENCE));
        MPT_OK(nixl_xfer_free(xfer));
    }
}

/* No blocks at all; one file by two entries. */
static void odd_sizes(void)
{
    struct nixl_op op = durable_op(0);
    struct nixl_xfer *xfer = prepare(NULL, NIXL_XFER_PUT);

    MPT_OK(nixl_xfer_set_index(xfer, NIXL_XFER_REMOTE, 1, 0, NULL));
    MPT_OK(nixl_xfer_set_index(xfer, NIXL_XFER_LOCAL, 0, HALF, NULL));
    MPT_OK(nixl_xfer_start_x(xfer, &op, NULL));
    MPT_OK(nixl_xfer_set_index(xfer, NIXL_XFER_REMOTE, 0, 0, NULL));
    MPT_OK(nixl_xfer_set_index(xfer, NIXL_XFER_LOCAL, 0, 0, NULL));
    MPT_OK(nixl_xfer_start_x(xfer, &op, NULL));
    MPT_OK(nixl_xfer_set_index(xfer, NIXL_XFER_REMOTE, 1, 1, NULL));
    MPT_OK(nixl_xfer_set_index(xfer, NIXL_XFER_LOCAL, 0, 1, NULL));
    MPT_OK(nixl_xfer_start_x(xfer, &op, NULL));
    MPT_OK(nixl_xfer_start_x(xfer, NULL, NULL)); /* the next start is an ordinary one */
    MPT_OK(nixl_xfer_free(xfer));
}

static void lent(void)
{
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req = NULL;
    struct nixl_op op = durable_op(NIXL_OP_NOTE | NIXL_OP_GRANT);

    lend(token, &req);
    op.grant = token;
    if (is_caller) {
        struct nixl_xfer *xfer = prepare(files[0], NIXL_XFER_PUT);
        struct nixl_xfer *outside = prepare(NULL, NIXL_XFER_PUT);

        mpt_fill(out, NBYTES, 8);
        MPT_OK(nixl_xfer_start_x(xfer, &op, NULL));
        MPT_OK(nixl_put_x(0, files[0], 10, out, 3 * BLOCK, &op, NULL));
        MPT_OK(nixl_put_x(0, files[0], 5, out, 0, &op, NULL));
        MPT_STATUS(nixl_xfer_start_x(outside, &op, NULL), NIXL_E_ACCESS);
        MPT_STATUS(nixl_put_x(0, files[1], 10, out, BLOCK, &op, NULL), NIXL_E_ACCESS);
        MPT_STATUS(nixl_get_x(0, files[0], 10, in, BLOCK, &op, NULL), NIXL_E_UNSUPPORTED);
        MPT_OK(nixl_get(0, files[0], 10, in, 3 * BLOCK));
        MPT_CHECK(in, 3 * BLOCK, 8);
        MPT_OK(nixl_xfer_free(xfer));
        MPT_OK(nixl_xfer_free(outside));
    }
    for (int i = 0; is_owner && i < 3; i++) {
        hear(size - 1, TAG_DURABLE, NULL, 0);
    }
    take_back(token, &req);
}

static void refused(void)
{
    struct nixl_op op = durable_op(0);
    struct nixl_region *memory;
    struct nixl_xfer *xfer;

    MPT_OK(nixl_region_alloc("memory", NBYTES, NULL, &memory));
    mpt_barrier();
    if (is_caller) {
        xfer = prepare(memory, NIXL_XFER_PUT);
        MPT_STATUS(nixl_xfer_start_x(xfer, &op, NULL), NIXL_E_UNSUPPORTED);
        MPT_TRUE(strstr(nixl_last_error()->text, "allowed: files") != NULL);
        MPT_OK(nixl_xfer_start_x(xfer, NULL, NULL));
        MPT_OK(nixl_xfer_free(xfer));
        xfer = prepare(files[0], NIXL_XFER_GET);
        MPT_STATUS(nixl_xfer_start_x(xfer, &op, NULL), NIXL_E_UNSUPPORTED);
        MPT_TRUE(strstr(nixl_last_error()->text, "a get changes no file") != NULL);
        MPT_OK(nixl_xfer_start_x(xfer, NULL, NULL));
        MPT_OK(nixl_xfer_free(xfer));
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(memory, MPT_PATIENCE));
}

static void works_cases(void)
{
    all_ways();
    if (is_caller) {
        odd_sizes();
    }
    mpt_barrier();
    lent();
    refused();
}

/* ---- sync ------------------------------------------------------------------------------------ */

/* Its request is not there to be waited for. */
static void free_when_over(struct nixl_xfer *xfer)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    int status;

    while ((status = nixl_xfer_free(xfer)) == NIXL_E_IN_USE && mpt_now_ns() < end_ns) {
        sched_yield();
    }
    MPT_OK(status);
}

static void sync_cases(void)
{
    struct nixl_op op = durable_op(NIXL_OP_NOTE | NIXL_OP_SIGNAL);
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req = NULL, *granted = NULL;
    uint64_t *word = nixl_region_addr(words);

    lend(token, &granted);
    op.grant = token;
    if (is_caller) {
        struct nixl_xfer *xfer = prepare(files[0], NIXL_XFER_PUT);

        MPT_STATUS(nixl_xfer_start_x(xfer, &op, NULL), NIXL_E_STORAGE);
        MPT_TRUE(strstr(nixl_last_error()->text, paths[0]) != NULL);
        MPT_TRUE(strstr(nixl_last_error()->text, "Input/output error") != NULL);
        MPT_EQ(nixl_xfer_start_x(xfer, &op, &req), NIXL_INPROGRESS);
        MPT_OK(nixl_req_detach(&req));
        MPT_EQ(nixl_flush(0, MPT_PATIENCE), NIXL_E_STORAGE); /* that of the detached one */
        op.flags |= NIXL_OP_GRANT;
        free_when_over(xfer);
        xfer = prepare(files[0], NIXL_XFER_PUT);
        MPT_STATUS(nixl_xfer_start_x(xfer, &op, NULL), NIXL_E_STORAGE);
        MPT_STATUS(nixl_put_x(0, files[0], 5, out, BLOCK, &op, NULL), NIXL_E_STORAGE);
        MPT_OK(nixl_xfer_start_x(xfer, NULL, NULL));
        MPT_OK(nixl_xfer_free(xfer));
    }
    mpt_barrier();
    if (is_owner) {
        hear_nothing(TAG_DURABLE);
        MPT_EQ(__atomic_load_n(word, __ATOMIC_ACQUIRE), 0);
    }
    take_back(token, &granted);
}

/* ---- held and killed ------------------------------------------------------------------------- */

/* Let those that wait in fdatasync go on, and later ones not wait. */
static void release(void)
{
    int fd = open(hold, O_RDWR | O_CLOEXEC);
    const char many[64] = "";

    MPT_TRUE(fd >= 0);
    MPT_EQ(unlink(hold), 0);
    MPT_EQ(write(fd, many, sizeof(many)), sizeof(many));
    (void)fd; /* it stays open: a reader may come */
}

/*
 * It has moved all, for its fdatasync has begun, and is under way. It holds back notifications that
 * come later, nothing else.
 */
static void is_under_way(struct nixl_xfer *xfer, struct nixl_req **req_p)
{
    int64_t until = mpt_now_ns() + MPT_PATIENCE;
    struct nixl_req *other = NULL;

    while (access(held, F_OK) != 0) {
        MPT_TRUE(mpt_now_ns() < until);
        sched_yield();
    }
    MPT_EQ(unlink(held), 0);
    MPT_EQ(nixl_req_wait(req_p, A_WHILE), NIXL_E_TIMEOUT);
    MPT_EQ(nixl_xfer_start(xfer, &other), NIXL_E_IN_USE);
    MPT_EQ(nixl_xfer_free(xfer), NIXL_E_IN_USE);
    MPT_OK(nixl_get(0, files[0], 0, in, BLOCK));
}

static void held_cases(void)
{
    struct nixl_op op = durable_op(NIXL_OP_NOTE), lent_op = durable_op(NIXL_OP_GRANT);
    char token[NIXL_TOKEN_MAX + 1];
    uint64_t *step = (uint64_t *)nixl_region_addr(words) + 1;
    struct nixl_req *req = NULL, *granted = NULL;
    struct nixl_xfer *xfer = NULL;
    int32_t outcome = -1;

    lend(token, &granted);
    lent_op.grant = token;
    if (is_caller) {
        xfer = prepare(files[0], NIXL_XFER_PUT);
        mpt_fill(out, NBYTES, 3);
        MPT_EQ(nixl_xfer_start_x(xfer, &op, &req), NIXL_INPROGRESS);
        is_under_way(xfer, &req);
        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, &outcome));
        MPT_EQ(outcome, NIXL_OUTCOME_PARTIAL);
        MPT_EQ(nixl_xfer_start_x(xfer, &lent_op, &req), NIXL_INPROGRESS);
        is_under_way(xfer, &req);
        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, NULL));
        op.timeout_ns = A_WHILE;
        MPT_STATUS(nixl_xfer_start_x(xfer, &op, NULL), NIXL_E_TIMEOUT);
        op.timeout_ns = 0;
    }
    mpt_barrier();
    take_back(token, &granted); /* none uses it, though their fdatasync has not returned */
    if (is_caller) {
        MPT_EQ(nixl_xfer_start_x(xfer, &op, &req), NIXL_INPROGRESS);
        is_under_way(xfer, &req);
        MPT_OK(nixl_signal_add(0, words, 8, 1));
    }
    if (is_owner) {
        MPT_OK(nixl_signal_wait(step, NIXL_COMPARE_GE, 1, MPT_PATIENCE, NULL));
        hear_nothing(TAG_DURABLE);
        release();
        hear(size - 1, TAG_DURABLE, NULL, 0);
    }
    if (is_caller) {
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        MPT_OK(nixl_xfer_free(xfer));
    }
    mpt_barrier();
}

static void killed_cases(void)
{
    struct nixl_op op = durable_op(NIXL_OP_NOTE);
    struct nixl_req *req = NULL;

    if (is_caller) {
        struct nixl_xfer *xfer = prepare(files[0], NIXL_XFER_PUT);

        MPT_EQ(nixl_xfer_start_x(xfer, &op, &req), NIXL_INPROGRESS);
        is_under_way(xfer, &req);
        MPT_OK(nixl_signal_add(0, words, 8, 1));
        MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_PEER_LOST);
        MPT_OK(nixl_xfer_free(xfer));
    }
    if (is_owner) {
        MPT_OK(nixl_signal_wait((uint64_t *)nixl_region_addr(words) + 1, NIXL_COMPARE_GE, 1,
                                MPT_PATIENCE, NULL));
        raise(SIGKILL);
    }
}

/* ---- behind ---------------------------------------------------------------------------------- */

static void behind_cases(void)
{
    struct nixl_op op = durable_op(NIXL_OP_NOTE);
    struct nixl_req *req = NULL;

    mpt_fill(out, NBYTES, 4);
    MPT_EQ(nixl_put_x(0, files[0], 5, out, NBYTES - 10, &op, &req), NIXL_INPROGRESS);
    MPT_EQ(nixl_req_wait(&req, A_WHILE), NIXL_E_TIMEOUT);
    hear_nothing(TAG_DURABLE);
    release();
    hear(0, TAG_DURABLE, NULL, 0);
    MPT_OK(nixl_get(0, files[0], 5, in, NBYTES - 10));
    MPT_CHECK(in, NBYTES - 10, 4);
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    MPT_OK(nixl_flush(0, MPT_PATIENCE));
}

/* ---- all ------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"works", works_cases},
                 {"sync", sync_cases},
                 {"held", held_cases},
                 {"killed", killed_cases},
                 {"behind", behind_cases}};
    const char *which = argc > 1 ? argv[1] : "works", *dir = getenv("TMPDIR");
    bool is_killed = strcmp(which, "killed") == 0, is_behind = strcmp(which, "behind") == 0;

    mpt_start();
    snprintf(hold, sizeof(hold), "%s/hold", dir != NULL ? dir : "/tmp");
    snprintf(held, sizeof(held), "%s.held", hold);
    MPT_EQ(setenv("BAD_DISK_HOLD", hold, 1), 0);
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    is_owner = rank == 0;
    is_caller = rank == size - 1;
    if (is_owner && (is_killed || is_behind || strcmp(which, "held") == 0)) {
        MPT_EQ(mkfifo(hold, 0600), 0);
    }
    out = calloc(1, NBYTES);
    in = calloc(1, NBYTES);
    MPT_TRUE(out != NULL && in != NULL);
    open_files();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(which, cases[i].name) == 0) {
            cases[i].run();
        }
    }
    if (!is_killed) {
        mpt_barrier();
    }
    if (is_killed ? is_caller : is_owner) {
        MPT_EQ(unlink(paths[0]), 0);
        MPT_EQ(unlink(paths[1]), 0);
        (void)unlink(hold);
        (void)unlink(held);
    }
    free(out);
    free(in);
    mpt_finalize();
    return mpt_passed();
}
