/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile messages over a network. Beside rank 0 runs a process that is not of the job, but knows
 * the rank's address, and sends what it likes by the network's own module: first without the secret
 * of the rank's card (random bytes, messages that are cut off, whole ones with another secret, ones
 * that rank 1 has got, bulk), then with it and in the name of rank 1 (records that cannot be, puts
 * beside the region). Each is dropped with a line in the log; nothing is written, nobody is taken
 * for dead, and the job goes on.
 */
#include "config.h"

#include "core/job.h"
#include "net/net.h"
#include "net/in.h"

#include "mptest.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGE_NBYTES 4096
#define REGION_NBYTES  4096
#define BULK_NBYTES    100000
#define TAG_CARD       0x4057

extern char **environ;

/* What the attacker reads on its standard input. */
struct briefing {
    uint64_t token;           /* of rank 0; 0: not known */
    uint64_t other_token;     /* of rank 1 */
    struct nxr_key key;       /* of rank 0's region */
    struct nxr_identity peer; /* rank 1 */
    size_t address_nbytes;
    unsigned char address[NXR_NET_ADDRESS_NBYTES];
};

/* ---- the attacker ---------------------------------------------------------------------------- */

static const struct nxr_network *net;
static struct nxr_net_ep *victim;
static struct briefing briefing;
static int n_pending, n_attacks;
static unsigned char message[MESSAGE_NBYTES];

static void ignore_message(const void *bytes, size_t nbytes)
{
    (void)bytes;
    (void)nbytes;
}

static void *refuse_bulk(const void *header, size_t header_nbytes, size_t nbytes, void **cookie_p)
{
    (void)header;
    (void)header_nbytes;
    (void)nbytes;
    (void)cookie_p;
    return NULL;
}

static void never_landing(void *cookie, size_t nbytes)
{
    (void)cookie;
    (void)nbytes;
}

static void never_lands(void *cookie, int status)
{
    (void)cookie;
    (void)status;
}

static void ended(struct nxr_net_op *op, int status)
{
    (void)op;
    (void)status;
    n_pending--;
}

static void ep_failed(void *peer, struct nxr_net_ep *ep, const char *why)
{
    (void)peer;
    (void)ep;
    fprintf(stderr, "attacker: %s\n", why);
}

static void log_nothing(enum nxr_net_log level, const char *format, ...)
{
    (void)level;
    (void)format;
}

static int64_t now; /* of this round */

static const struct nxr_net_core core = {
    .rank = 0,
    .size = 2,
    .now_ns = &now,
    .received = ignore_message,
    .incoming = refuse_bulk,
    .landing = never_landing,
    .landed = never_lands,
    .ended = ended,
    .ep_failed = ep_failed,
    .log = log_nothing,
    .devices = "",
    .provider = "",
};

static void drive(void)
{
    now = mpt_now_ns();
    net->progress();
}

