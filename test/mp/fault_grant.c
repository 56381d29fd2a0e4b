/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user of a grant stops, or dies, while it moves lent blocks: as long as it may go on, the owner
 * does not get them back, and is told whose they are; when it has died, the owner does.
 *
 *     fault_grant
 *
 * Rank 0 lends blocks to rank 1, stops it while it reads them, and kills it. Rank 2 lends, and is
 * stopped, which between hosts lets no operation wait within its call, and killed.
 */
#include "mptest.h"
#include "test/op_form.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG_TOKEN 0xfe03
#define TAG_PID   0xfe04
#define NBYTES    ((size_t)64 << 20)
#define N_PUTS    8
#define PUT       ((size_t)64)
#define XFER_AT   (N_PUTS * PUT)
#define N_HANDLES 200 /* a closed one is taken again after 64 others */

static struct nixl_region *region, *file; /* file: of rank 2 */
static char path[512];

static struct nixl_req *lend(int rank, struct nixl_region *lent, size_t nbytes,
                             char token[NIXL_TOKEN_MAX + 1])
{
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;
    struct nixl_req *req = NULL;

    params.rights = NIXL_GRANT_READ | NIXL_GRANT_WRITE;
    blocks.region = lent;
    blocks.block_nbytes = nbytes;
    MPT_STATUS(nixl_grant_create(&blocks, &params, token, NIXL_TOKEN_MAX + 1, &req),
               NIXL_INPROGRESS);
    MPT_OK(nixl_notify(rank, TAG_TOKEN, token, strlen(token) + 1, MPT_PATIENCE));
    return req;
}

static struct nixl_note hear(int rank, uint64_t tag)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(rank, tag, UINT64_MAX, MPT_PATIENCE, &note));
    return note;
}

/*
 * Stop the user at a moment when it is inside. Over a network, what it had sent arrives first, so
 * it may have left: then it must run until it is inside again, or it never comes that far.
 */
static void stop_inside(pid_t pid, const char *token, struct nixl_req **req)
{
    struct nixl_grant_info info = NIXL_GRANT_INFO_INIT;
    int64_t until = mpt_now_ns() + MPT_PATIENCE;

    for (;;) {
        do {
            MPT_TRUE(mpt_now_ns() < until);
            MPT_OK(nixl_grant_query(token, &info));
        } while (info.nusers != 1);
        mpt_bring(pid, SIGSTOP, "T");
        MPT_STATUS(nixl_req_wait(req, 20 * MPT_MS), NIXL_E_TIMEOUT);
        MPT_OK(nixl_grant_query(token, &info));
        if (info.nusers == 1) {
            return;
        }
        MPT_EQ(kill(pid, SIGCONT), 0);
    }
}

/* Start puts with the grant. False: they have ended within the call, as they do on one host. */
static bool start_puts(struct nixl_op *op, const unsigned char *bytes, struct nixl_req **reqs)
{
    int64_t began = mpt_now_ns();

    for (int i = 0; i < N_PUTS; i++) {
        int status = nixl_put_x(2, region, i * PUT, bytes, PUT, op, &reqs[i]);

        MPT_TRUE(status == (reqs[i] != NULL ? NIXL_INPROGRESS : NIXL_OK));
        MPT_TRUE((reqs[i] != NULL) == (reqs[0] != NULL));
    }
    MPT_LT(mpt_now_ns() - began, MPT_PATIENCE / 4);
    return reqs[0] != NULL;
}

static void wait_unused(const char *token)
{
    struct nixl_grant_info info = NIXL_GRANT_INFO_INIT;
    int64_t until = mpt_now_ns() + MPT_PATIENCE;

    do {
        MPT_TRUE(mpt_now_ns() < until);
        MPT_OK(nixl_grant_query(token, &info));
    } while (info.nusers != 0);
}

/*
 * Between hosts: a handle is closed before the grant was entered, and its memory is another one's.
 */
