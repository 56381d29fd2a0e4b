/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core's part, as small as possible: it counts what the network reports, and checks what holds
 * for every case: the network calls only from progress() and close(), an operation ends once, a
 * message is whole.
 */
#include "config.h"

#include "network_test.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct nt_told nt_told;
void (*nt_on_message)(const struct nt_header *header, size_t nbytes);
void *(*nt_on_incoming)(const struct nt_header *header, size_t nbytes, void **cookie_p);
void (*nt_on_landed)(void *cookie, int status);
struct nxr_net_ep *nt_eps[NT_MAX_PROCESSES];
bool nt_is_open;
const char *nt_provider = "", *nt_devices = "";

static bool is_called; /* the module may call the core */
static int64_t now;    /* of this round */
static int peers[NT_MAX_PROCESSES];

/* ---- what the network calls ------------------------------------------------------------------ */

static void core_received(const void *bytes, size_t nbytes)
{
    MPT_TRUE(is_called);
    MPT_GE(nbytes, sizeof(struct nt_header));
    nt_told.n_received++;
    if (nt_on_message != NULL) {
        struct nt_header header;

        /* Not aligned: the network promises nothing. */
        memcpy(&header, bytes, sizeof(header));
        mpt_check(__FILE__, __LINE__, (const char *)bytes + sizeof(header), nbytes - sizeof(header),
                  header.number);
        nt_on_message(&header, nbytes);
    }
}

static void *core_incoming(const void *bytes, size_t header_nbytes, size_t nbytes, void **cookie_p)
{
    struct nt_header header;

    MPT_TRUE(is_called);
    MPT_GE(header_nbytes, sizeof(header));
    memcpy(&header, bytes, sizeof(header));
    mpt_check(__FILE__, __LINE__, (const char *)bytes + sizeof(header),
              header_nbytes - sizeof(header), header.number);
    nt_told.n_incoming++;
    return nt_on_incoming != NULL ? nt_on_incoming(&header, nbytes, cookie_p) : NULL;
}

static void core_landing(void *cookie, size_t nbytes)
{
    (void)cookie;
    MPT_TRUE(is_called);
    MPT_LT(0, nbytes);
}

static void core_landed(void *cookie, int status)
{
    MPT_TRUE(is_called);
    nt_told.n_landed++;
    nt_told.n_landed_badly += status != NIXL_OK;
    if (nt_on_landed != NULL) {
        nt_on_landed(cookie, status);
    }
}

static void core_ended(struct nxr_net_op *taken, int status)
{
    struct nt_op *op = (struct nt_op *)(void *)taken;

    MPT_TRUE(is_called);
    MPT_TRUE(op->is_taken);
    MPT_EQ(op->n_ends, 0);
    MPT_TRUE(status == NIXL_OK || status == NIXL_E_CANCELED || status == NIXL_E_TRANSPORT);
    op->n_ends++;
    op->status = status;
    nt_told.n_ended++;
    nt_told.n_ended_badly += status != NIXL_OK;
}

static void core_ep_failed(void *peer, struct nxr_net_ep *ep, const char *why)
{
    int rank = *(const int *)peer;

    MPT_TRUE(is_called);
    MPT_TRUE(why != NULL && why[0] != '\0');
    MPT_TRUE(ep != NULL && nt_eps[rank] == ep);
    nt_told.n_failed[rank]++;
    snprintf(nt_told.why, sizeof(nt_told.why), "%s", why);
}

