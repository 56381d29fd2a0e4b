/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: whole, once, in order, whatever their size, also with bulk between them. */
#include "config.h"

#include "network_test.h"

#include <stdlib.h>
#include <string.h>

#define N_MESSAGES 100000u
#define N_MIXED    5000u
#define N_OPS      64u

enum { PLAIN, WITH_BULK, REPLY };

static uint64_t next[NT_MAX_PROCESSES]; /* the number that is due, per sender */

static void in_order(const struct nt_header *header, size_t nbytes)
{
    (void)nbytes;
    MPT_LT(header->from, nt_size);
    MPT_EQ(header->number, next[header->from]);
    next[header->from]++;
}

/* Both ends compute the same sizes: many small ones, some of the longest. */
static size_t size_of(uint64_t number, size_t most)
{
    uint64_t state = number;
    uint64_t random = mpt_random(&state);
    size_t least = sizeof(struct nt_header);

    switch (random % 64) {
    case 0:
        return most;
    case 1:
        return least + random / 64 % (most - least);
    default:
        return least + random / 64 % 200;
    }
}

/* Messages of these numbers to everybody. */
static void send_range(uint64_t first, uint64_t end)
{
    size_t most = nt_net->attr()->message_nbytes;
    struct nt_op ops[N_OPS];
    char *buffers = malloc(N_OPS * most);

    MPT_TRUE(buffers != NULL);
    memset(ops, 0, sizeof(ops));
    for (uint64_t i = first; i < end; i++) {
        char *buffer = buffers + i % N_OPS * most;
        struct nt_op *op = &ops[i % N_OPS];

        nt_until_ended(op, NIXL_OK);
        nt_make(buffer, size_of(i, most), PLAIN, i);
        for (int rank = 0; rank < nt_size; rank++) {
            if (rank != nt_rank) {
                nt_until_ended(op, NIXL_OK);
                nt_send(rank, buffer, size_of(i, most), NULL, 0, op);
            }
        }
    }
    for (unsigned i = 0; i < N_OPS; i++) {
        nt_until_ended(&ops[i], NIXL_OK);
    }
    free(buffers);
}

static void both_ways(void)
{
    nt_on_message = in_order;
    send_range(0, N_MESSAGES);
    nt_until_count(&nt_told.n_received, N_MESSAGES, "all messages came");
    MPT_EQ(nt_told.n_received, N_MESSAGES);
}

static void all_to_all(void)
{
    nt_on_message = in_order;
    send_range(0, N_MESSAGES / 10);
    nt_until_count(&nt_told.n_received, N_MESSAGES / 10 * 2, "all messages came");
    MPT_EQ(nt_told.n_received, N_MESSAGES / 10 * 2);
}

/* ---- bulk between messages ------------------------------------------------------------------- */

static char *bulk_memory;

static void *bulk_in_order(const struct nt_header *header, size_t nbytes, void **cookie_p)
{
    in_order(header, nbytes);
    *cookie_p = NULL;
    return bulk_memory;
}

static size_t bulk_size_of(uint64_t number)
{
    return 1 + number * 7919 % (300 * 1024);
}

static void with_bulk(void)
{
    size_t most = 300 * 1024;
    struct nt_op ops[N_OPS];
    char headers[N_OPS][NXR_NET_HEADER_NBYTES];
    char *bulk;

    if (!nt_net->attr()->has_bulk) {
        return;
    }
    bulk = calloc(1, most);
    bulk_memory = malloc(most);
    MPT_TRUE(bulk != NULL && bulk_memory != NULL);
    nt_on_message = in_order;
    nt_on_incoming = bulk_in_order;
    memset(ops, 0, sizeof(ops));
    for (uint64_t i = 0; nt_rank == 0 && i < N_MIXED; i++) {
        struct nt_op *op = &ops[i % N_OPS];
        size_t bulk_nbytes = i % 3 == 0 ? bulk_size_of(i) : 0;

        nt_until_ended(op, NIXL_OK);
        nt_make(headers[i % N_OPS], NXR_NET_HEADER_NBYTES, WITH_BULK, i);
        nt_send(1, headers[i % N_OPS], NXR_NET_HEADER_NBYTES, bulk, bulk_nbytes, op);
    }
    for (unsigned i = 0; i < N_OPS; i++) {
        nt_until_ended(&ops[i], NIXL_OK);
    }
    if (nt_rank == 1) {
        nt_until_count(&next[0], N_MIXED, "all messages and headers came");
        nt_until_count(&nt_told.n_landed, nt_told.n_incoming, "all bulk came");
        MPT_EQ(nt_told.n_landed_badly, 0);
    }
    nt_barrier();
    free(bulk);
    free(bulk_memory);
}