static void close_stopped(pid_t pid, const char *token)
{
    struct nixl_op op = op_grant(token);
    struct nixl_region *handle = NULL, *other = NULL;
    struct nixl_req *req = NULL;
    unsigned char bytes[PUT];
    int status;

    MPT_OK(nixl_region_open("fault.grant", &handle));
    MPT_OK(nixl_get(2, handle, 0, bytes, PUT));
    mpt_bring(pid, SIGSTOP, "T");
    status = nixl_put_x(2, handle, 0, bytes, PUT, &op, &req);
    MPT_OK(nixl_region_close(handle, MPT_PATIENCE));
    for (int i = 0; i < N_HANDLES && other != handle; i++) {
        if (other != NULL) {
            MPT_OK(nixl_region_close(other, MPT_PATIENCE));
        }
        MPT_OK(nixl_region_open("other", &other));
    }
    MPT_EQ(kill(pid, SIGCONT), 0);
    if (status == NIXL_INPROGRESS) {
        MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    } else {
        MPT_EQ(status, NIXL_OK);
    }
    MPT_OK(nixl_region_close(other, MPT_PATIENCE));
    wait_unused(token);
}

/* Between hosts: what was started while the owner is stopped waits, is late, or is canceled. */
static void use_stopped(pid_t pid, const char *token)
{
    struct nixl_op op = op_grant(token);
    struct nixl_req *reqs[N_PUTS] = {NULL};
    unsigned char bytes[PUT], back[N_PUTS * PUT];
    int32_t outcome = -1;

    memset(bytes, 0x5a, sizeof(bytes));
    mpt_bring(pid, SIGSTOP, "T");
    if (start_puts(&op, bytes, reqs)) {
        MPT_OK(nixl_req_cancel(&reqs[0], MPT_PATIENCE, &outcome));
        MPT_EQ(outcome, NIXL_OUTCOME_UNTOUCHED);
        op.timeout_ns = 20 * MPT_MS;
        MPT_STATUS(nixl_get_x(2, region, 0, back, PUT, &op, NULL), NIXL_E_TIMEOUT);
        MPT_STATUS(nixl_put_x(2, region, 0, bytes, PUT, &op, &reqs[0]), NIXL_INPROGRESS);
        MPT_STATUS(nixl_req_wait(&reqs[0], MPT_PATIENCE), NIXL_E_TIMEOUT);
        MPT_STATUS(nixl_req_test(&reqs[1]), NIXL_INPROGRESS);
        MPT_STATUS(nixl_flush(2, 20 * MPT_MS), NIXL_E_TIMEOUT);
    } else {
        outcome = NIXL_OUTCOME_DONE;
    }
    MPT_EQ(kill(pid, SIGCONT), 0);
    for (int i = 1; i < N_PUTS; i++) {
        MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
    }
    wait_unused(token);
    MPT_OK(nixl_get(2, region, 0, back, sizeof(back)));
    for (size_t i = 0; i < sizeof(back); i++) {
        MPT_EQ(back[i], i < PUT && outcome == NIXL_OUTCOME_UNTOUCHED ? 0 : 0x5a);
    }
}

static struct nixl_xfer *prepare_put(const unsigned char *bytes)
{
    struct nixl_blocks remote = NIXL_BLOCKS_INIT, local = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer = NULL;

    remote.region = region;
    remote.offset = XFER_AT;
    remote.block_nbytes = PUT;
    local.addr = (void *)bytes;
    local.block_nbytes = PUT;
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, 2, &local, 1, &remote, 1, &xfer));
    return xfer;
}

/*
 * A prepared transfer does not wait within its call either. One that is late or canceled can be
 * started again at once, and leaves no user behind when the owner goes on.
 */
static void prepared_stopped(pid_t pid, const char *token)
{
    struct nixl_op op = op_grant(token);
    unsigned char bytes[PUT], back[PUT] = {0};
    struct nixl_xfer *xfer = prepare_put(bytes);
    struct nixl_req *req = NULL;
    int32_t outcome = -1;
    int status;

    memset(bytes, 0x3c, sizeof(bytes));
    mpt_bring(pid, SIGSTOP, "T");
    status = nixl_xfer_start_x(xfer, &op, &req);
    if (status == NIXL_INPROGRESS) {
        MPT_STATUS(nixl_xfer_free(xfer), NIXL_E_IN_USE);
        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, &outcome));
        MPT_EQ(outcome, NIXL_OUTCOME_UNTOUCHED);
        op.timeout_ns = 20 * MPT_MS;
        MPT_STATUS(nixl_xfer_start_x(xfer, &op, NULL), NIXL_E_TIMEOUT);
        op.timeout_ns = 0;
        MPT_STATUS(nixl_xfer_start_x(xfer, &op, &req), NIXL_INPROGRESS);
    } else {
        MPT_EQ(status, NIXL_OK);
    }
    MPT_EQ(kill(pid, SIGCONT), 0);
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    MPT_OK(nixl_get(2, region, XFER_AT, back, sizeof(back)));
    MPT_EQ(memcmp(back, bytes, sizeof(back)), 0);
    wait_unused(token);
    MPT_OK(nixl_xfer_free(xfer));
}

