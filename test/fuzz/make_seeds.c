/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_seeds DIR: write the inputs by which the fuzz targets of messages begin, DIR/TARGET/NAME,
 * made by the functions that make the real ones, with the same bytes each time. What the receiver
 * would refuse is an error. "make seeds" writes those of test/fuzz/seeds, and test/check-seeds.sh
 * compares.
 */
#include "attach/entry.h"
#include "attach/introduction.h"
#include "control/wire.h"
#include "core/card.h"
#include "core/job.h"
#include "transports/ucx/envelope.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SIZE = 4, REMOTE = 4 }; /* as fuzz_wire.c has them */

static const char *seeds;
static const struct nxr_identity self = {.job = 7, .rank = 2};
static const unsigned char secret[NXR_PROOF_SECRET_NBYTES] = {1}; /* as fuzz_entry.c has it */

static void die(const char *what, const char *why)
{
    fprintf(stderr, "make_seeds: %s: %s\n", what, why);
    exit(1);
}

/* Write a seed, whose first byte may be one that only the target reads; -1: none. */
static void write_seed(const char *target, const char *name, int first, const void *bytes,
                       size_t nbytes)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", seeds, target);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        die(path, strerror(errno));
    }
    snprintf(path, sizeof(path), "%s/%s/%s", seeds, target, name);
    file = fopen(path, "wbe");
    if (file == NULL || (first >= 0 && fputc(first, file) == EOF) ||
        fwrite(bytes, 1, nbytes, file) != nbytes || fclose(file) != 0) {
        die(path, strerror(errno));
    }
}

static void count_up(void *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++) {
        ((unsigned char *)bytes)[i] = (unsigned char)i;
    }
}

/* ---- cards ----------------------------------------------------------------------------------- */

/* A card without what differs from host to host and from run to run. */
static struct nxr_full_card make_card(void)
{
    struct nxr_full_card card;

    if (nxr_card_make(&self, &card) != NIXL_OK) {
        die("card", "no random numbers");
    }
    count_up(card.head.nonce, sizeof(card.head.nonce));
    count_up(card.head.secret, sizeof(card.head.secret));
    memset(card.head.host, 0, sizeof(card.head.host));
    memset(card.head.boot_id, 0, sizeof(card.head.boot_id));
    strcpy(card.head.host, "host");
    strcpy(card.head.boot_id, "boot");
    card.head.socket_space = card.head.pid_space = card.head.cores = 1;
    card.head.flags = nxr_wire_card_flags();
    return card;
}

static void write_card(const char *name, const struct nxr_full_card *card)
{
    struct nxr_full_card parsed;

    if (nxr_card_parse(card, card->head.nbytes, &self, &parsed) != NIXL_OK) {
        die(name, "the card is refused");
    }
    write_seed("card", name, -1, card, card->head.nbytes);
}

static void add_address(struct nxr_full_card *card, const char *network, size_t nbytes)
{
    unsigned char bytes[64];

    count_up(bytes, sizeof(bytes));
    if (nxr_card_add_address(card, network, bytes, nbytes) != NIXL_OK) {
        die(network, "no room in the card");
    }
}

static void write_cards(void)
{
    struct nxr_full_card card = make_card();

    write_card("plain", &card);
    add_address(&card, "ucx", 37);
    add_address(&card, "ofi", 16);
    add_address(&card, "tcp", 64);
    write_card("addresses", &card);
}

/* ---- messages between ranks ------------------------------------------------------------------ */