/* Open the module by itself, as the library does. */
static void open_module(const char *name)
{
    char path[4096], symbol[64], why[256] = "";
    void *library;

    snprintf(path, sizeof(path), "%s/nixlrun_%s.so", getenv("NIXLRUN_MODULE_DIR"), name);
    snprintf(symbol, sizeof(symbol), "nxr_network_%s", name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    net = library != NULL ? dlsym(library, symbol) : NULL;
    if (net == NULL || net->probe(why, sizeof(why)) != NIXL_OK ||
        net->open(&core, why, sizeof(why)) != NIXL_OK) {
        fprintf(stderr, "attacker: %s cannot be opened: %s\n", path, why);
        exit(1);
    }
}

/* One message, and bulk behind it; it is out when this returns. */
static void attack(size_t nbytes, size_t bulk_nbytes)
{
    static unsigned char bulk[BULK_NBYTES];
    static struct nxr_net_op op;
    int status;

    memset(bulk, 0xbb, sizeof(bulk));
    do {
        drive();
        status = net->send(victim, message, nbytes, bulk, bulk_nbytes, &op);
    } while (status == NIXL_E_AGAIN);
    n_pending += status == NIXL_INPROGRESS;
    n_attacks++;
    while (n_pending > 0) {
        drive();
    }
}

static size_t put_head(uint64_t token, int rank)
{
    struct nxr_net_head head = {
        .magic = NXR_NET_MAGIC, .version = NXR_NET_VERSION, .from = briefing.peer, .token = token};

    head.from.rank = rank;
    memcpy(message, &head, sizeof(head));
    return sizeof(head);
}

static size_t put_record(size_t at, unsigned type, const void *body, size_t nbytes)
{
    struct nxr_net_record record = {.type = (uint16_t)type, .nbytes = (uint32_t)nbytes};

    memcpy(message + at, &record, sizeof(record));
    memcpy(message + at + sizeof(record), body, nbytes);
    return at + sizeof(record) + nxr_net_padded(nbytes);
}

/* A put of 64 bytes at an offset of rank 0's region. */
static size_t put_put(size_t at, uint64_t offset)
{
    struct {
        struct nxr_net_put put;
        unsigned char bytes[64];
    } body = {
        .put = {.generation = briefing.key.generation, .offset = offset, .id = briefing.key.id}};

    memset(body.bytes, 0xee, sizeof(body.bytes));
    return put_record(at, NXR_NET_PUT, &body, sizeof(body));
}

static void random_bytes(void)
{
    uint64_t seed = (uint64_t)mpt_now_ns();

    for (int i = 0; i < 50; i++) {
        size_t nbytes = 1 + mpt_random(&seed) % sizeof(message);

        mpt_fill(message, nbytes, seed);
        attack(nbytes, 0);
    }
}

/* A put that would be right, but for the secret: cut off at each byte of its head, and whole. */
static void without_the_secret(void)
{
    size_t nbytes = put_put(put_head(0x1234, 1), 0);

    for (size_t cut = 1; cut <= sizeof(struct nxr_net_head); cut++) {
        attack(cut, 0);
    }
    attack(nbytes, 0);
    put_head(briefing.other_token, 1); /* what rank 1 has got, sent again to rank 0 */
    attack(nbytes, 0);
    put_head(0, 0);
    attack(nbytes, 0);
    if (net->attr()->has_bulk) {
        struct nxr_net_put put = {briefing.key.generation, 0, 64, briefing.key.id, 0};

        nbytes = put_record(put_head(0x1234, 1), NXR_NET_BULK_PUT, &put, sizeof(put));
        attack(nbytes, 64);
        put.nbytes = BULK_NBYTES;
        nbytes = put_record(put_head(briefing.other_token, 1), NXR_NET_BULK_PUT, &put, sizeof(put));
        attack(nbytes, BULK_NBYTES);
    }
}

/* Knows the secret, and is rank 1 of another job, or another process of rank 1. */
static void as_another_process(void)
{
    const struct nxr_identity peer = briefing.peer;

    briefing.peer.job++;
    attack(put_put(put_head(briefing.token, 1), 0), 0);
    briefing.peer = peer;
    briefing.peer.incarnation++;
    attack(put_put(put_head(briefing.token, 1), 0), 0);
    briefing.peer.incarnation = peer.incarnation - 1;
    attack(put_put(put_head(briefing.token, 1), 0), 0);
    if (net->attr()->has_bulk) {
        struct nxr_net_put put = {briefing.key.generation, 0, 64, briefing.key.id, 0};

        attack(put_record(put_head(briefing.token, 1), NXR_NET_BULK_PUT, &put, sizeof(put)), 64);
    }
    briefing.peer = peer;
}

/* A hostile rank of the job itself. */
static void with_the_secret(void)
{
    static const uint64_t offsets[] = {REGION_NBYTES, REGION_NBYTES - 63, UINT64_MAX,
                                       UINT64_MAX - 63};
    size_t head_nbytes = put_head(briefing.token, 1), nbytes;

    put_head(briefing.token, 2); /* there is no rank 2 */
    attack(put_put(head_nbytes, 0), 0);
    put_head(briefing.token, -1);
    attack(put_put(head_nbytes, 0), 0);
    put_head(briefing.token, 1);
    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        attack(put_put(head_nbytes, offsets[i]), 0);
    }
    nbytes = put_put(head_nbytes, 0);
    for (size_t cut = head_nbytes + 1; cut < nbytes; cut += 7) {
        attack(cut, 0);
    }
    for (unsigned type = NXR_NET_N_TYPES; type <= UINT16_MAX; type += 9999) {
        attack(put_record(head_nbytes, type, "", 0), 0);
    }
    attack(put_record(head_nbytes, 0, "", 0), 0);
    attack(put_record(head_nbytes, NXR_NET_ATOMIC, "short", 5), 0);
}

static int be_attacker(const char *name)
{
    struct pollfd polled = {.fd = STDIN_FILENO, .events = POLLIN};

    alarm(170); /* whatever becomes of the rank */
    if (read(STDIN_FILENO, &briefing, sizeof(briefing)) != (ssize_t)sizeof(briefing)) {
        return 1;
    }
    open_module(name);
    if (net->ep_open(briefing.address, briefing.address_nbytes, &briefing, &victim) != NIXL_OK) {
        fprintf(stderr, "attacker: no way to the rank\n");
        return 1;
    }
    if (briefing.token == 0) {
        random_bytes();
        without_the_secret();
    } else {
        with_the_secret();
        as_another_process();
    }
    if (write(STDOUT_FILENO, &n_attacks, sizeof(n_attacks)) != (ssize_t)sizeof(n_attacks)) {
        return 1;
    }
    /* Until rank 0 has counted them. */
    while (poll(&polled, 1, 0) == 0) {
        drive();
    }
    net->ep_close(victim, false);
    net->close();
    return 0;
}

/* ---- the rank -------------------------------------------------------------------------------- */

static atomic_int n_lines;