/* The same of a durable put. Its file is looked up, and the token, before the owner is stopped. */
static void durable_stopped(pid_t pid, const char *token)
{
    struct nixl_op op = op_grant(token);
    unsigned char bytes[PUT], back[PUT];
    struct nixl_req *req = NULL;
    int status;

    memset(bytes, 0x77, sizeof(bytes));
    MPT_OK(nixl_get_x(2, file, 0, back, PUT, &op, NULL));
    op.flags |= NIXL_OP_DURABLE;
    mpt_bring(pid, SIGSTOP, "T");
    op.timeout_ns = 20 * MPT_MS;
    MPT_STATUS(nixl_put_x(2, file, 0, bytes, PUT, &op, NULL), NIXL_E_TIMEOUT);
    op.timeout_ns = 0;
    status = nixl_put_x(2, file, 0, bytes, PUT, &op, &req);
    MPT_EQ(kill(pid, SIGCONT), 0);
    MPT_STATUS(status, NIXL_INPROGRESS);
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    MPT_OK(nixl_get(2, file, 0, back, sizeof(back)));
    MPT_EQ(memcmp(back, bytes, sizeof(back)), 0);
    wait_unused(token);
}

/* A flush waits for a get whose request was detached, from its first step to its last byte. */
static void detach_get(const char *token, unsigned char *local)
{
    struct nixl_op op = op_grant(token);
    struct nixl_req *req = NULL;
    size_t n_wrong = 0;
    int status;

    memset(local, 0xff, NBYTES);
    status = nixl_get_x(2, region, 0, local, NBYTES, &op, &req);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    MPT_OK(nixl_req_detach(&req));
    MPT_OK(nixl_flush(2, MPT_PATIENCE));
    for (size_t i = XFER_AT + PUT; i < NBYTES; i++) {
        n_wrong += local[i] != 0;
    }
    MPT_EQ(n_wrong, 0);
    wait_unused(token);
}

/* What is sent behind puts that are still to enter arrives behind their bytes. */
static void notify_behind(pid_t pid, const char *token)
{
    struct nixl_op op = op_grant(token);
    struct nixl_req *reqs[N_PUTS] = {NULL};
    unsigned char bytes[PUT];

    memset(bytes, 0xa5, sizeof(bytes));
    mpt_bring(pid, SIGSTOP, "T");
    (void)start_puts(&op, bytes, reqs);
    MPT_OK(nixl_notify(2, TAG_TOKEN, NULL, 0, MPT_PATIENCE));
    MPT_EQ(kill(pid, SIGCONT), 0);
    (void)hear(2, TAG_PID);
    for (int i = 0; i < N_PUTS; i++) {
        MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
    }
    wait_unused(token);
}

/* The owner dies while operations are to enter. */
static void use_killed(pid_t pid, const char *token)
{
    struct nixl_op op = op_grant(token);
    struct nixl_req *reqs[N_PUTS] = {NULL};
    static const unsigned char bytes[PUT];

    mpt_bring(pid, SIGSTOP, "T");
    (void)start_puts(&op, bytes, reqs);
    MPT_EQ(kill(pid, SIGKILL), 0);
    for (int i = 0; i < N_PUTS; i++) {
        if (reqs[i] != NULL) {
            MPT_STATUS(nixl_req_wait(&reqs[i], MPT_PATIENCE), NIXL_E_PEER_LOST);
        }
    }
}

static void name_file(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(path, sizeof(path), "%s/fault-grant", tmp != NULL ? tmp : "/tmp");
}