static const struct {
    enum nxr_wire_type type;
    const char *name;
    int n_fds;
    bool is_local; /* only ranks of one host send it */
} types[] = {
    {NXR_WIRE_HELLO, "hello", 2, true},        {NXR_WIRE_WELCOME, "welcome", 2, true},
    {NXR_WIRE_RESOLVE, "resolve", 0, false},   {NXR_WIRE_KEY, "key", 1, false},
    {NXR_WIRE_CLOSED, "closed", 0, false},     {NXR_WIRE_DEATH, "death", 0, false},
    {NXR_WIRE_RING_FD, "ring_fd", 0, true},    {NXR_WIRE_BOUNCE, "bounce", 1, true},
    {NXR_WIRE_WORK, "work", 0, true},          {NXR_WIRE_LEAVING, "leaving", 0, false},
    {NXR_WIRE_PROBE, "probe", 0, false},       {NXR_WIRE_PROBED, "probed", 0, false},
    {NXR_WIRE_PROPOSE, "propose", 0, false},   {NXR_WIRE_DECIDED, "decided", 0, false},
    {NXR_WIRE_DETACH, "detach", 0, false},     {NXR_WIRE_RENEW, "renew", 0, false},
    {NXR_WIRE_GRANT, "grant", 0, false},       {NXR_WIRE_REFER, "refer", 0, false},
    {NXR_WIRE_REFERRED, "referred", 0, false}, {NXR_WIRE_REFORM, "reform", 0, false},
    {NXR_WIRE_WHY, "why", 0, false},           {NXR_WIRE_BECAUSE, "because", 0, false},
};
_Static_assert(sizeof(types) / sizeof(types[0]) == NXR_WIRE_N_TYPES - 1, "one of each type");

static void fill_referral(union nxr_wire_message *message)
{
    const struct nxr_full_card card = make_card();

    if (message->header.type == NXR_WIRE_REFER) {
        message->refer.job = 9;
        message->refer.number = SIZE;
        message->refer.job_size = 1;
        strcpy(message->refer.name, "name");
        message->refer.card = card;
    } else {
        message->referred.job_size = 1;
        message->referred.number = SIZE;
        strcpy(message->referred.name, "name");
        message->referred.card = card;
    }
}

/* What a message must have to be taken, and what makes it worth changing. */
static void fill(union nxr_wire_message *message)
{
    switch (message->header.type) {
    case NXR_WIRE_HELLO:
    case NXR_WIRE_WELCOME:
        message->hello.card = nxr_card_bare(&(struct nxr_full_card){.head = make_card().head});
        break;
    case NXR_WIRE_RESOLVE:
    case NXR_WIRE_PROBE:
        message->resolve.ask = 5;
        strcpy(message->resolve.name, "kv");
        break;
    case NXR_WIRE_KEY:
        message->key.key =
            (struct nxr_key){.generation = 1, .nbytes = 4096, .addr = 65536, .kind = NIXL_MEM_HOST};
        break;
    case NXR_WIRE_CLOSED:
        message->closed.generation = 1;
        break;
    case NXR_WIRE_BOUNCE:
        message->bounce.nbytes = 1 << 20;
        message->bounce.n_chunks = 8;
        break;
    case NXR_WIRE_DEATH:
        message->death.dead = (struct nxr_identity){.job = self.job, .rank = 1};
        message->death.by = self;
        break;
    case NXR_WIRE_REFER:
    case NXR_WIRE_REFERRED:
        fill_referral(message);
        break;
    case NXR_WIRE_REFORM:
        message->reform.step = NXR_REFORM_JOIN;
        message->reform.size = 2;
        message->reform.member = -1;
        break;
    default:
        break;
    }
}

static void write_message(const char *name, const union nxr_wire_message *message, int n_fds)
{
    union nxr_wire_message parsed;
    const char *why = NULL;

    if (nxr_wire_parse(message, message->header.nbytes, n_fds, SIZE, &parsed, &why) != NIXL_OK) {
        die(name, why);
    }
    write_seed("wire", name, n_fds == NXR_WIRE_REMOTE ? REMOTE : n_fds, message,
               message->header.nbytes);
}

static void write_messages(void)
{
    nxr_job.self = self;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        union nxr_wire_message message;
        char name[32];

        nxr_wire_init(&message, types[i].type);
        fill(&message);
        write_message(types[i].name, &message, types[i].n_fds);
        if (!types[i].is_local) {
            snprintf(name, sizeof(name), "%s_remote", types[i].name);
            write_message(name, &message, NXR_WIRE_REMOTE);
        }
    }
}

/* ---- introductions and entries --------------------------------------------------------------- */

