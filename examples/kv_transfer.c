/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_transfer: disaggregated inference in miniature. Run it as
 *
 *     nixlrun -np 4 kv_transfer --model llama3-8b
 *     nixlrun --host a:2,b:2 kv_transfer          from host a to host b
 *     nixlrun -np 4 kv_transfer --tier file:/var/tmp
 *
 * The first half of the ranks prefills: such a rank computes the KV cache of a request (here: fills
 * it with content that is different in every word), puts its blocks into free blocks of a decode
 * rank, and notifies that rank of their numbers. The other half decodes: such a rank verifies every
 * byte and frees the blocks again. Points of interest:
 *
 *  - A decode rank makes no call while its memory is written. It sleeps in nixl_notify_recv().
 *  - A notification is seen after all data that was put before it. There is no other handshake.
 *  - A prefill rank puts only into blocks that the decode rank has reported free. So nothing is
 * overwritten too early, and the memory of a decode rank is bounded, however many requests arrive.
 *  - With --tier the blocks of a decode rank lie in a file or in an S3 store. The prefill ranks put
 * as before, and the notification comes when the storage has the block.
 */
#include "kv_report.h"

#include <nixlrun.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAN_OUT     2u   /* decode ranks that a prefill rank sends to, in turn */
#define LIST_MAX    512u /* block numbers in one notification */
#define WRONG_SHOWN 10u  /* wrong blocks that a rank reports one by one */

enum tag { TAG_FREE = 1, TAG_BLOCKS, TAG_END, TAG_REPORT };

/* Payload of TAG_FREE (these are free) and TAG_BLOCKS (here lie these blocks of the request). */
struct block_list {
    uint32_t request;
    uint32_t first; /* number within the request of the first block of the list */
    uint32_t n;
    uint32_t blocks[LIST_MAX];
};
_Static_assert(sizeof(struct block_list) <= NIXL_NOTE_MAX, "a list fits into a notification");

struct job {
    struct kv_options options;
    int rank, n_prefill, n_decode;
    uint32_t request_blocks; /* blocks of a request */
    uint32_t cache_blocks;   /* blocks of a decode rank's cache: one request per sender */
    size_t piece_nbytes;
    struct nixl_region *cache;  /* "kv": the decode ranks' caches */
    struct nixl_region *source; /* "prefill": a prefill rank's own cache, in GPU memory; or NULL */
    unsigned char *piece;       /* copy of a piece that the CPU cannot read in place; or NULL */
    char file[4096];            /* with a tier in a folder: the cache of this rank */
    struct nixl_region *latencies; /* "latencies": rank 0's table, one row per prefill rank */
    struct kv_tally tally;
};

/* ---- helpers --------------------------------------------------------------------------------- */

/* End the job if a call failed: an example needs no better error handling. */
static void must(int status)
{
    if (status != NIXL_OK) {
        const struct nixl_error *error = nixl_last_error();
        char why[512];

        snprintf(why, sizeof(why), "%s: %s: %s", error->operation, nixl_strerror(status),
                 error->text);
        nixl_abort(1, why);
    }
}

static void *must_have(void *memory)
{
    if (memory == NULL) {
        nixl_abort(1, "out of memory");
    }
    return memory;
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* The k-th decode rank that a prefill rank sends to. */
static int decode_rank(const struct job *job, int prefill, uint32_t k)
{
    return job->n_prefill + (int)(((uint32_t)prefill + k) % (uint32_t)job->n_decode);
}

static uint32_t fan_out(const struct job *job)
{
    return (uint32_t)job->n_decode < FAN_OUT ? (uint32_t)job->n_decode : FAN_OUT;
}

static bool sends_to(const struct job *job, int prefill, int decode)
{
    for (uint32_t k = 0; k < fan_out(job); k++) {
        if (decode_rank(job, prefill, k) == decode) {
            return true;
        }
    }
    return false;
}

static void receive(int rank, uint64_t tag, uint64_t tag_mask, struct nixl_note *note)
{
    nixl_note_init(note);
    must(nixl_notify_recv(rank, tag, tag_mask, NIXL_FOREVER, note));
}

static void send_list(int rank, enum tag tag, const struct block_list *list)
{
    size_t nbytes = offsetof(struct block_list, blocks) + list->n * sizeof(list->blocks[0]);

    must(nixl_notify(rank, tag, list, nbytes, NIXL_FOREVER));
}

/* ---- prefill --------------------------------------------------------------------------------- */

/* Free blocks of one decode rank, a stack. */
struct free_blocks {
    uint32_t n;
    uint32_t *blocks;
};

/* Makes up a cache. A kernel would compute it in GPU memory; here it is put there. */
static void prefill_compute(const struct job *job, uint32_t request, unsigned char *cache)
{
    for (uint32_t layer = 0; layer < job->options.shape.layers; layer++) {
        for (uint32_t block = 0; block < job->request_blocks; block++) {
            struct kv_origin origin = {(uint32_t)job->rank, request, block, layer};

            kv_piece_fill(
                cache + kv_piece_offset(&job->options.shape, job->request_blocks, block, layer),
                job->piece_nbytes, &origin);
        }
    }
    if (job->source != NULL) {
        must(nixl_put(job->rank, job->source, 0, cache,
                      job->request_blocks * kv_block_nbytes(&job->options.shape)));
    }
}

/* Start the puts of one block, a piece per layer. The flush waits until they are done. */
static void put_block(const struct job *job, int decode, uint32_t from, uint32_t to,
                      const unsigned char *cache)
{
    const struct kv_shape *shape = &job->options.shape;

    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        struct nixl_req *req = NULL;
        int status =
            nixl_put_x(decode, job->cache, kv_piece_offset(shape, job->cache_blocks, to, layer),
                       cache + kv_piece_offset(shape, job->request_blocks, from, layer),
                       job->piece_nbytes, NULL, &req);

        if (status == NIXL_INPROGRESS) {
            status = nixl_req_detach(&req);
        }
        must(status);
    }
}

