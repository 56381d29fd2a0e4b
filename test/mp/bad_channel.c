/* SPDX-License-Identifier: Apache-2.0 */
/* Channels that no call may accept, and calls on the wrong end: each is refused by name. */
#include "config.h"

#include "channel/channel.h"

#include "mptest.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

static void bad_opens(void)
{
    static const int ranks[] = {-1, -2, 1000, INT_MAX, INT_MIN};
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_channel *none = NULL;
    char name[NIXL_CHANNEL_NAME_MAX + 2];

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (int role = NIXL_CHANNEL_CONSUMER; role <= NIXL_CHANNEL_PRODUCER; role++) {
        enum nixl_channel_role end = (enum nixl_channel_role)role;

        for (size_t i = role == NIXL_CHANNEL_CONSUMER; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
            MPT_STATUS(nixl_channel_open("bad", ranks[i], end, 64, 4, NULL, &none),
                       NIXL_E_INVALID_ARG);
        }
        MPT_STATUS(nixl_channel_open(NULL, 0, end, 64, 4, NULL, &none), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_channel_open("", 0, end, 64, 4, NULL, &none), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_channel_open(name, 0, end, 64, 4, NULL, &none), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_channel_open("bad", 0, end, 0, 4, NULL, &none), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_channel_open("bad", 0, end, 64, 0, NULL, &none), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_channel_open("bad", 0, end, SIZE_MAX, 1, NULL, &none), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_channel_open("bad", 0, end, 1ull << 33, 1ull << 33, NULL, &none),
                   NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_channel_open("bad", 0, end, 64, 4, NULL, NULL), NIXL_E_INVALID_ARG);
    }
    MPT_STATUS(nixl_channel_open("bad", 0, (enum nixl_channel_role)2, 64, 4, NULL, &none),
               NIXL_E_INVALID_ARG);
    params.flags = NIXL_MEM_POPULATE;
    MPT_STATUS(nixl_channel_open("bad", 0, NIXL_CHANNEL_PRODUCER, 64, 4, &params, &none),
               NIXL_E_INVALID_ARG);
    params.struct_nbytes--;
    MPT_STATUS(nixl_channel_open("bad", 0, NIXL_CHANNEL_CONSUMER, 64, 4, &params, &none),
               NIXL_E_INVALID_ARG);
    MPT_TRUE(none == NULL);
    name[NIXL_CHANNEL_NAME_MAX] = '\0';
    MPT_OK(nixl_channel_open(name, nixl_rank(), NIXL_CHANNEL_CONSUMER, 64, 4, NULL, &none));
    MPT_OK(nixl_channel_close(none, MPT_PATIENCE)); /* the longest name is a name */
}

