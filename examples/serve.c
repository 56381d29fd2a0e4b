/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve: a decode server that stays, while prefill workers come and go.
 *
 *     serve WHERE [SECONDS]
 *
 * The server publishes itself in WHERE (file:DIR, or tcp://HOST:PORT for workers of any host) and
 * owns the cache. Workers are another program (serve_worker.c), started by anyone, at any time;
 * they attach, ask for blocks, are lent some by a grant, put, and notify. They also leave, are
 * killed, stopped and started again; the server is never restarted.
 *
 * It verifies every byte. Blocks that are free hold FREE, which is checked before they are lent; so
 * a byte that came after its grant had ended would be seen. Of a worker that died, or was refused,
 * each byte is either its own or still FREE. The last line says what was served, and the exit code
 * is 0 only if no byte was wrong. examples/serve_demo.sh runs it all.
 */
#include "serve.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define FREE       0xf5
#define FREE_WORD  0xf5f5f5f5f5f5f5f5ull
#define REQUESTS   (SERVE_BLOCKS / SERVE_REQUEST_BLOCKS) /* at most, at one time */
#define WAIT_NS    20000000ll
#define PATIENCE   20000000000ll
#define FIRSTS_MAX 100000u

static const char program[] = "serve";
static volatile sig_atomic_t must_end;

/* A request whose blocks are lent, or filled. */
struct request {
    int is_used;
    int rank;
    uint64_t seed;
    uint64_t blocks[SERVE_REQUEST_BLOCKS];
    struct nixl_req *grant; /* NULL: it has ended */
};

static struct nixl_region *cache;
static struct request requests[REQUESTS];
static uint64_t free_blocks[SERVE_BLOCKS]; /* a stack that is shuffled */
static unsigned n_free;

static uint64_t n_served, n_workers, n_killed, n_left, n_expired, n_wrong;
static int64_t first_ns[FIRSTS_MAX]; /* of each worker: its first good byte after its start */
static unsigned n_firsts;

static void on_signal(int signal)
{
    (void)signal;
    must_end = 1;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static uint64_t *block_at(uint64_t block)
{
    return (uint64_t *)((char *)nixl_region_addr(cache) + block * SERVE_BLOCK_NBYTES);
}

/* How many bytes of a word are wrong, if each may be of the one or of the other? */
static unsigned wrong_bytes(uint64_t word, uint64_t one, uint64_t other)
{
    unsigned n = 0;

    for (unsigned shift = 0; shift < 64; shift += 8) {
        unsigned char byte = (unsigned char)(word >> shift);

        n += byte != (unsigned char)(one >> shift) && byte != (unsigned char)(other >> shift);
    }
    return n;
}

/* Compare a request's blocks with what it sends; `other` may be there instead of any byte. */
static void verify(const struct request *request, int is_whole, const char *what)
{
    uint64_t n_before = n_wrong;

    for (uint64_t i = 0; i < SERVE_REQUEST_BLOCKS; i++) {
        const uint64_t *words = block_at(request->blocks[i]);

        for (uint64_t w = 0; w < SERVE_BLOCK_WORDS; w++) {
            uint64_t right = serve_word(request->seed, i * SERVE_BLOCK_WORDS + w);

            if (words[w] != right) {
                n_wrong += wrong_bytes(words[w], right, is_whole ? right : FREE_WORD);
            }
        }
    }
    if (n_wrong > n_before) {
        fprintf(stderr, "%s: %llu wrong bytes in a request that %s\n", program,
                (unsigned long long)(n_wrong - n_before), what);
    }
}

/* Take a block that is free, and has been left alone since. */
static uint64_t take_block(void)
{
    unsigned at = (unsigned)rand() % n_free;
    uint64_t block = free_blocks[at], n_before = n_wrong;
    const uint64_t *words = block_at(block);

    free_blocks[at] = free_blocks[--n_free];
    for (uint64_t w = 0; w < SERVE_BLOCK_WORDS; w++) {
        n_wrong += words[w] != FREE_WORD ? wrong_bytes(words[w], FREE_WORD, FREE_WORD) : 0;
    }
    if (n_wrong > n_before) {
        fprintf(stderr, "%s: %llu bytes came into block %llu after its grant had ended\n", program,
                (unsigned long long)(n_wrong - n_before), (unsigned long long)block);
    }
    return block;
}

static void give_blocks(struct request *request)
{
    for (unsigned i = 0; i < SERVE_REQUEST_BLOCKS; i++) {
        memset(block_at(request->blocks[i]), FREE, SERVE_BLOCK_NBYTES);
        free_blocks[n_free++] = request->blocks[i];
    }
    request->is_used = 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct request *find_request(int rank, uint64_t seed)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        if (requests[i].is_used && requests[i].rank == rank && requests[i].seed == seed) {
            return &requests[i];
        }
    }
    return NULL;
}

static struct request *new_request(int rank, uint64_t seed)
{
    for (unsigned i = 0; i < REQUESTS && n_free >= SERVE_REQUEST_BLOCKS; i++) {
        if (!requests[i].is_used) {
            requests[i] = (struct request){.is_used = 1, .rank = rank, .seed = seed};
            for (unsigned k = 0; k < SERVE_REQUEST_BLOCKS; k++) {
                requests[i].blocks[k] = take_block();
            }
            return &requests[i];
        }
    }
    return NULL;
}

/* Lend its blocks, for one put that begins soon. */
static void lend(struct request *request, char token[NIXL_TOKEN_MAX + 1])
{
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;

    blocks.region = cache;
    blocks.block_nbytes = blocks.stride = SERVE_BLOCK_NBYTES;
    blocks.nblocks = SERVE_REQUEST_BLOCKS;
    blocks.index = request->blocks;
    params.rights = NIXL_GRANT_WRITE;
    params.uses = 1;
    params.lifetime_ns = SERVE_LIFETIME_NS;
    serve_must(program,
               nixl_grant_create(&blocks, &params, token, NIXL_TOKEN_MAX + 1, &request->grant));
}

static void on_ask(int rank, const struct serve_ask *asked)
{
    struct request *request = new_request(rank, asked->seed);
    struct serve_lent lent = {.seed = asked->seed};

    if (request != NULL) {
        memcpy(lent.blocks, request->blocks, sizeof(lent.blocks));
        lend(request, lent.token);
    }
    if (nixl_notify(rank, SERVE_LENT, &lent, sizeof(lent), WAIT_NS) == NIXL_E_TIMEOUT) {
        fprintf(stderr, "%s: %s\n", program, nixl_last_error()->text);
    } /* otherwise, if it fails, the worker is lost, and an event says so */
}

/* The last byte has come, and the worker's use is over. */
static void on_done(int rank, const struct serve_done *done)
{
    struct request *request = find_request(rank, done->seed);

    if (request == NULL) {
        fprintf(stderr, "%s: rank %d has filled blocks that it was not lent\n", program, rank);
        n_wrong++;
        return;
    }
    serve_must(program, nixl_req_wait(&request->grant, PATIENCE));
    verify(request, 1, "was served");
    give_blocks(request);
    n_served++;
    if (done->first_ns != 0 && n_firsts < FIRSTS_MAX) {
        first_ns[n_firsts++] = done->first_ns;
    }
}

/* A worker died, or did not begin in time: nobody is inside any more when its grant has ended. */
static void take_back(struct request *request, const char *what)
{
    int status = nixl_req_cancel(&request->grant, PATIENCE, NULL);

    if (status != NIXL_OK) {
        fprintf(stderr, "%s: %s\n", program, nixl_last_error()->text);
        n_wrong++; /* its blocks stay lent */
        return;
    }
    verify(request, 0, what);
    give_blocks(request);
}

/* Grants that have ended by themselves. */
static void look_at_grants(void)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        if (requests[i].is_used && requests[i].grant != NULL &&
            nixl_req_test(&requests[i].grant) == NIXL_E_EXPIRED) {
            n_expired++;
            take_back(&requests[i], "was too late");
        }
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void on_gone(const struct nixl_event *event)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        if (requests[i].is_used && requests[i].rank == event->rank) {
            take_back(&requests[i], "ended with its worker");
        }
    }
    n_killed += event->type == NIXL_EVENT_PEER_LOST;
    n_left += event->type == NIXL_EVENT_PEER_LEFT;
    (void)nixl_detach(event->rank, 0);
}

