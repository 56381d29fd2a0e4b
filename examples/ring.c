/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring: a token goes around all ranks, three times. Run it as
 *
 *     nixlrun -np 4 ring
 *
 * Each rank owns a region called "token" with room for one number. A rank that has the token adds 1
 * and puts it into its right neighbour's region, with a notification. The neighbour sleeps until
 * the notification arrives; then the number is there, because a notification never overtakes the
 * data.
 */
#include <nixlrun.h>

#include <stdint.h>
#include <stdio.h>

#define ROUNDS 3
#define TAG    7 /* any number: it tells this notification from others */

/* End the whole job if a call failed, with the library's error message. */
static void must(int status)
{
    if (status != NIXL_OK) {
        nixl_abort(1, nixl_last_error()->text);
    }
}

/* Wait for the left neighbour's notification; then the token is in this rank's memory. */
static uint64_t receive(int left, struct nixl_region *token)
{
    struct nixl_note note;

    nixl_note_init(&note);
    must(nixl_notify_recv(left, TAG, UINT64_MAX, NIXL_FOREVER, &note));
    return *(const uint64_t *)nixl_region_addr(token);
}

/* Write the token into the right neighbour's memory and notify it, in one call. */
static void send(int right, struct nixl_region *token, uint64_t value)
{
    must(nixl_put_notify(right, token, 0, &value, sizeof(value), TAG, NULL, 0, NIXL_FOREVER));
}

int main(void)
{
    struct nixl_region *token;
    int rank, size, left, right;
    uint64_t value = 0;

    must(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    must(nixl_region_alloc("token", sizeof(value), NULL, &token));

    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0) {
            send(right, token, value + 1);
            value = receive(left, token);
            printf("round %d: the token is %llu\n", round + 1, (unsigned long long)value);
        } else {
            send(right, token, receive(left, token) + 1);
        }
    }

    /* Closing ends all access by others: no rank writes into the memory after it has returned. */
    must(nixl_region_close(token, NIXL_FOREVER));
    return nixl_finalize() == NIXL_OK ? 0 : 1;
}
