/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_worker: a prefill worker of the example serve.
 *
 *     serve_worker WHERE [REQUESTS]
 *
 * It attaches to the server that is published in WHERE (file:DIR or tcp://HOST:PORT), and for each
 * request asks for blocks, fills them by one prepared put with the grant that it gets, and tells
 * the server behind the last byte. After so many requests it leaves; 0, the default: when the
 * server does. It may be killed at any moment.
 */
#include "serve.h"

#include <string.h>
#include <unistd.h>

static const char program[] = "serve_worker";

struct worker {
    int server; /* its rank here */
    int64_t started_at;
    struct nixl_region *cache;
    struct nixl_xfer *xfer;
    uint64_t *words;                       /* the request's bytes */
    uint64_t blocks[SERVE_REQUEST_BLOCKS]; /* where they go: the index of the transfer */
};

/* The server has left, or died: that is the end of the work. */
static void must_reach(int status)
{
    if (status == NIXL_E_PEER_LOST) {
        printf("%s %d: the server has left\n", program, (int)getpid());
        exit(0);
    }
    serve_must(program, status);
}

static void prepare(struct worker *worker)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;

    serve_must(program, nixl_region_open(SERVE_REGION, &worker->cache));
    worker->words = malloc(SERVE_REQUEST_WORDS * sizeof(uint64_t));
    if (worker->words == NULL) {
        fprintf(stderr, "%s: no memory\n", program);
        exit(1);
    }
    local.addr = worker->words;
    local.block_nbytes = local.stride = SERVE_BLOCK_NBYTES;
    local.nblocks = SERVE_REQUEST_BLOCKS;
    remote.region = worker->cache;
    remote.block_nbytes = remote.stride = SERVE_BLOCK_NBYTES;
    remote.nblocks = SERVE_REQUEST_BLOCKS;
    remote.index = worker->blocks;
    must_reach(
        nixl_xfer_create(NIXL_XFER_PUT, worker->server, &local, 1, &remote, 1, &worker->xfer));
}

/* Ask until blocks are lent. */
static struct serve_lent ask(const struct worker *worker, uint64_t seed)
{
    const struct serve_ask asked = {seed};
    static struct nixl_note note;
    struct serve_lent lent;

    for (;;) {
        must_reach(nixl_notify(worker->server, SERVE_ASK, &asked, sizeof(asked), NIXL_FOREVER));
        nixl_note_init(&note);
        must_reach(nixl_notify_recv(worker->server, SERVE_LENT, UINT64_MAX, NIXL_FOREVER, &note));
        memcpy(&lent, note.payload, sizeof(lent));
        if (lent.token[0] != '\0') {
            return lent;
        }
        usleep(10000);
    }
}

/* Put a request into the blocks that are lent for it; its notification says so. */
static void put(struct worker *worker, const struct serve_lent *lent, int is_first)
{
    struct serve_done done = {lent->seed, 0};
    struct nixl_op op = NIXL_OP_INIT;
    int status;

    memcpy(worker->blocks, lent->blocks, sizeof(worker->blocks));
    done.first_ns = is_first ? serve_now_ns() - worker->started_at : 0;
    op.flags = NIXL_OP_GRANT | NIXL_OP_NOTE;
    op.grant = lent->token;
    op.tag = SERVE_DONE;
    op.msg = &done;
    op.msg_nbytes = sizeof(done);
    status = nixl_xfer_start_x(worker->xfer, &op, NULL);
    if (status == NIXL_E_STALE) { /* too late: the blocks are another request's by now */
        printf("%s %d: refused: %s\n", program, (int)getpid(), nixl_last_error()->text);
        status = nixl_notify(worker->server, SERVE_REFUSED, &done, sizeof(done), NIXL_FOREVER);
    }
    must_reach(status);
}

int main(int argc, char **argv)
{
    unsigned long n_requests = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    struct worker worker = {.started_at = serve_now_ns()};
    uint64_t seed = (uint64_t)getpid() << 32;

    if (argc < 2) {
        fprintf(stderr, "usage: %s file:DIR|tcp://HOST:PORT|etcd://HOST:PORT [REQUESTS]\n",
                program);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    serve_must(program, nixl_init(NULL));
    serve_must(program,
               nixl_attach(argv[1], SERVE_NAME, SERVE_SCHEMA, 30000000000ll, &worker.server));
    prepare(&worker);
    for (unsigned long i = 0; n_requests == 0 || i < n_requests; i++, seed += SERVE_REQUEST_WORDS) {
        struct serve_lent lent = ask(&worker, seed);

        for (uint64_t w = 0; w < SERVE_REQUEST_WORDS; w++) {
            worker.words[w] = serve_word(seed, w);
        }
        put(&worker, &lent, i == 0);
    }
    serve_must(program, nixl_xfer_free(worker.xfer));
    serve_must(program, nixl_region_close(worker.cache, NIXL_FOREVER));
    (void)nixl_detach(worker.server, 10000000000ll);
    free(worker.words);
    return nixl_finalize() == NIXL_OK ? 0 : 1;
}