static void open_file(void)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;

    params.flags = NIXL_FILE_CREATE;
    params.nbytes = PUT;
    MPT_OK(nixl_region_open_file("fault.file", path, &params, &file));
    MPT_EQ(unlink(path), 0);
}

static void hold_out(unsigned char *buffer)
{
    char token[NIXL_TOKEN_MAX + 1], of_file[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req = lend(1, region, NBYTES, token), *none = NULL;
    struct nixl_note note = hear(1, TAG_PID);
    struct nixl_op op;
    char local[64];
    pid_t pid;

    memcpy(&pid, note.payload, sizeof(pid));
    stop_inside(pid, token, &req);
    MPT_STATUS(nixl_grant_revoke(token, 0), NIXL_INPROGRESS);
    MPT_STATUS(nixl_grant_revoke(token, 50 * MPT_MS), NIXL_E_TIMEOUT);
    MPT_EQ(nixl_last_error()->rank, 1);
    MPT_STATUS(nixl_req_test(&req), NIXL_INPROGRESS);
    MPT_EQ(kill(pid, SIGCONT), 0);
    MPT_OK(nixl_grant_revoke(token, MPT_PATIENCE));
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);

    req = lend(1, region, NBYTES, token);
    (void)hear(1, TAG_PID);
    stop_inside(pid, token, &req);
    MPT_STATUS(nixl_grant_revoke(token, 0), NIXL_INPROGRESS);
    MPT_EQ(kill(pid, SIGKILL), 0);
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);

    note = hear(2, TAG_TOKEN);
    memcpy(token, note.payload, note.nbytes);
    note = hear(2, TAG_TOKEN);
    memcpy(of_file, note.payload, note.nbytes);
    op = op_grant(token);
    MPT_OK(nixl_get_x(2, region, 0, local, sizeof(local), &op, NULL));
    note = hear(2, TAG_PID);
    memcpy(&pid, note.payload, sizeof(pid));
    close_stopped(pid, token);
    use_stopped(pid, token);
    prepared_stopped(pid, token);
    durable_stopped(pid, of_file);
    detach_get(token, buffer);
    notify_behind(pid, token);
    use_killed(pid, token);
    while (nixl_peer_state(2) != NIXL_PEER_LOST) {
        struct nixl_event event = NIXL_EVENT_INIT;

        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    }
    MPT_STATUS(nixl_get_x(2, region, 0, local, sizeof(local), &op, &none), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_grant_renew(token, MPT_S), NIXL_E_PEER_LOST);
    MPT_TRUE(none == NULL);
}

/* Read again and again, until the grant is over: no byte differs from what was lent. */
static void read_on(unsigned char *local)
{
    struct nixl_note note = hear(0, TAG_TOKEN);
    const pid_t pid = getpid();
    struct nixl_op op;
    int status;

    op = op_grant((const char *)note.payload);
    MPT_OK(nixl_notify(0, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
    do {
        status = nixl_get_x(0, region, 0, local, NBYTES, &op, NULL);
    } while (status == NIXL_OK);
    MPT_EQ(status, NIXL_E_STALE);
}

int main(void)
{
    static unsigned char local[NBYTES];
    char token[NIXL_TOKEN_MAX + 1];
    pid_t pid;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("fault.grant", NBYTES, NULL, &region));
    name_file();
    if (nixl_rank() == 0) {
        MPT_OK(nixl_region_open("fault.file", &file));
        hold_out(local);
        mpt_finalize();
        return mpt_passed();
    }
    if (nixl_rank() == 1) {
        read_on(local);
        read_on(local); /* and dies */
    }
    open_file();
    (void)lend(0, region, NBYTES, token);
    (void)lend(0, file, PUT, token);
    pid = getpid();
    MPT_OK(nixl_notify(0, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
    (void)hear(0, TAG_TOKEN);
    for (size_t i = 0; i < N_PUTS * PUT; i++) {
        MPT_EQ(((volatile unsigned char *)nixl_region_addr(region))[i], 0xa5);
    }
    MPT_OK(nixl_notify(0, TAG_PID, NULL, 0, MPT_PATIENCE));
    (void)hear(0, TAG_TOKEN); /* which never comes: it is killed */
    return 1;
}