static void take_events(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    while (nixl_event_recv(0, &event) == NIXL_OK) {
        n_workers += event.type == NIXL_EVENT_PEER_JOINED;
        if (event.type == NIXL_EVENT_PEER_LOST || event.type == NIXL_EVENT_PEER_LEFT) {
            on_gone(&event);
        }
    }
}

static void take_note(const struct nixl_note *note)
{
    if (note->tag == SERVE_ASK && note->nbytes == sizeof(struct serve_ask)) {
        on_ask(note->rank, (const struct serve_ask *)(const void *)note->payload);
    } else if (note->tag == SERVE_DONE && note->nbytes == sizeof(struct serve_done)) {
        on_done(note->rank, (const struct serve_done *)(const void *)note->payload);
    }
}

/* On a terminal: a line that is overwritten every second. */
static void show(int64_t started_at)
{
    static int64_t shown_at;
    static uint64_t n_shown;
    int64_t now = serve_now_ns();
    double seconds = (double)(now - shown_at) / 1e9;

    if (shown_at != 0 && seconds < 1) {
        return;
    }
    if (shown_at != 0 && isatty(STDERR_FILENO)) {
        double rate = (double)(n_served - n_shown) / seconds;

        fprintf(stderr,
                "\r%4.0f s: %llu workers here, %6.0f requests/s, %5.2f GB/s; %llu served, %llu "
                "killed, %llu late, %llu wrong bytes ",
                (double)(now - started_at) / 1e9,
                (unsigned long long)(n_workers - n_killed - n_left), rate,
                rate * SERVE_REQUEST_BLOCKS * SERVE_BLOCK_NBYTES / 1e9,
                (unsigned long long)n_served, (unsigned long long)n_killed,
                (unsigned long long)n_expired, (unsigned long long)n_wrong);
    }
    shown_at = now;
    n_shown = n_served;
}

