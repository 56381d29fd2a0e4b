/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of prepared transfers that are taken by batches are those that the walks find. */
#include "transfer/xfer.h"

#include "test/unit/unit.h"

#include <stdlib.h>

#define N_BLOCKS 300
#define MAX_N    (8 * N_BLOCKS)
#define PLACES   (1ull << 20)

static char memory[1]; /* only its address is used */

/* A side of random entries, whose numbers often follow each other. */
struct random_side {
    struct nxr_side side;
    struct nxr_blocks blocks[4];
    uint64_t index[4][N_BLOCKS];
};

struct result {
    struct nxr_piece pieces[MAX_N];
    size_t n;
    bool is_outside;
};

static uint64_t draw(uint64_t below)
{
    return (uint64_t)rand() % below;
}

static void fill_index(uint64_t *index, unsigned adjoining)
{
    for (size_t i = 0; i < N_BLOCKS; i++) {
        index[i] = i > 0 && draw(100) < adjoining ? index[i - 1] + 1 : draw(5000);
    }
}

/* nblocks[] and block_nbytes[] are of each entry. */
static void make_side(struct random_side *side, char *base, size_t n_entries,
                      const uint64_t *nblocks, const uint64_t *block_nbytes, unsigned adjoining)
{
    *side = (struct random_side){.side = {.blocks = side->blocks, .n_entries = n_entries}};
    for (size_t i = 0; i < n_entries; i++) {
        uint64_t form = draw(4); /* numbered, by places, strided, dense */

        fill_index(side->index[i], adjoining);
        side->blocks[i] = (struct nxr_blocks){
            .place = {.base = base, .limit = PLACES},
            .offset = draw(100),
            .block_nbytes = block_nbytes[i],
            .stride = form == 1 ? 1 : block_nbytes[i] + (form == 2 ? 8 : 0),
            .nblocks = nblocks[i],
            .index = form < 2 ? side->index[i] : NULL,
            .n_rounds = 1,
        };
    }
}

/* As a transfer gathers its pieces, max_n and max_nbytes at a time, with batches or without. */
static void gather(struct random_side *local, struct random_side *remote, bool with_batches,
                   size_t max_n, uint64_t max_nbytes, struct result *result)
{
    struct nxr_walk from = {.side = &local->side}, to = {.side = &remote->side};

    result->n = 0;
    while ((from.nbytes > 0 || nxr_walk_next(&from)) && (to.nbytes > 0 || nxr_walk_next(&to))) {
        struct nxr_piece *piece = &result->pieces[result->n];
        uint64_t left = max_nbytes, nbytes = from.nbytes < to.nbytes ? from.nbytes : to.nbytes;

        nbytes = nbytes < left ? nbytes : left;
        *piece = (struct nxr_piece){to.start, from.place->base + from.start, nbytes};
        from.start += nbytes;
        from.nbytes -= nbytes;
        to.start += nbytes;
        to.nbytes -= nbytes;
        left -= nbytes;
        result->n++;
        if (with_batches && left > 0) {
            size_t n = nxr_walks_take(&from, &to, &result->pieces[result->n], max_n, &left);

            cr_assert(n <= max_n && left <= max_nbytes);
            result->n += n;
        }
        cr_assert(result->n < MAX_N - N_BLOCKS);
    }
    result->is_outside = from.is_outside || to.is_outside;
}

static void compare(struct random_side *local, struct random_side *remote, uint64_t max_nbytes)
{
    static struct result batched, walked;

    gather(local, remote, true, 1 + draw(40), max_nbytes, &batched);
    gather(local, remote, false, 0, UINT64_MAX, &walked);
    cr_assert(batched.is_outside == walked.is_outside);
    if (max_nbytes == UINT64_MAX) { /* walks look ahead, and so fail earlier */
        cr_assert(batched.n == walked.n || (walked.is_outside && batched.n > walked.n),
                  "%d pieces, not %d", (int)batched.n, (int)walked.n);
    }
    /* Both lists name the same bytes in the same order, however they are divided. */
    for (size_t i = 0, k = 0; k < walked.n; k++) {
        struct nxr_piece all = walked.pieces[k];

        while (all.nbytes > 0) {
            const struct nxr_piece *part = &batched.pieces[i++];

            cr_assert(i <= batched.n && part->offset == all.offset && part->local == all.local &&
                          part->nbytes <= all.nbytes,
                      "piece %d", (int)k);
            all.offset += part->nbytes;
            all.local = (char *)all.local + part->nbytes;
            all.nbytes -= part->nbytes;
        }
    }
}

Test(xfer_batch, pieces_are_those_of_the_walks)
{
    static struct random_side local, remote;

    srand(7);
    for (unsigned i = 0; i < 4000; i++) {
        uint64_t nbytes = 8 << draw(4), n = 1 + draw(N_BLOCKS / 2);
        const uint64_t ours[] = {n, n}, theirs[] = {2 * n}, same[] = {nbytes, nbytes};
        const uint64_t halves[] = {nbytes / 2}, twice[] = {4 * n};
        static const unsigned adjoining[] = {0, 3, 50, 97};

        make_side(&local, memory, 2, ours, same, adjoining[draw(4)]);
        if (n * 4 <= N_BLOCKS && draw(4) == 0) {
            make_side(&remote, NULL, 1, twice, halves, adjoining[draw(4)]);
        } else {
            make_side(&remote, NULL, 1, theirs, same, adjoining[draw(4)]);
        }
        compare(&local, &remote, draw(2) == 0 ? UINT64_MAX : 1 + draw(5000));
    }
}

/* An index that is changed after the check: what comes before it is moved. */
Test(xfer_batch, a_number_that_is_out_of_range_ends_it)
{
    static struct random_side local, remote;
    static const uint64_t n[] = {N_BLOCKS}, nbytes[] = {64};
    static const uint64_t bad[] = {UINT64_MAX, UINT64_MAX / 64, PLACES / 64, PLACES};

    srand(8);
    for (unsigned i = 0; i < 400; i++) {
        make_side(&local, memory, 1, n, nbytes, 3);
        make_side(&remote, NULL, 1, n, nbytes, 3);
        if (local.blocks[0].index != NULL && remote.blocks[0].index != NULL) {
            local.index[0][draw(N_BLOCKS)] = bad[draw(4)];
            remote.index[0][draw(N_BLOCKS)] = bad[draw(4)];
            compare(&local, &remote, UINT64_MAX);
        }
    }
}