/* Nothing of this may be accepted, whatever end it is. */
static void every_call_refuses(struct nixl_channel *channel)
{
    void *slot = NULL;
    size_t nbytes = 3;

    MPT_STATUS(nixl_channel_acquire(channel, 0, &slot), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_publish(channel, 1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_recv(channel, 0, &slot, &nbytes, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_release(channel, slot), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_close(channel, 0), NIXL_E_INVALID_ARG);
    MPT_TRUE(slot == NULL && nbytes == 3);
}

/* Two channels of one name, in different contexts, and what a producer's params may not be. */
static void contexts_keep_apart(void)
{
    struct nixl_mem_params mine = NIXL_MEM_PARAMS_INIT, wrong = NIXL_MEM_PARAMS_INIT;
    struct nixl_channel *in[2], *out[2], *none = NULL;
    struct nixl_context *context;
    int me = nixl_rank(), rank;
    size_t nbytes;
    void *slot;

    MPT_OK(nixl_context_open("mine", NULL, &context));
    mine.context = wrong.context = context;
    wrong.access = NIXL_ACCESS_NO_GET;
    MPT_OK(nixl_channel_open("same", me, NIXL_CHANNEL_CONSUMER, 64, 4, NULL, &in[0]));
    MPT_OK(nixl_channel_open("same", NIXL_ANY_RANK, NIXL_CHANNEL_CONSUMER, 8, 2, &mine, &in[1]));
    MPT_STATUS(nixl_channel_open("same", me, NIXL_CHANNEL_CONSUMER, 64, 4, &mine, &none),
               NIXL_E_NAME_IN_USE);
    MPT_STATUS(nixl_channel_open("same", me, NIXL_CHANNEL_PRODUCER, 8, 2, &wrong, &none),
               NIXL_E_INVALID_ARG);
    MPT_HAS("a context alone");
    MPT_OK(nixl_channel_open("same", me, NIXL_CHANNEL_PRODUCER, 64, 4, NULL, &out[0]));
    MPT_OK(nixl_channel_open("same", me, NIXL_CHANNEL_PRODUCER, 8, 2, &mine, &out[1]));
    for (size_t i = 0; i < 20; i++) { /* more than there are slots: credit comes back */
        struct nixl_channel *to = out[i % 2], *at = in[i % 2];

        MPT_OK(nixl_channel_acquire(to, MPT_PATIENCE, &slot));
        *(uint64_t *)slot = i;
        MPT_OK(nixl_channel_publish(to, sizeof(uint64_t)));
        MPT_STATUS(nixl_channel_recv(in[1 - i % 2], 0, &slot, &nbytes, &rank), NIXL_INPROGRESS);
        MPT_OK(nixl_channel_recv(at, MPT_PATIENCE, &slot, &nbytes, &rank));
        MPT_EQ(*(uint64_t *)slot, i);
        MPT_OK(nixl_channel_release(at, slot));
    }
    for (int i = 0; i < 2; i++) {
        MPT_OK(nixl_channel_close(out[i], MPT_PATIENCE));
        MPT_OK(nixl_channel_close(in[i], MPT_PATIENCE));
    }
    MPT_OK(nixl_context_close(context));
    MPT_STATUS(nixl_channel_open("same", me, NIXL_CHANNEL_CONSUMER, 64, 4, &mine, &none),
               NIXL_E_INVALID_ARG);
    MPT_HAS("not open");
    MPT_TRUE(none == NULL);
}

static void bad_calls(void)
{
    struct nixl_channel *in = NULL, *out = NULL;
    char other[64];
    void *slot = NULL;
    int rank = nixl_rank();

    MPT_OK(nixl_channel_open("good", rank, NIXL_CHANNEL_CONSUMER, 64, 4, NULL, &in));
    MPT_OK(nixl_channel_open("good", rank, NIXL_CHANNEL_PRODUCER, 64, 4, NULL, &out));
    MPT_STATUS(nixl_channel_acquire(in, 0, &slot), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_publish(in, 1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_recv(out, 0, &slot, NULL, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_release(out, other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_acquire(out, -1, &slot), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_recv(in, -1, &slot, NULL, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_close(in, -1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_acquire(out, 0, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_recv(in, 0, NULL, NULL, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_publish(out, 1), NIXL_E_INVALID_ARG); /* nothing is acquired */
    MPT_STATUS(nixl_channel_release(in, other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_channel_release(in, NULL), NIXL_E_INVALID_ARG);
    MPT_TRUE(slot == NULL);
    MPT_OK(nixl_channel_acquire(out, 0, &slot));
    MPT_STATUS(nixl_channel_publish(out, 65), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_channel_publish(out, 64)); /* nothing of this has hurt them */
    MPT_OK(nixl_channel_recv(in, 0, &slot, NULL, NULL));
    MPT_STATUS(nixl_channel_release(in, (char *)slot + 1), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_channel_release(in, slot));
    MPT_OK(nixl_channel_close(out, MPT_PATIENCE));
    MPT_OK(nixl_channel_close(in, MPT_PATIENCE));
    every_call_refuses(out);
    every_call_refuses(in);
    every_call_refuses(NULL);
}

/* A producer whose memory is spoilt says that its item is longer than a slot. */
static void an_item_is_no_longer_than_its_slot(void)
{
    int last = nixl_size() - 1;
    struct nixl_channel *in = NULL, *out = NULL;
    struct nxr_stamp *stamp;
    size_t nbytes = 0;
    void *slot;

    if (nixl_rank() == 0) {
        MPT_OK(nixl_channel_open("long", last, NIXL_CHANNEL_CONSUMER, 64, 4, NULL, &in));
    }
    if (nixl_rank() == last) {
        MPT_OK(nixl_channel_open("long", 0, NIXL_CHANNEL_PRODUCER, 64, 4, NULL, &out));
        MPT_OK(nixl_channel_acquire(out, MPT_PATIENCE, &slot));
        MPT_OK(nixl_channel_publish(out, 8));
        MPT_TRUE(out->ledger_bytes != NULL);
        stamp = (void *)(out->ledger_bytes + nxr_stamp_at(out, out->lane, 0));
        stamp->nbytes = UINT64_MAX;
    }
    mpt_barrier();
    if (in != NULL) {
        MPT_OK(nixl_channel_recv(in, MPT_PATIENCE, &slot, &nbytes, NULL));
        MPT_EQ(nbytes, 64);
        MPT_OK(nixl_channel_release(in, slot));
    }
    mpt_barrier();
    if (out != NULL) {
        MPT_OK(nixl_channel_close(out, MPT_PATIENCE));
    }
    if (in != NULL) {
        MPT_OK(nixl_channel_close(in, MPT_PATIENCE));
    }
}

int main(void)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    bad_opens();
    bad_calls();
    contexts_keep_apart();
    an_item_is_no_longer_than_its_slot();
    mpt_barrier();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