static void serve(int64_t seconds)
{
    static struct nixl_note note;
    int64_t started_at = serve_now_ns();

    nixl_note_init(&note);
    while (!must_end && (seconds == 0 || serve_now_ns() - started_at < seconds * 1000000000ll)) {
        if (nixl_notify_recv(NIXL_ANY_RANK, 0, 0, WAIT_NS, &note) == NIXL_OK) {
            take_note(&note);
        }
        take_events();
        look_at_grants();
        show(started_at);
    }
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\n");
    }
}

static int compare_times(const void *a, const void *b)
{
    int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;

    return (first > second) - (first < second);
}

/* The time within which so many of a hundred workers had their first good byte. */
static double first_ms(unsigned percent)
{
    unsigned at = (unsigned)((uint64_t)n_firsts * percent / 100);

    return (double)first_ns[at < n_firsts ? at : n_firsts - 1] / 1e6;
}

static void report(void)
{
    if (n_firsts > 0) {
        qsort(first_ns, n_firsts, sizeof(first_ns[0]), compare_times);
        printf("first good byte after a worker's start: median %.1f ms, 99%% within %.1f ms, "
               "longest %.1f ms of %u\n",
               first_ms(50), first_ms(99), first_ms(100), n_firsts);
    }
    printf("%llu workers left in order, %llu grants ended before their worker began\n",
           (unsigned long long)n_left, (unsigned long long)n_expired);
    printf("served %llu requests from %llu workers, %llu killed, %llu wrong bytes\n",
           (unsigned long long)n_served, (unsigned long long)n_workers,
           (unsigned long long)n_killed, (unsigned long long)n_wrong);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};

    if (argc < 2) {
        fprintf(stderr, "usage: %s file:DIR|tcp://HOST:PORT|etcd://HOST:PORT [SECONDS]\n", program);
        return 2;
    }
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    serve_must(program, nixl_init(NULL));
    serve_must(program, nixl_region_alloc(SERVE_REGION, (size_t)SERVE_BLOCKS * SERVE_BLOCK_NBYTES,
                                          NULL, &cache));
    memset(nixl_region_addr(cache), FREE, (size_t)SERVE_BLOCKS * SERVE_BLOCK_NBYTES);
    for (n_free = 0; n_free < SERVE_BLOCKS; n_free++) {
        free_blocks[n_free] = n_free;
    }
    serve_must(program, nixl_publish(argv[1], SERVE_NAME, SERVE_SCHEMA));
    printf("ready\n");
    fflush(stdout);
    serve(argc > 2 ? atol(argv[2]) : 0);
    report();
    serve_must(program, nixl_region_close(cache, PATIENCE));
    return nixl_finalize() == NIXL_OK && n_wrong == 0 && n_served > 0 ? 0 : 1;
}
