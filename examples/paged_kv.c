/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paged_kv: pages of a key-value cache go from prefill ranks to decode ranks. Run it as
 *
 *     nixlrun -np 2 paged_kv
 *
 * A cache has layers, each with the same number of pages. A request owns some pages, anywhere in
 * the cache, the same ones in every layer; at the other rank its pages have other numbers. The
 * transfer is prepared once: one entry for each layer, all with the same index. For each request
 * only the numbers in the index change, and one start moves all pages of all layers, followed by a
 * notification. Even ranks prefill, odd ranks decode.
 */
#include <nixlrun.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LAYERS        8
#define PAGES         256 /* of a layer */
#define PAGE_NBYTES   8192ull
#define LAYER_NBYTES  (PAGES * PAGE_NBYTES)
#define REQUESTS      4
#define REQUEST_PAGES 24

#define TAG_PAGES 1 /* the decode rank's free pages: their numbers */
#define TAG_READY 2 /* all pages of the request are there */

static void must(int status)
{
    if (status < 0) {
        nixl_abort(1, nixl_last_error()->text);
    }
}

/* Choose free pages anywhere in the cache: for the example, spread over it. */
static void choose_pages(uint64_t *pages, uint64_t request, uint64_t step)
{
    for (uint64_t i = 0; i < REQUEST_PAGES; i++) {
        pages[i] = (request * 31 + i * step) % PAGES;
    }
}

static unsigned char *page_at(struct nixl_region *cache, uint64_t layer, uint64_t page)
{
    return (unsigned char *)nixl_region_addr(cache) + layer * LAYER_NBYTES + page * PAGE_NBYTES;
}

/* The content of page i of a request; a real program would compute it. */
static int content(uint64_t request, uint64_t layer, uint64_t i)
{
    return (int)((request * 7 + layer * 13 + i) % 251 + 1);
}

/* Fill one entry for each layer: its pages, by the numbers in `index`. */
static void describe(struct nixl_blocks *layers, struct nixl_region *cache, const uint64_t *index)
{
    for (uint64_t layer = 0; layer < LAYERS; layer++) {
        layers[layer] = (struct nixl_blocks)NIXL_BLOCKS_INIT;
        layers[layer].region = cache;
        layers[layer].offset = layer * LAYER_NBYTES;
        layers[layer].block_nbytes = PAGE_NBYTES;
        layers[layer].stride = PAGE_NBYTES;
        layers[layer].nblocks = REQUEST_PAGES;
        layers[layer].index = index;
    }
}

static void prefill(int decoder, struct nixl_region *cache)
{
    uint64_t here[REQUEST_PAGES] = {0}, there[REQUEST_PAGES] = {0};
    struct nixl_blocks local[LAYERS], remote[LAYERS];
    struct nixl_xfer_info info = NIXL_XFER_INFO_INIT;
    struct nixl_xfer *xfer;
    struct nixl_op ready = NIXL_OP_INIT; /* what follows the last byte */
    struct nixl_note note;

    ready.flags = NIXL_OP_NOTE;
    ready.tag = TAG_READY;
    describe(local, cache, here);
    describe(remote, cache, there);
    must(nixl_xfer_create(NIXL_XFER_PUT, decoder, local, LAYERS, remote, LAYERS, &xfer));
    for (uint64_t request = 0; request < REQUESTS; request++) {
        choose_pages(here, request, 7);
        for (uint64_t layer = 0; layer < LAYERS; layer++) {
            for (uint64_t i = 0; i < REQUEST_PAGES; i++) {
                memset(page_at(cache, layer, here[i]), content(request, layer, i), PAGE_NBYTES);
            }
        }
        nixl_note_init(&note);
        must(nixl_notify_recv(decoder, TAG_PAGES, UINT64_MAX, NIXL_FOREVER, &note));
        memcpy(there, note.payload, sizeof(there));
        must(nixl_xfer_start_x(xfer, &ready, NULL));
    }
    must(nixl_xfer_query(xfer, &info));
    printf("rank %d: %llu pages as %llu pieces, expected in %.1f us, took %.1f us\n", nixl_rank(),
           (unsigned long long)info.nblocks, (unsigned long long)info.npieces,
           (double)info.had_estimated_ns / 1e3, (double)info.took_ns / 1e3);
    must(nixl_xfer_free(xfer));
}

static void decode(int prefiller, struct nixl_region *cache)
{
    uint64_t pages[REQUEST_PAGES];
    struct nixl_note note;

    for (uint64_t request = 0; request < REQUESTS; request++) {
        int n_wrong = 0;

        choose_pages(pages, request, 11);
        must(nixl_notify(prefiller, TAG_PAGES, pages, sizeof(pages), NIXL_FOREVER));
        nixl_note_init(&note);
        must(nixl_notify_recv(prefiller, TAG_READY, UINT64_MAX, NIXL_FOREVER, &note));
        for (uint64_t layer = 0; layer < LAYERS; layer++) {
            for (uint64_t i = 0; i < REQUEST_PAGES; i++) {
                const unsigned char *page = page_at(cache, layer, pages[i]);

                n_wrong += page[0] != content(request, layer, i) ||
                           memcmp(page, page + 1, PAGE_NBYTES - 1) != 0;
            }
        }
        printf("rank %d: request %llu: %d pages, %d wrong\n", nixl_rank(),
               (unsigned long long)request, LAYERS * REQUEST_PAGES, n_wrong);
    }
}

int main(void)
{
    struct nixl_region *cache;
    int rank, partner;

    must(nixl_init(NULL));
    if (nixl_size() < 2) {
        fprintf(stderr, "paged_kv: 1 rank is too few; start it as nixlrun -np 2 paged_kv\n");
        return 2;
    }
    rank = nixl_rank();
    partner = rank ^ 1;
    must(nixl_region_alloc("kv", LAYERS * LAYER_NBYTES, NULL, &cache));
    if (partner < nixl_size() && rank % 2 == 0) {
        prefill(partner, cache);
    } else if (partner < nixl_size()) {
        decode(partner, cache);
    }
    must(nixl_region_close(cache, NIXL_FOREVER));
    return nixl_finalize() == NIXL_OK ? 0 : 1;
}