static void count_lines(enum nixl_log_level level, const char *subsystem, const char *text,
                        void *arg)
{
    (void)arg;
    if (level <= NIXL_LOG_WARN && strcmp(subsystem, "net") == 0 &&
        strstr(text, "dropped") != NULL) {
        atomic_fetch_add(&n_lines, 1);
    }
}

static uint64_t n_dropped(void)
{
    uint64_t n;

    net_lock();
    n = nxr_net.n_dropped;
    net_unlock();
    return n;
}

/* Start the attacker, and wait until each of its messages was dropped. */
static void suffer(const struct briefing *what)
{
    const char *name = mpt_network();
    char *argv[] = {(char *)"hostile_net", (char *)name, NULL};
    uint64_t before = n_dropped();
    int64_t until_ns = mpt_now_ns() + MPT_PATIENCE;
    static struct nixl_note note;
    posix_spawn_file_actions_t actions;
    int in[2], out[2], status, n_messages = 0;
    pid_t pid;

    MPT_EQ(pipe2(in, O_CLOEXEC), 0);
    MPT_EQ(pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    MPT_EQ(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    MPT_EQ(write(in[1], what, sizeof(*what)), (ssize_t)sizeof(*what));
    if (read(out[0], &n_messages, sizeof(n_messages)) != (ssize_t)sizeof(n_messages)) {
        waitpid(pid, &status, 0);
        mpt_fail(__FILE__, __LINE__, "the attacker has ended early, with status %#x", status);
    }
    MPT_TRUE(n_messages > 10);
    while (n_dropped() - before < (uint64_t)n_messages) {
        MPT_LT(mpt_now_ns(), until_ns);
        nixl_note_init(&note);
        MPT_STATUS(nixl_notify_recv(1, TAG_CARD, UINT64_MAX, MPT_MS, &note), NIXL_E_TIMEOUT);
    }
    MPT_EQ(n_dropped() - before, n_messages);
    close(in[1]);
    close(out[0]);
    MPT_EQ(waitpid(pid, &status, 0), pid);
    MPT_EQ(status, 0);
}

static const void *own_address(size_t *nbytes_p)
{
    struct nxr_net_offer offer;

    return nxr_net_offer_find(&nxr_job.card, mpt_network(), &offer, nbytes_p);
}

/* Rank 0 has a region; rank 1 sends it the secret of its card, as a stolen message would. */
static void be_victim(struct nixl_region *region)
{
    static struct nixl_note note;
    struct briefing what = {.peer = {nxr_job.self.job, 1, 0}};
    size_t nbytes;
    const void *address = own_address(&nbytes);

    MPT_TRUE(nbytes <= sizeof(what.address));
    memcpy(what.address, address, nbytes);
    what.address_nbytes = nbytes;
    pthread_mutex_lock(&nxr_job.lock);
    what.key = nxr_publish_find("hostile")->key;
    pthread_mutex_unlock(&nxr_job.lock);
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(1, TAG_CARD, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&what.other_token, note.payload, sizeof(what.other_token));
    nixl_log_set_fn(count_lines, NULL);
    suffer(&what);
    MPT_TRUE(atomic_load(&n_lines) > 0);
    MPT_CHECK_BYTES(nixl_region_addr(region), REGION_NBYTES, 0);
    what.token = nxr_net_own_token();
    suffer(&what);
    MPT_CHECK_BYTES(nixl_region_addr(region), REGION_NBYTES, 0);
    MPT_EQ(nixl_peer_state(1), NIXL_PEER_ALIVE);
    nixl_log_set_fn(NULL, NULL);
    MPT_OK(nixl_notify(1, TAG_CARD, NULL, 0, MPT_PATIENCE));
}

/* Puts in the name of rank 1 were refused: it is told so once, and all is well again. */
static void hear_of_refusals(void)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(0, TAG_CARD, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_STATUS(nixl_flush(0, MPT_PATIENCE), NIXL_E_RANGE);
    MPT_OK(nixl_flush(0, MPT_PATIENCE));
}

int main(int argc, char **argv)
{
    struct nixl_region *region = NULL;
    uint64_t token, word = 7;
    size_t nbytes;

    if (argc == 2) {
        return be_attacker(argv[1]);
    }
    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    if (mpt_network() == NULL) {
        mpt_skip("MPT_NETWORK does not say which network is attacked");
    }
    if (own_address(&nbytes) == NULL) {
        mpt_skip("%s cannot be used here", mpt_network());
    }
    MPT_OK(nixl_region_alloc("hostile", REGION_NBYTES, NULL, &region));
    mpt_barrier();
    if (nixl_rank() == 0) {
        be_victim(region);
    } else {
        token = nxr_net_own_token();
        MPT_OK(nixl_notify(0, TAG_CARD, &token, sizeof(token), MPT_PATIENCE));
        hear_of_refusals();
    }
    mpt_barrier();
    MPT_OK(nixl_put(1 - nixl_rank(), region, 8, &word, sizeof(word)));
    mpt_barrier();
    MPT_EQ(((uint64_t *)nixl_region_addr(region))[1], 7);
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