static void core_log(enum nxr_net_log level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void core_log(enum nxr_net_log level, const char *format, ...)
{
    va_list args;

    if (level <= NXR_NET_WARN || getenv("NETWORK_TEST_LOG") != NULL) {
        fprintf(stderr, "# process %d: ", nt_rank);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fprintf(stderr, "\n");
    }
}

/* ---- open, connect, close -------------------------------------------------------------------- */

static int drive(void)
{
    int n;

    is_called = true;
    now = mpt_now_ns();
    n = nt_net->progress();
    is_called = false;
    return n;
}

int nt_drive(void)
{
    return nt_is_open ? drive() : 0;
}

int nt_try_open(bool prefers_rma, char *why, size_t why_nbytes)
{
    static struct nxr_net_core core;
    int status;

    core = (struct nxr_net_core){
        .rank = nt_rank,
        .size = nt_size,
        .now_ns = &now,
        .received = core_received,
        .incoming = core_incoming,
        .landing = core_landing,
        .landed = core_landed,
        .ended = core_ended,
        .ep_failed = core_ep_failed,
        .log = core_log,
        .devices = nt_devices,
        .provider = nt_provider,
        .prefers_rma = prefers_rma,
    };
    status = nt_net->probe(why, why_nbytes);
    return status == NIXL_OK ? nt_net->open(&core, why, why_nbytes) : status;
}

void nt_open(bool prefers_rma)
{
    char why[512] = "";
    int status = nt_try_open(prefers_rma, why, sizeof(why));

    if (status != NIXL_OK) {
        mpt_fail(__FILE__, __LINE__, "open: %d: %s", status, why);
    }
    MPT_GE(nt_net->attr()->message_nbytes, 4608);
    MPT_TRUE(nt_net->attr()->has_bulk || nt_net->attr()->has_rma);
    nt_is_open = true;
}

void nt_connect(void)
{
    struct {
        size_t nbytes;
        unsigned char bytes[NXR_NET_ADDRESS_NBYTES];
    } mine = {.nbytes = 0}, theirs[NT_MAX_PROCESSES];
    unsigned n_rails = 0;
    char why[256];

    MPT_OK(nt_net->address(mine.bytes, &mine.nbytes));
    MPT_TRUE(mine.nbytes > 0 && mine.nbytes <= sizeof(mine.bytes));
    nt_exchange(&mine, sizeof(mine), theirs);
    for (int rank = 0; rank < nt_size; rank++) {
        peers[rank] = rank;
        if (rank != nt_rank) {
            MPT_OK(
                nt_net->reach(theirs[rank].bytes, theirs[rank].nbytes, &n_rails, why, sizeof(why)));
            MPT_TRUE(n_rails >= 1 && n_rails <= nt_net->attr()->n_rails);
            MPT_OK(nt_net->ep_open(theirs[rank].bytes, theirs[rank].nbytes, &peers[rank],
                                   &nt_eps[rank]));
        }
    }
}

/* The orderly end that the core makes: endpoints first, then what is still reported. */
void nt_close(void)
{
    int64_t deadline;

    nt_barrier();
    for (int rank = 0; rank < nt_size; rank++) {
        if (nt_eps[rank] != NULL) {
            nt_net->ep_close(nt_eps[rank], nt_told.n_failed[rank] == 0);
            nt_eps[rank] = NULL;
        }
    }
    deadline = mpt_now_ns() + 20 * MPT_MS;
    while (mpt_now_ns() < deadline) {
        drive();
    }
    is_called = true;
    nt_net->close();
    is_called = false;
    nt_is_open = false;
}

/* ---- waiting --------------------------------------------------------------------------------- */

void nt_until(bool (*holds)(const void *arg), const void *arg, const char *what)
{
    int64_t deadline = mpt_now_ns() + NT_WAIT_NS;

    while (!holds(arg)) {
        if (drive() == 0 && mpt_now_ns() > deadline) {
            mpt_fail(__FILE__, __LINE__, "waited too long until %s", what);
        }
    }
}

struct count {
    const uint64_t *counter;
    uint64_t least;
};

static bool has_count(const void *arg)
{
    const struct count *count = arg;

    return *count->counter >= count->least;
}

void nt_until_count(const uint64_t *counter, uint64_t least, const char *what)
{
    nt_until(has_count, &(struct count){counter, least}, what);
}

bool nt_sleep(int timeout_ms)
{
    struct pollfd event = {.fd = nt_net->event_fd(), .events = POLLIN};

    for (int i = 0; i < 1000; i++) {
        int status = nt_net->arm();

        if (status == NIXL_OK) {
            return poll(&event, 1, timeout_ms) > 0;
        }
        MPT_EQ(status, NIXL_E_AGAIN);
        if (drive() > 0) {
            return true; /* that may be what the caller waits for */
        }
    }
    mpt_fail(__FILE__, __LINE__, "the module cannot be armed");
}

/* ---- messages -------------------------------------------------------------------------------- */

void nt_reach(int to)
{
    int64_t deadline = mpt_now_ns() + NT_WAIT_NS;

    while (nt_net->ep_reach(nt_eps[to]) == NIXL_E_AGAIN) {
        if (drive() == 0 && mpt_now_ns() > deadline) {
            mpt_fail(__FILE__, __LINE__, "waited too long to reach process %d", to);
        }
    }
}

int nt_try_send(int to, const void *bytes, size_t nbytes, const void *bulk, size_t bulk_nbytes,
                struct nt_op *op)
{
    int64_t deadline = mpt_now_ns() + NT_WAIT_NS;
    int status;

    op->is_taken = true;
    op->n_ends = 0;
    nt_reach(to);
    while ((status = nt_net->send(nt_eps[to], bytes, nbytes, bulk, bulk_nbytes, &op->op)) ==
           NIXL_E_AGAIN) {
        if (drive() == 0 && mpt_now_ns() > deadline) {
            mpt_fail(__FILE__, __LINE__, "waited too long to send");
        }
    }
    op->is_taken = status == NIXL_INPROGRESS;
    return status;
}

int nt_send(int to, const void *bytes, size_t nbytes, const void *bulk, size_t bulk_nbytes,
            struct nt_op *op)
{
    int status = nt_try_send(to, bytes, nbytes, bulk, bulk_nbytes, op);

    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    return status;
}

static bool has_ended(const void *arg)
{
    const struct nt_op *op = arg;

    return !op->is_taken || op->n_ends > 0;
}

void nt_until_ended(struct nt_op *op, int status)
{
    nt_until(has_ended, op, "an operation ends");
    if (op->is_taken) {
        MPT_EQ(op->status, status);
    }
}

void nt_until_failed(struct nt_op *op)
{
    nt_until(has_ended, op, "an operation fails");
    MPT_LT(op->status, 0);
}

void nt_make(void *buffer, size_t nbytes, uint32_t kind, uint64_t number)
{
    struct nt_header header = {.from = nt_rank, .kind = kind, .number = number};

    memcpy(buffer, &header, sizeof(header));
    mpt_fill((char *)buffer + sizeof(header), nbytes - sizeof(header), number);
}