/* Wait until a decode rank has room for a whole request. */
static void wait_for_room(const struct job *job, int decode, struct free_blocks *pools)
{
    while (pools[decode - job->n_prefill].n < job->request_blocks) {
        struct nixl_note note;
        struct block_list list;
        struct free_blocks *pool;

        receive(NIXL_ANY_RANK, TAG_FREE, UINT64_MAX, &note);
        memcpy(&list, note.payload, note.nbytes);
        pool = &pools[note.rank - job->n_prefill];
        memcpy(&pool->blocks[pool->n], list.blocks, list.n * sizeof(list.blocks[0]));
        pool->n += list.n;
    }
}

/* Put a request's blocks into free ones of a decode rank, and send it their numbers. */
static void send_request(const struct job *job, int decode, uint32_t request,
                         const unsigned char *cache, struct free_blocks *pool)
{
    for (uint32_t block = 0; block < job->request_blocks;) {
        struct block_list list = {.request = request, .first = block};

        for (; block < job->request_blocks && list.n < LIST_MAX; block++, list.n++) {
            list.blocks[list.n] = pool->blocks[--pool->n];
            put_block(job, decode, block, list.blocks[list.n], cache);
        }
        send_list(decode, TAG_BLOCKS, &list);
    }
    must(nixl_flush(decode, NIXL_FOREVER));
}

static void prefill(struct job *job, int64_t *latencies)
{
    const uint32_t n_requests = job->options.requests, n_decodes = fan_out(job);
    size_t nbytes = job->request_blocks * kv_block_nbytes(&job->options.shape);
    unsigned char *cache = must_have(malloc(nbytes));
    const unsigned char *source = nixl_region_addr(job->source);
    uint32_t *blocks = must_have(calloc(n_decodes, job->request_blocks * sizeof(*blocks)));
    struct free_blocks *pools = must_have(calloc((size_t)job->n_decode, sizeof(*pools)));

    for (uint32_t k = 0; k < n_decodes; k++) {
        pools[decode_rank(job, job->rank, k) - job->n_prefill].blocks =
            blocks + (size_t)k * job->request_blocks;
    }
    for (uint32_t request = 0; request < n_requests; request++) {
        int decode = decode_rank(job, job->rank, request % n_decodes);
        int64_t start;

        prefill_compute(job, request, cache);
        wait_for_room(job, decode, pools);
        start = now_ns();
        send_request(job, decode, request, job->source != NULL ? source : cache,
                     &pools[decode - job->n_prefill]);
        latencies[request] = now_ns() - start;
        job->tally.busy_ns += latencies[request];
        if (job->rank == 0) {
            kv_report_progress(request + 1, n_requests);
        }
    }
    for (uint32_t k = 0; k < n_decodes; k++) {
        wait_for_room(job, decode_rank(job, job->rank, k), pools); /* all is verified */
        must(nixl_notify(decode_rank(job, job->rank, k), TAG_END, NULL, 0, NIXL_FOREVER));
    }
    job->tally.requests = n_requests;
    job->tally.nbytes = n_requests * nbytes;
    free(pools);
    free(blocks);
    free(cache);
}

/* ---- decode ---------------------------------------------------------------------------------- */