static void write_introduction(const char *name, const union nxr_intro_message *message)
{
    union nxr_intro_message parsed;
    const char *why = NULL;

    if (nxr_intro_parse(message, message->head.nbytes, &parsed, &why) != NIXL_OK) {
        die(name, why);
    }
    write_seed("introduction", name, -1, message, message->head.nbytes);
}

static void write_introductions(void)
{
    const struct nxr_full_card card = make_card();
    const struct nxr_proof_talk talk = {self, self, "name", {3}, {4}};
    union nxr_intro_message message;

    nxr_intro_init(&message, NXR_INTRO_ASK, &card.head);
    strcpy(message.ask.name, "name");
    write_introduction("ask", &message);
    nxr_intro_init(&message, NXR_INTRO_CHALLENGE, &card.head);
    strcpy(message.challenge.host, "host");
    strcpy(message.challenge.boot_id, "boot");
    nxr_proof_of_talk(secret, NXR_PROOF_PUBLISHER, &talk, NULL, 0, message.challenge.proof);
    write_introduction("challenge", &message);
    nxr_intro_init(&message, NXR_INTRO_PROVE, &card.head);
    message.prove.number = message.prove.job_size = 1;
    message.prove.card = card;
    message.prove.schema_nbytes = 6;
    memcpy(message.prove.schema, "schema", 6);
    nxr_intro_make_proof(&message, secret, &talk, message.prove.proof);
    write_introduction("prove", &message);
    nxr_intro_init(&message, NXR_INTRO_TAKEN, &card.head);
    message.taken.number = message.taken.job_size = 1;
    message.taken.card = card;
    nxr_intro_make_proof(&message, secret, &talk, message.taken.proof);
    write_introduction("taken", &message);
    nxr_intro_init(&message, NXR_INTRO_REFUSED, &card.head);
    message.refused.refusal = NXR_INTRO_SCHEMA;
    message.refused.schema_nbytes = 6;
    memcpy(message.refused.schema, "schema", 6);
    write_introduction("refused", &message);
}

static void write_entries(void)
{
    const struct nxr_full_card card = make_card();
    static const unsigned char socket[NXR_NONCE_NBYTES] = {9};
    struct nxr_entry entry, parsed;
    const char *why = NULL;

    nxr_entry_make(&card.head, "name", "schema", socket, &entry);
    entry.pid = 4711;
    entry.n_contacts = 2;
    strcpy(entry.contacts[0], "tcp://10.0.0.1:7300");
    strcpy(entry.contacts[1], "tcp://[fd00::1]:7300");
    nxr_entry_prove(&entry, secret);
    if (nxr_entry_parse(&entry, sizeof(entry), "name", &parsed, &why) != NIXL_OK) {
        die("entry", why);
    }
    write_seed("entry", "entry", -1, &entry, sizeof(entry));
}

/* ---- what UCX's module sends ----------------------------------------------------------------- */

static void write_envelope(const char *name, struct nxr_ucx_envelope envelope, size_t nbytes)
{
    unsigned char contents[64], bytes[128];
    struct nxr_ucx_envelope parsed;
    const void *found;
    char why[80] = "";

    count_up(contents, sizeof(contents));
    envelope.ucx_major = 1;
    envelope.ucx_minor = 13;
    nbytes = nxr_ucx_wrap(&envelope, contents, nbytes, bytes, sizeof(bytes));
    if (nxr_ucx_unwrap(envelope.magic, bytes, nbytes, &parsed, &found, why, sizeof(why)) !=
        NIXL_OK) {
        die(name, why);
    }
    write_seed("ucx", name, -1, bytes, nbytes);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: make_seeds DIR\n", stderr);
        return 2;
    }
    seeds = argv[1];
    write_cards();
    write_messages();
    write_introductions();
    write_entries();
    write_envelope(
        "address",
        (struct nxr_ucx_envelope){.magic = NXR_UCX_ADDRESS_MAGIC, .kinds = 1, .id = 0x1234567}, 40);
    write_envelope("key", (struct nxr_ucx_envelope){.magic = NXR_UCX_KEY_MAGIC, .base = 0x7f0000},
                   16);
    return 0;
}