/* ---- answers from inside --------------------------------------------------------------------- */

#define N_REPLIES 20000u

static struct nt_op reply_ops[256];
static char reply_buffers[256][64];

static uint64_t n_asked, n_answered;

/* Answer what is open, in order, as far as the network takes it. */
static void answer_all(void)
{
    while (n_answered < n_asked) {
        unsigned i = n_answered % 256;
        int status;

        MPT_TRUE(!reply_ops[i].is_taken || reply_ops[i].n_ends == 1);
        nt_make(reply_buffers[i], sizeof(reply_buffers[i]), REPLY, n_answered);
        reply_ops[i].n_ends = 0;
        status = nt_net->send(nt_eps[0], reply_buffers[i], sizeof(reply_buffers[i]), NULL, 0,
                              &reply_ops[i].op);
        reply_ops[i].is_taken = status == NIXL_INPROGRESS;
        if (status == NIXL_E_AGAIN) {
            return;
        }
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        n_answered++;
    }
}

/* A message is answered from inside of received(), as the core answers. */
static void answer(const struct nt_header *header, size_t nbytes)
{
    if (header->kind == PLAIN) {
        MPT_EQ(header->number, n_asked);
        n_asked++;
        answer_all();
    } else {
        in_order(header, nbytes);
    }
}

static bool all_is_answered(const void *arg)
{
    (void)arg;
    answer_all();
    return n_answered == N_REPLIES;
}

static void answers(void)
{
    char buffer[64];
    struct nt_op op = {.is_taken = false};

    nt_on_message = answer;
    for (uint64_t i = 0; nt_rank == 0 && i < N_REPLIES; i++) {
        nt_make(buffer, sizeof(buffer), PLAIN, i);
        nt_send(1, buffer, sizeof(buffer), NULL, 0, &op);
        nt_until_ended(&op, NIXL_OK);
        if (i % 100 == 99) {
            nt_until_count(&next[1], i - 98, "answers came");
        }
    }
    if (nt_rank == 0) {
        nt_until_count(&next[1], N_REPLIES, "all answers came");
    } else {
        nt_until(all_is_answered, NULL, "all is answered");
    }
    nt_barrier();
}

/* ---- more than there is room for at once ----------------------------------------------------- */

#define N_SENDERS       9
#define N_GREETINGS     2
#define N_LATE          9u
#define N_LATE_NBYTES   4096u
#define N_LATE_MESSAGES (N_SENDERS * N_LATE)

static void send_late(void)
{
    struct nt_op ops[N_LATE];
    char *buffers = malloc(N_LATE * N_LATE_NBYTES);
    const char is_sent = 1;

    MPT_TRUE(buffers != NULL);
    memset(ops, 0, sizeof(ops));
    for (unsigned i = 0; i < N_LATE; i++) {
        nt_make(buffers + i * N_LATE_NBYTES, N_LATE_NBYTES, PLAIN, N_GREETINGS + i);
        nt_send(0, buffers + i * N_LATE_NBYTES, N_LATE_NBYTES, NULL, 0, &ops[i]);
    }
    nt_tell(0, &is_sent, 1);
    for (unsigned i = 0; i < N_LATE; i++) {
        nt_until_ended(&ops[i], NIXL_OK);
    }
    free(buffers);
}

/*
 * Many send while the first process does not look, more than a module has buffers for, and nothing
 * after that: whoever was left waiting when those were full must have its turn all the same.
 */
static void many_to_one(void)
{
    nt_on_message = in_order;
    /* Each direction is open once both ends were heard and something was sent after that. */
    for (unsigned n = 0; n < N_GREETINGS; n++) {
        send_range(n, n + 1);
        nt_until_count(&nt_told.n_received, (n + 1) * N_SENDERS, "all have greeted");
        nt_barrier();
    }
    if (nt_rank != 0) {
        send_late();
    } else {
        for (int rank = 1; rank < nt_size; rank++) {
            nt_doze(rank);
        }
        nt_until_count(&nt_told.n_received, N_GREETINGS * N_SENDERS + N_LATE_MESSAGES,
                       "all messages came");
    }
    nt_barrier();
}

const struct nt_case nt_order_cases[] = {
    {.text = "100000 messages of random sizes keep their order, both ways",
     .n_processes = 2,
     .run = both_ways},
    {.text = "messages of three processes, all to all, keep their order",
     .n_processes = 3,
     .run = all_to_all},
    {.text = "messages of nine processes to one that does not look arrive",
     .n_processes = 1 + N_SENDERS,
     .run = many_to_one},
    {.text = "headers of bulk keep their place among messages", .n_processes = 2, .run = with_bulk},
    {.text = "a message is answered from inside of received()", .n_processes = 2, .run = answers},
    {.text = NULL},
};