/* Distribute the cache's blocks to the prefill ranks, shuffled, as after a day of serving. */
static void deal_blocks(const struct job *job)
{
    uint32_t *order = must_have(malloc(job->cache_blocks * sizeof(*order)));
    uint64_t random = (uint64_t)job->rank << 40;
    uint32_t next = 0;

    for (uint32_t i = 0; i < job->cache_blocks; i++) {
        uint32_t j = (uint32_t)((random >> 33) % (i + 1));

        order[i] = i; /* and now swap it with an earlier one */
        order[i] = order[j];
        order[j] = i;
        random = random * 6364136223846793005ull + 1442695040888963407ull;
    }
    for (int rank = 0; rank < job->n_prefill; rank++) {
        uint32_t end = next + job->request_blocks;

        while (sends_to(job, rank, job->rank) && next < end) {
            struct block_list list = {.n = end - next < LIST_MAX ? end - next : LIST_MAX};

            memcpy(list.blocks, &order[next], list.n * sizeof(order[0]));
            next += list.n;
            send_list(rank, TAG_FREE, &list);
        }
    }
    free(order);
}

/* A piece of this rank's cache, readable by the CPU. */
static const unsigned char *piece_at(const struct job *job, uint64_t at)
{
    if (job->piece == NULL) {
        return (const unsigned char *)nixl_region_addr(job->cache) + at;
    }
    must(nixl_get(job->rank, job->cache, at, job->piece, job->piece_nbytes));
    return job->piece;
}

/* Is every byte of the block what rank `from` put there? */
static bool block_is_right(const struct job *job, int from, const struct block_list *list,
                           uint32_t i)
{
    const struct kv_shape *shape = &job->options.shape;

    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        struct kv_origin origin = {(uint32_t)from, list->request, list->first + i, layer};
        uint64_t at = kv_piece_offset(shape, job->cache_blocks, list->blocks[i], layer);
        size_t right = kv_piece_verify(piece_at(job, at), job->piece_nbytes, &origin);

        if (right != job->piece_nbytes && job->tally.wrong < WRONG_SHOWN) {
            fprintf(stderr,
                    "kv_transfer: rank %d: request %u of rank %d: block %u, layer %u is wrong from "
                    "byte %zu on\n",
                    job->rank, list->request, from, list->first + i, layer, right);
        }
        if (right != job->piece_nbytes) {
            return false;
        }
    }
    return true;
}

static void decode(struct job *job)
{
    int n_senders = 0;

    for (int rank = 0; rank < job->n_prefill; rank++) {
        n_senders += sends_to(job, rank, job->rank);
    }
    deal_blocks(job);
    while (n_senders > 0) {
        struct nixl_note note;
        struct block_list list;

        receive(NIXL_ANY_RANK, 0, 0, &note);
        if (note.tag == TAG_END) {
            n_senders--;
            continue;
        }
        memcpy(&list, note.payload, note.nbytes);
        for (uint32_t i = 0; i < list.n; i++) {
            job->tally.wrong += !block_is_right(job, note.rank, &list, i);
        }
        job->tally.blocks += list.n;
        send_list(note.rank, TAG_FREE, &list);
    }
}

/* ---- the job --------------------------------------------------------------------------------- */

/* The cache of a decode rank in a file, or one object for each piece. */
static void open_tier(struct job *job)
{
    uint64_t n_pieces = (uint64_t)job->cache_blocks * job->options.shape.layers;
    struct nixl_file_params file = NIXL_FILE_PARAMS_INIT;
    struct nixl_object_params objects = NIXL_OBJECT_PARAMS_INIT;
    int nbytes =
        snprintf(job->file, sizeof(job->file), "%s/kv_transfer.%d", job->options.tier, job->rank);

    if (nbytes < 0 || (size_t)nbytes >= sizeof(job->file)) {
        nixl_abort(2, "--tier: the name is too long");
    }
    if (job->options.is_folder) {
        file.flags = NIXL_FILE_CREATE;
        file.nbytes = n_pieces * job->piece_nbytes;
        must(nixl_region_open_file("kv", job->file, &file, &job->cache));
        unlink(job->file); /* it is open: nothing is left, however this rank ends */
    } else {
        objects.nobjects = n_pieces;
        objects.object_nbytes = job->piece_nbytes;
        must(nixl_region_open_object("kv", job->file, &objects, &job->cache));
    }
}

/* Leave no object in the store. */
static void empty_tier(const struct job *job)
{
    uint64_t n_pieces = (uint64_t)job->cache_blocks * job->options.shape.layers;

    for (uint64_t i = 0; i < n_pieces && !job->options.is_folder; i++) {
        must(nixl_object_delete(job->cache, i, NIXL_FOREVER));
    }
}

