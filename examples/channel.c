/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel: every rank sends lines of work to rank 0, which takes them one by one. Run it as
 *
 *     nixlrun -np 4 channel
 *
 * The slots lie in rank 0's memory. A producer acquires a free one, writes into it (on one host,
 * directly where rank 0 will read), and publishes it. When all of its slots are full it waits:
 * nothing is lost, and no rank has to count. Rank 0 gives each slot back when it is done with the
 * item.
 */
#include <nixlrun.h>

#include <stdio.h>
#include <string.h>

#define ITEMS 5
#define SLOT  64 /* bytes */
#define SLOTS 2  /* of each producer: fewer than there are items */

/* End the whole job if a call failed, with the library's error message. */
static void must(int status)
{
    if (status != NIXL_OK) {
        nixl_abort(1, nixl_last_error()->text);
    }
}

static void produce(void)
{
    struct nixl_channel *work;

    must(nixl_channel_open("work", 0, NIXL_CHANNEL_PRODUCER, SLOT, SLOTS, NULL, &work));
    for (int i = 0; i < ITEMS; i++) {
        void *slot;

        must(nixl_channel_acquire(work, NIXL_FOREVER, &slot));
        snprintf(slot, SLOT, "item %d of rank %d", i, nixl_rank());
        must(nixl_channel_publish(work, strlen(slot) + 1));
    }
    must(nixl_channel_close(work, NIXL_FOREVER)); /* published items still arrive */
}

static void consume(void)
{
    struct nixl_channel *work;
    int n_items = (nixl_size() - 1) * ITEMS;

    must(nixl_channel_open("work", NIXL_ANY_RANK, NIXL_CHANNEL_CONSUMER, SLOT, SLOTS, NULL, &work));
    for (int i = 0; i < n_items; i++) {
        size_t nbytes;
        void *slot;
        int rank;

        must(nixl_channel_recv(work, NIXL_FOREVER, &slot, &nbytes, &rank));
        printf("from rank %d: %.*s\n", rank, (int)nbytes, (const char *)slot);
        must(nixl_channel_release(work, slot));
    }
    must(nixl_channel_close(work, NIXL_FOREVER));
}

int main(void)
{
    must(nixl_init(NULL));
    if (nixl_size() < 2) {
        fprintf(stderr, "channel: 1 rank is too few; start it as nixlrun -np 4 channel\n");
        return 2;
    }
    if (nixl_rank() == 0) {
        consume();
    } else {
        produce();
    }
    return nixl_finalize() == NIXL_OK ? 0 : 1;
}
