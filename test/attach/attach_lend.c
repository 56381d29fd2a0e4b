/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process is stopped while it writes into memory of another one, which then detaches it. Usage:
 *     attach_lend lend WHERE NAME grant|pair      publishes, and lends its memory for one write
 *     attach_lend borrow WHERE NAME grant|pair    attaches, and writes into it
 * The owner gets the memory back when the writer has gone on and has left it, and not before.
 */
#include "test/mp/mptest.h"
#include "test/op_form.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NBYTES     ((size_t)64 << 20)
#define STEP       ((size_t)64 << 10) /* what of the memory is looked at */
#define LONG_AFTER (50 * MPT_MS)      /* long enough for what must not happen */
#define TAG_PID    1
#define TAG_TOKEN  2

static struct nixl_region *region;
static unsigned char *memory;
static bool is_grant;

static struct nixl_req *lend(int rank, char token[NIXL_TOKEN_MAX + 1])
{
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    struct nixl_req *req = NULL;

    memset(memory, 0, NBYTES);
    params.rights = NIXL_GRANT_WRITE;
    if (is_grant) {
        blocks.region = region;
        blocks.block_nbytes = NBYTES;
        MPT_STATUS(nixl_grant_create(&blocks, &params, token, NIXL_TOKEN_MAX + 1, &req),
                   NIXL_INPROGRESS);
    } else {
        MPT_STATUS(nixl_pair_expose(rank, region, 0, NBYTES, NIXL_PAIR_WRITE, NIXL_FOREVER, token,
                                    NIXL_TOKEN_MAX + 1, &req),
                   NIXL_INPROGRESS);
    }
    MPT_OK(nixl_notify(rank, TAG_TOKEN, token, strlen(token) + 1, MPT_PATIENCE));
    return req;
}

/* How many of the places that are looked at have been written. */
static size_t n_written(void)
{
    size_t n = 0;

    for (size_t at = 0; at < NBYTES; at += STEP) {
        n += *(volatile unsigned char *)(memory + at) != 0;
    }
    return n;
}

/* Lend until the writer has been stopped in the middle. */
static struct nixl_req *stop_in_the_middle(int rank, pid_t pid, char token[NIXL_TOKEN_MAX + 1])
{
    int64_t until = mpt_now_ns() + MPT_PATIENCE;

    for (;;) {
        struct nixl_req *req = lend(rank, token);

        while (n_written() == 0) {
            MPT_LT(mpt_now_ns(), until);
        }
        mpt_bring(pid, SIGSTOP, "T");
        if (n_written() < NBYTES / STEP) {
            return req;
        }
        MPT_EQ(kill(pid, SIGCONT), 0);
        if (is_grant) {
            MPT_OK(nixl_grant_revoke(token, MPT_PATIENCE));
            MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
        } else {
            MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        }
        MPT_LT(mpt_now_ns(), until);
    }
}

static void lend_out(const char *where, const char *name)
{
    int64_t until = mpt_now_ns() + MPT_PATIENCE;
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_note note;
    struct nixl_req *req;
    unsigned char *then;
    pid_t pid;
    int status;

    nixl_note_init(&note);
    MPT_OK(nixl_publish(where, name, NULL));
    puts("published");
    fflush(stdout);
    MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, TAG_PID, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&pid, note.payload, sizeof(pid));
    req = stop_in_the_middle(note.rank, pid, token);
    MPT_STATUS(nixl_detach(note.rank, 0), NIXL_INPROGRESS);
    if (is_grant) {
        MPT_STATUS(nixl_grant_revoke(token, LONG_AFTER), NIXL_E_TIMEOUT);
        MPT_EQ(nixl_last_error()->rank, note.rank);
    }
    MPT_STATUS(nixl_req_wait(&req, LONG_AFTER), NIXL_E_TIMEOUT);
    MPT_EQ(kill(pid, SIGCONT), 0);
    status = nixl_req_wait(&req, MPT_PATIENCE);
    MPT_TRUE(status == NIXL_OK || status == (is_grant ? NIXL_E_CANCELED : NIXL_E_PEER_LOST));

    then = malloc(NBYTES);
    MPT_TRUE(then != NULL);
    memcpy(then, memory, NBYTES);
    while (kill(pid, 0) == 0 || errno != ESRCH) {
        MPT_LT(mpt_now_ns(), until);
        usleep(1000);
    }
    MPT_EQ(memcmp(then, memory, NBYTES), 0);
    free(then);
}

static int write_with(const char *token, int rank, const unsigned char *bytes)
{
    struct nixl_op op = op_grant(token);
    struct nixl_req *req = NULL;
    int status = is_grant ? nixl_put_x(rank, region, 0, bytes, NBYTES, &op, NULL)
                          : nixl_pair_write(token, bytes, NBYTES, &req);

    return status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status;
}

static void borrow(const char *where, const char *name)
{
    unsigned char *bytes = malloc(NBYTES);
    const pid_t pid = getpid();
    struct nixl_note note;
    int rank, status;

    MPT_TRUE(bytes != NULL);
    memset(bytes, 1, NBYTES);
    nixl_note_init(&note);
    MPT_OK(nixl_attach(where, name, NULL, MPT_PATIENCE, &rank));
    MPT_OK(nixl_notify(rank, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
    do {
        status = nixl_notify_recv(rank, TAG_TOKEN, UINT64_MAX, MPT_PATIENCE, &note);
        if (status == NIXL_OK) {
            status = write_with((const char *)note.payload, rank, bytes);
        }
    } while (status == NIXL_OK);
    MPT_TRUE(status == NIXL_E_PEER_LOST || status == NIXL_E_STALE);
    free(bytes);
}

int main(int argc, char **argv)
{
    mpt_start();
    MPT_EQ(argc, 5);
    MPT_OK(nixl_init(NULL));
    is_grant = strcmp(argv[4], "grant") == 0;
    MPT_OK(nixl_region_alloc("attach.lend", NBYTES, NULL, &region));
    memory = nixl_region_addr(region);
    if (strcmp(argv[1], "lend") == 0) {
        lend_out(argv[2], argv[3]);
    } else {
        borrow(argv[2], argv[3]);
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
