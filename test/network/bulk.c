/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk: every size, every byte; refused; many under way. */
#include "config.h"

#include "network_test.h"

#include <stdlib.h>
#include <string.h>

#define MIB       (1024 * 1024ul)
#define MOST      (64 * MIB)
#define N_AT_ONCE 200u
#define GUARD     64

static const size_t sizes[] = {
    1,      2,      7,     8,         63,      64,          100,      4096,
    8037,   8192,   16384, 32768 - 1, 32768,   65536 - 256, 65536,    65537,
    100000, 262144, MIB,   MIB + 1,   3 * MIB, 16 * MIB,    MOST - 1, MOST,
};

static char *memory;
static size_t wanted; /* the size of the bulk that is due */
static unsigned n_refused;

static void *take(const struct nt_header *header, size_t nbytes, void **cookie_p)
{
    MPT_EQ(nbytes, wanted);
    memset(memory, 0xee, nbytes + GUARD);
    *cookie_p = (void *)(uintptr_t)(header->number + 1);
    return memory;
}

static void landed(void *cookie, int status)
{
    uint64_t number = (uintptr_t)cookie - 1;

    MPT_OK(status);
    MPT_CHECK(memory, wanted, number);
    MPT_CHECK_BYTES(memory + wanted, GUARD, 0xee);
}

/* False: this network has no bulk. */
static bool prepare(void *(*on_incoming)(const struct nt_header *, size_t, void **))
{
    if (!nt_net->attr()->has_bulk) {
        return false;
    }
    memory = malloc(MOST + GUARD);
    MPT_TRUE(memory != NULL);
    nt_on_incoming = on_incoming;
    nt_on_landed = landed;
    return true;
}

static void offer(unsigned number)
{
    char header[100];
    struct nt_op op = {.is_taken = false};

    nt_make(header, sizeof(header), 0, number);
    mpt_fill(memory, wanted, number);
    nt_send(1, header, sizeof(header), memory, wanted, &op);
    nt_until_ended(&op, NIXL_OK);
}

static void every_size(void)
{
    if (!prepare(take)) {
        return;
    }
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        wanted = sizes[i];
        nt_barrier();
        if (nt_rank == 0) {
            offer(i);
        } else {
            nt_until_count(&nt_told.n_landed, i + 1, "the bulk came");
        }
    }
    nt_barrier();
    free(memory);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void *refuse_some(const struct nt_header *header, size_t nbytes, void **cookie_p)
{
    if (header->number % 2 == 0) {
        n_refused++;
        return NULL;
    }
    return take(header, nbytes, cookie_p);
}

static void refused(void)
{
    if (!prepare(refuse_some)) {
        return;
    }
    for (unsigned i = 0; i < 40; i++) {
        wanted = sizes[i / 2];
        nt_barrier();
        if (nt_rank == 0) {
            offer(i);
        } else {
            nt_until_count(&nt_told.n_incoming, i + 1, "the header came");
            nt_until_count(&nt_told.n_landed, (i + 1) / 2, "the bulk came");
        }
    }
    nt_barrier();
    if (nt_rank == 1) {
        MPT_EQ(n_refused, 20);
        MPT_EQ(nt_told.n_landed, 20);
    }
    free(memory);
}

/* ---- many at once ---------------------------------------------------------------------------- */

static void *take_own_place(const struct nt_header *header, size_t nbytes, void **cookie_p)
{
    MPT_EQ(nbytes, MIB / 4);
    MPT_LT(header->number, N_AT_ONCE);
    *cookie_p = (void *)(uintptr_t)(header->number + 1);
    return memory + header->number * (MIB / 4);
}

static void landed_there(void *cookie, int status)
{
    uint64_t number = (uintptr_t)cookie - 1;

    MPT_OK(status);
    MPT_CHECK(memory + number * (MIB / 4), MIB / 4, number);
}

static void many_at_once(void)
{
    static struct nt_op ops[N_AT_ONCE];
    static char headers[N_AT_ONCE][64];

    if (!nt_net->attr()->has_bulk) {
        return;
    }
    memory = malloc(N_AT_ONCE * (MIB / 4));
    MPT_TRUE(memory != NULL);
    nt_on_incoming = take_own_place;
    nt_on_landed = landed_there;
    for (unsigned i = 0; nt_rank == 0 && i < N_AT_ONCE; i++) {
        nt_make(headers[i], sizeof(headers[i]), 0, i);
        mpt_fill(memory + i * (MIB / 4), MIB / 4, i);
        nt_send(1, headers[i], sizeof(headers[i]), memory + i * (MIB / 4), MIB / 4, &ops[i]);
    }
    for (unsigned i = 0; i < N_AT_ONCE; i++) {
        nt_until_ended(&ops[i], NIXL_OK);
    }
    if (nt_rank == 1) {
        nt_until_count(&nt_told.n_landed, N_AT_ONCE, "all bulk came");
    }
    nt_barrier();
    free(memory);
}

const struct nt_case nt_bulk_cases[] = {
    {.text = "bulk of 1 byte to 64 MiB arrives, and nothing beside it",
     .n_processes = 2,
     .run = every_size},
    {.text = "bulk that is refused is dropped, and what follows arrives",
     .n_processes = 2,
     .run = refused},
    {.text = "200 bulks under way at once", .n_processes = 2, .run = many_at_once},
    {.text = NULL},
};