/* Make this rank's memory, or only a handle to the others'. */
static void open_regions(struct job *job)
{
    size_t row_nbytes = job->options.requests * sizeof(int64_t);
    size_t block_nbytes = kv_block_nbytes(&job->options.shape);
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;

    params.kind = job->options.memory;
    params.flags = NIXL_MEM_POPULATE; /* no page faults while requests wait */
    if (job->rank >= job->n_prefill && job->options.tier != NULL) {
        open_tier(job);
    } else if (job->rank >= job->n_prefill) {
        must(nixl_region_alloc("kv", job->cache_blocks * block_nbytes, &params, &job->cache));
    } else {
        must(nixl_region_open("kv", &job->cache));
    }
    if ((params.kind != NIXL_MEM_HOST || job->options.tier != NULL) &&
        job->rank >= job->n_prefill) {
        job->piece = must_have(malloc(job->piece_nbytes));
    } else if (params.kind != NIXL_MEM_HOST && job->rank < job->n_prefill) {
        must(nixl_region_alloc("prefill", job->request_blocks * block_nbytes, &params,
                               &job->source));
    }
    if (job->rank == 0) {
        must(nixl_region_alloc("latencies", (size_t)job->n_prefill * row_nbytes, NULL,
                               &job->latencies));
    } else {
        must(nixl_region_open("latencies", &job->latencies));
    }
}

/* Report to rank 0 what this rank has done. The notification arrives after the latencies. */
static void send_report(const struct job *job, const int64_t *latencies)
{
    size_t row_nbytes = job->options.requests * sizeof(*latencies);

    if (job->rank < job->n_prefill) {
        must(nixl_put(0, job->latencies, (size_t)job->rank * row_nbytes, latencies, row_nbytes));
    }
    must(nixl_notify(0, TAG_REPORT, &job->tally, sizeof(job->tally), NIXL_FOREVER));
}

/* Rank 0: collect what every rank has done, print the table. Returns the number of wrong blocks. */
static uint64_t print_report(const struct job *job, int64_t start_ns)
{
    int64_t *latencies = nixl_region_addr(job->latencies);
    struct kv_tally all = {0};

    kv_report_head(&job->options, job->request_blocks);
    for (int rank = 0; rank < job->n_prefill + job->n_decode; rank++) {
        bool is_prefill = rank < job->n_prefill;
        struct nixl_note note;
        struct kv_tally tally;
        char who[16];

        receive(rank, TAG_REPORT, UINT64_MAX, &note);
        memcpy(&tally, note.payload, sizeof(tally));
        snprintf(who, sizeof(who), "%d", rank);
        kv_report_row(who, is_prefill ? "prefill" : "decode", &tally,
                      is_prefill ? latencies + (size_t)rank * job->options.requests : NULL);
        all.requests += tally.requests;
        all.nbytes += tally.nbytes;
        all.blocks += tally.blocks;
        all.wrong += tally.wrong;
        all.busy_ns += tally.busy_ns;
    }
    kv_report_row("all", "", &all, latencies);
    kv_report_foot(&all, now_ns() - start_ns);
    return all.wrong;
}

static int run_job(struct job *job)
{
    int64_t *latencies = must_have(calloc(job->options.requests, sizeof(*latencies)));
    int64_t start_ns = now_ns();
    uint64_t wrong = 0;

    job->piece_nbytes = kv_piece_nbytes(&job->options.shape);
    job->request_blocks = (job->options.prompt_tokens + job->options.shape.block_tokens - 1) /
                          job->options.shape.block_tokens;
    job->cache_blocks = fan_out(job) * job->request_blocks;
    open_regions(job);
    if (job->rank < job->n_prefill) {
        prefill(job, latencies);
    } else {
        decode(job);
    }
    send_report(job, latencies);
    if (job->rank == 0) {
        wrong = print_report(job, start_ns);
    }
    must(nixl_region_close(job->latencies, NIXL_FOREVER));
    if (job->options.tier != NULL && job->rank >= job->n_prefill) {
        empty_tier(job);
    }
    must(nixl_region_close(job->cache, NIXL_FOREVER));
    if (job->source != NULL) {
        must(nixl_region_close(job->source, NIXL_FOREVER));
    }
    free(job->piece);
    free(latencies);
    return wrong == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct job job = {0};
    enum kv_parsed parsed;
    int code;

    must(nixl_init(NULL));
    job.rank = nixl_rank();
    job.n_prefill = nixl_size() / 2;
    job.n_decode = nixl_size() - job.n_prefill; /* with an odd number of ranks one more decodes */
    parsed = kv_options_parse(argc, argv, job.rank == 0, &job.options);
    if (parsed == KV_RUN && job.n_prefill == 0) {
        fprintf(stderr, "kv_transfer: 1 rank is too few: one must prefill and one decode; "
                        "start it as nixlrun -np 4 kv_transfer\n");
        parsed = KV_BAD;
    }
    code = parsed == KV_RUN ? run_job(&job) : parsed == KV_END ? 0 : 2;
    nixl_finalize();
    return code;
}
