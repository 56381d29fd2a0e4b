/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no rank of the job would send to another host: each check of a message, a record, bulk or a
 * window refuses just that, and the job goes on.
 */
#include "net_case.h"

#include "core/request.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { N_BYTES = 8192 };

static _Alignas(8) unsigned char message[N_BYTES];

/* ---- heads ----------------------------------------------------------------------------------- */

static struct nxr_net_head good_head(void)
{
    return (struct nxr_net_head){.magic = NXR_NET_MAGIC, .version = NXR_NET_VERSION, .token = 77};
}

static const char *check(struct nxr_net_head head, size_t nbytes)
{
    return nxr_net_check_head(&head, nbytes, 77, &(struct nxr_net_head){0});
}

Test(hostile, heads)
{
    struct nxr_net_head head = good_head();

    cr_expect(zero(ptr, (void *)check(head, sizeof(head))));
    cr_expect(not(zero(ptr, (void *)check(head, sizeof(head) - 1))), "too short");
    head.magic++;
    cr_expect(not(zero(ptr, (void *)check(head, sizeof(head)))), "magic");
    head = good_head();
    head.version++;
    cr_expect(not(zero(ptr, (void *)check(head, sizeof(head)))), "version");
    head = good_head();
    head.token++;
    cr_expect(not(zero(ptr, (void *)check(head, sizeof(head)))), "token");
}

/* ---- senders --------------------------------------------------------------------------------- */

static const struct nxr_identity rank_1 = {FAKE_JOB, 1, FAKE_INCARNATION};
static char last_line[512];

static void keep_line(enum nixl_log_level level, const char *subsystem, const char *text, void *arg)
{
    (void)level;
    (void)subsystem;
    (void)arg;
    snprintf(last_line, sizeof(last_line), "%s", text);
}

/* A notification of that process, to which the token is known, is dropped with this reason. */
static void is_no_sender(struct nxr_identity sender, const char *why)
{
    uint64_t n_before = nxr_net.n_dropped;

    last_line[0] = '\0';
    fake.sender = &sender;
    receive_note(sender.rank, 5);
    fake_round();
    fake.sender = NULL;
    cr_expect(eq(u64, nxr_net.n_dropped, n_before + 1), "%s", why);
    cr_expect(zero(u64, next_tag()), "%s", why);
    cr_expect(strstr(last_line, why) != NULL, "'%s' does not say '%s'", last_line, why);
}

static struct nxr_identity changed(uint64_t job, int rank, uint32_t incarnation)
{
    return (struct nxr_identity){FAKE_JOB + job, rank, FAKE_INCARNATION + incarnation};
}

Test(hostile, messages_of_another_process, .init = start, .fini = stop)
{
    nixl_log_set_fn(keep_line, NULL);
    is_no_sender(changed(1, 1, 0), "another job");
    is_no_sender(changed(1, 2, 0), "another job");
    is_no_sender(changed(0, 1, UINT32_MAX), "an earlier process of that rank");
    is_no_sender(changed(0, 1, 1), "started later as that rank");
    is_no_sender(changed(0, -1, 0), "not in the job");
    is_no_sender(changed(0, FAKE_SIZE, 0), "not in the job");
    is_no_sender(changed(0, INT32_MAX, 0), "not in the job");
    receive_note(1, 6);
    fake_round();
    cr_expect(eq(u64, next_tag(), 6), "of the process itself");
}

/* A greeting of rank 2 by that process, with a card of that identity. Is it connected? */
static bool is_greeter(struct nxr_identity sender, struct nxr_identity of_card)
{
    struct nxr_full_card card = *fake_card(2);

    card.head.identity = of_card;
    fake.sender = &sender;
    fake_coming(2, NXR_NET_HELLO, &card, card.head.nbytes, NULL, 0);
    fake_round();
    fake.sender = NULL;
    return net_peer_of(2) != NULL;
}

Test(hostile, greetings_of_another_process, .init = start, .fini = stop)
{
    cr_expect(not(is_greeter(changed(1, 2, 0), changed(1, 2, 0))), "another job");
    cr_expect(not(is_greeter(changed(0, 2, 0), changed(0, 1, 0))), "the card of another rank");
    cr_expect(not(is_greeter(changed(0, 2, 0), changed(0, 2, 1))), "the card of a later process");
    cr_expect(not(is_greeter(changed(0, 2, 1), changed(0, 2, 0))), "the card of an earlier one");
    cr_expect(eq(u64, nxr_net.n_dropped, 4));
    cr_expect(is_greeter(changed(0, 2, 0), changed(0, 2, 0)));
}

/* A control message that rank 1 sends, and that says that it is of `from`. */
static void receive_death(struct nxr_identity from, struct nxr_identity dead)
{
    union nxr_wire_message control;

    nxr_wire_init(&control, NXR_WIRE_DEATH);
    control.header.from = from;
    control.death.dead = control.death.by = dead;
    fake_receive(1, NXR_NET_CONTROL, &control, control.header.nbytes, NULL, 0);
}

Test(hostile, deaths_of_another_process, .init = start, .fini = stop)
{
    fake_link(2);
    receive_death(rank_1, changed(1, 2, 0));
    receive_death(rank_1, changed(0, 2, UINT32_MAX));
    cr_expect(zero(u64, nxr_net.n_dropped));
    receive_death(changed(1, 1, 0), changed(0, 2, 0));
    receive_death(changed(0, 1, 1), changed(0, 2, 0));
    receive_death(changed(0, 2, 0), changed(0, 2, 0));
    cr_expect(eq(u64, nxr_net.n_dropped, 3));
    cr_expect(eq(int, nixl_peer_state(2), NIXL_PEER_ALIVE));
    receive_death(rank_1, changed(0, 2, 0));
    cr_expect(eq(int, nixl_peer_state(2), NIXL_PEER_LOST));
}

Test(hostile, a_later_process_of_a_lost_rank, .init = start, .fini = stop)
{
    const struct nxr_identity later = changed(0, 2, 1);
    struct nixl_peer_info info = NIXL_PEER_INFO_INIT;

    fake_link(2);
    receive_death(rank_1, changed(0, 2, 0));
    is_greeter(later, later);
    fake.sender = &later;
    receive_note(2, 7);
    fake_round();
    fake.sender = NULL;
    cr_expect(zero(u64, next_tag()));
    cr_expect(net_peer_of(2)->is_dead);
    cr_assert(eq(int, nixl_peer_query(2, &info), NIXL_OK));
    cr_expect(eq(int, info.state, NIXL_PEER_LOST));
    cr_expect(eq(u32, info.incarnation, FAKE_INCARNATION));
    cr_expect(eq(u64, info.job, FAKE_JOB));
}

/* ---- records --------------------------------------------------------------------------------- */

/* One record alone in a message that is `left` bytes long. Is it taken? */
static bool is_taken(unsigned type, size_t nbytes, size_t left)
{
    struct nxr_net_record record = {.type = (uint16_t)type, .nbytes = (uint32_t)nbytes};
    const struct nxr_net_record *found;
    const char *why;
    size_t at = 0;

    memcpy(message, &record, sizeof(record));
    found = nxr_net_next_record(message, left, &at, &why);
    cr_expect(eq(int, found == NULL, why != NULL), "type %u", type);
    cr_expect(eq(sz, at, found != NULL ? sizeof(record) + nxr_net_padded(nbytes) : 0), "type %u",
              type);
    return found != NULL;
}

static bool is_whole_taken(unsigned type, size_t nbytes)
{
    return is_taken(type, nbytes, sizeof(struct nxr_net_record) + nxr_net_padded(nbytes));
}

static void clear(void)
{
    memset(message, 0, sizeof(message));
}

Test(hostile, records_that_do_not_fit, .init = clear)
{
    cr_expect(is_whole_taken(NXR_NET_PING, 8));
    for (size_t left = 1; left < 16; left++) {
        cr_expect(not(is_taken(NXR_NET_PING, 8, left)), "%zu bytes are left", left);
    }
    cr_expect(not(is_taken(0, 0, 8)), "type 0");
    cr_expect(not(is_taken(NXR_NET_N_TYPES, 0, 8)), "a type too many");
    cr_expect(not(is_taken(UINT16_MAX, 0, 8)));
    cr_expect(not(is_taken(NXR_NET_NOTE, UINT32_MAX, 64)), "longer than the message");
    cr_expect(not(is_taken(NXR_NET_NOTE, 25, 8 + 25)), "its padding is missing");
    cr_expect(is_taken(NXR_NET_NOTE, 25, 8 + 32));
}

/* Of each type: one byte less than its fixed fields, and one more than all of it. */
Test(hostile, records_of_another_length, .init = clear)
{
    static const struct {
        unsigned type;
        size_t fixed, most;
    } shapes[] = {
        {NXR_NET_CLOSED_ACK, sizeof(struct nxr_net_region), sizeof(struct nxr_net_region)},
        {NXR_NET_PUT, sizeof(struct nxr_net_put), 0},
        {NXR_NET_BULK_PUT, sizeof(struct nxr_net_put), sizeof(struct nxr_net_put)},
        {NXR_NET_GET, sizeof(struct nxr_net_get), sizeof(struct nxr_net_get)},
        {NXR_NET_GOT, sizeof(struct nxr_net_got), 0},
        {NXR_NET_BULK_GOT, sizeof(struct nxr_net_got), sizeof(struct nxr_net_got)},
        {NXR_NET_NOTE, sizeof(struct nxr_net_note), sizeof(struct nxr_net_note) + NIXL_NOTE_MAX},
        {NXR_NET_CREDIT, 8, 8},
        {NXR_NET_FLUSH, 8, 8},
        {NXR_NET_FLUSHED, 8, 8},
        {NXR_NET_HEARD, 8, 8},
        {NXR_NET_PING, 8, 8},
        {NXR_NET_PONG, 8, 8},
        {NXR_NET_BYE, 0, 0},
        {NXR_NET_STAGE, sizeof(struct nxr_net_stage), sizeof(struct nxr_net_stage)},
        {NXR_NET_STAGED, sizeof(struct nxr_net_staged), sizeof(struct nxr_net_staged)},
        {NXR_NET_HELLO, 0, sizeof(struct nxr_full_card)},
        {NXR_NET_CONTROL, sizeof(struct nxr_wire_header),
         sizeof(struct nxr_wire_header) + sizeof(union nxr_wire_message)},
    };

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        unsigned type = shapes[i].type;

        cr_expect(is_whole_taken(type, shapes[i].fixed), "type %u", type);
        cr_expect(shapes[i].fixed == 0 || !is_whole_taken(type, shapes[i].fixed - 1), "type %u",
                  type);
        if (shapes[i].most > 0 || type == NXR_NET_BYE) {
            cr_expect(is_whole_taken(type, shapes[i].most), "type %u", type);
            cr_expect(not(is_whole_taken(type, shapes[i].most + 1)), "type %u", type);
        }
    }
}

/* A record of that body, alone. */
static bool is_body_taken(unsigned type, const void *body, size_t nbytes)
{
    clear();
    memcpy(message + sizeof(struct nxr_net_record), body, nbytes);
    return is_whole_taken(type, nbytes);
}

Test(hostile, values_that_cannot_be)
{
    struct nxr_net_atomic word = {
        .what = {.generation = 1, .atomic = {.type = NIXL_TYPE_DOUBLE, .op = NIXL_ATOMIC_ADD}}};
    struct nxr_net_got got = {.status = NIXL_E_STALE};
    struct nxr_net_staged staged = {.status = NIXL_OK};
    struct nxr_net_refused refused = {.status = NIXL_E_STALE};

    cr_expect(is_body_taken(NXR_NET_ATOMIC, &word, sizeof(word)));
    word.what.atomic.op = UINT8_MAX;
    cr_expect(not(is_body_taken(NXR_NET_ATOMIC, &word, sizeof(word))), "no such operation");
    for (unsigned type = NXR_NET_GOT; type <= NXR_NET_BULK_GOT; type++) {
        got.status = NIXL_E_STALE;
        cr_expect(is_body_taken(type, &got, sizeof(got)));
        got.status = NIXL_INPROGRESS;
        cr_expect(not(is_body_taken(type, &got, sizeof(got))), "type %u", type);
    }
    cr_expect(is_body_taken(NXR_NET_STAGED, &staged, sizeof(staged)));
    staged.status = NIXL_INPROGRESS;
    cr_expect(not(is_body_taken(NXR_NET_STAGED, &staged, sizeof(staged))));
    cr_expect(is_body_taken(NXR_NET_REFUSED, &refused, sizeof(refused)));
    refused.status = NIXL_OK;
    cr_expect(not(is_body_taken(NXR_NET_REFUSED, &refused, sizeof(refused))), "no refusal");
}

/* ---- control messages ------------------------------------------------------------------------ */

/* Is the message dropped? test/unit/wire.c holds the checker itself against each field. */
static bool is_dropped(const union nxr_wire_message *sent)
{
    uint64_t before = nxr_net.n_dropped;

    fake_control_coming(1, sent);
    fake_round();
    return nxr_net.n_dropped == before + 1;
}

static union nxr_wire_message control(enum nxr_wire_type type)
{
    union nxr_wire_message made;

    nxr_wire_init(&made, type);
    made.header.from.rank = 1;
    return made;
}

Test(hostile, control_messages_go_through_the_one_checker, .init = start, .fini = stop)
{
    union nxr_wire_message key = control(NXR_WIRE_KEY), closed = control(NXR_WIRE_CLOSED), other;

    key.key.key = (struct nxr_key){.generation = 1, .nbytes = 64, .kind = NIXL_MEM_HOST};
    closed.closed.generation = 1;
    cr_expect(not(is_dropped(&key)), "nothing waits for it");
    cr_expect(not(is_dropped(&closed)), "it is not open");
    other = key, other.key.key.generation = 0;
    cr_expect(is_dropped(&other));
    other = key, other.key.remote.takes_bulk = 2;
    cr_expect(is_dropped(&other));
    other = key, memset(other.key.remote.network, 'x', sizeof(other.key.remote.network));
    cr_expect(is_dropped(&other));
    other = key, other.key.export.type = NXR_EXPORT_CUDA_LEGACY;
    cr_expect(is_dropped(&other), "of memory that only ranks of its host can open");
    other = closed, other.closed.id = NXR_N_REGION_IDS;
    cr_expect(is_dropped(&other));
    other = closed, other.closed.generation = 0;
    cr_expect(is_dropped(&other));
    other = closed, other.header.from.rank = 2;
    cr_expect(is_dropped(&other), "in another rank's name");
    other = control(NXR_WIRE_WORK);
    cr_expect(is_dropped(&other), "which only ranks of one host send");
    other = closed, other.header.nbytes -= 8;
    cr_expect(is_dropped(&other), "cut off");
}

/* ---- bulk ------------------------------------------------------------------------------------ */

static void *bulk_put(int rank)
{
    const struct nxr_net_put put = own_put(8);

    return fake_bulk(rank, NXR_NET_BULK_PUT, &put, sizeof(put), 8);
}

Test(hostile, bulk_of_who_has_not_greeted_or_is_another, .init = start, .fini = stop)
{
    cr_expect(zero(ptr, bulk_put(2)), "not linked");
    cr_expect(eq(u64, nxr_net.n_dropped, 1));
    np->identity.incarnation++;
    cr_expect(zero(ptr, bulk_put(1)), "an earlier process of the rank");
    cr_expect(eq(u64, nxr_net.n_dropped, 2));
    np->identity.incarnation--;
    cr_expect(eq(ptr, bulk_put(1), fake_job.own));
    fake_land(0, NIXL_OK);
    fake_lose(1);
    cr_expect(zero(ptr, bulk_put(1)), "dead");
    cr_expect(eq(u64, nxr_net.n_dropped, 3));
}

/* ---- accesses that a region forbids ---------------------------------------------------------- */

static struct nxr_published *publish_with(uint32_t access, uint64_t *word)
{
    const struct nxr_memory memory = {.kind = &nxr_memory_host,
                                      .addr = word,
                                      .nbytes = sizeof(*word),
                                      .fd = -1,
                                      .is_registered = true,
                                      .access = access};
    struct nxr_published *published;

    pthread_mutex_lock(&nxr_job.lock);
    cr_assert(zero(int, nxr_publish("restricted", &memory, &published)));
    pthread_mutex_unlock(&nxr_job.lock);
    return published;
}

static void unpublish(struct nxr_published *published)
{
    pthread_mutex_lock(&nxr_job.lock);
    nxr_publish_revoke(published);
    nxr_publish_free(published);
    pthread_mutex_unlock(&nxr_job.lock);
}

/* Has the answer to what came just now that status? NIXL_OK: a put is not answered. */
static void expect_put(const struct nxr_key *key, int status)
{
    const struct nxr_net_put put = {.generation = key->generation, .id = key->id};
    const struct nxr_net_put bulk = {.generation = key->generation, .id = key->id, .nbytes = 8};
    const uint64_t value = 42;
    void *place;

    fake_forget_sent();
    fake_receive(1, NXR_NET_PUT, &put, sizeof(put), &value, sizeof(value));
    place = fake_bulk(1, NXR_NET_BULK_PUT, &bulk, sizeof(bulk), 8);
    cr_expect(eq(int, place == NULL, status != NIXL_OK));
    if (place != NULL) {
        fake_land(0, NIXL_OK);
    }
    cr_expect(eq(u32, fake_n_sent(NXR_NET_REFUSED), status == NIXL_OK ? 0 : 2));
    if (status != NIXL_OK) {
        const struct nxr_net_refused *refused = fake_last(NXR_NET_REFUSED);
        const struct nxr_net_stamp heard = {refused->n_dropped};

        cr_expect(eq(int, refused->status, status));
        fake_receive(1, NXR_NET_HEARD, &heard, sizeof(heard), NULL, 0); /* words change again */
    }
}

static void expect_get(const struct nxr_key *key, int status)
{
    struct nxr_net_get get = {.move = 1, .generation = key->generation, .nbytes = 8, .id = key->id};

    fake_receive(1, NXR_NET_GET, &get, sizeof(get), NULL, 0);
    cr_expect(eq(int, ((const struct nxr_net_got *)fake_last(NXR_NET_GOT))->status, status));
    get.is_bulk = 1;
    fake_forget_sent();
    fake_receive(1, NXR_NET_GET, &get, sizeof(get), NULL, 0);
    cr_expect(eq(u32, fake_n_sent(NXR_NET_BULK_GOT), status == NIXL_OK));
}

/* The former value that is told. */
static uint64_t expect_word(const struct nxr_key *key, unsigned op, int status)
{
    const struct nxr_net_atomic word = {
        .ask = 1,
        .what = {.generation = key->generation,
                 .id = key->id,
                 .atomic = {.type = NIXL_TYPE_UINT64, .op = (uint8_t)op, .operand = 1}}};
    const struct nxr_net_atomic_done *done;

    fake_receive(1, NXR_NET_ATOMIC, &word, sizeof(word), NULL, 0);
    done = fake_last(NXR_NET_ATOMIC_DONE);
    cr_expect(eq(int, done->what.status, status), "operation %u", op);
    return done->what.fetched;
}

Test(hostile, accesses_that_a_region_forbids, .init = start, .fini = stop)
{
    for (uint32_t access = 0; access <= NXR_ACCESS_ALL; access++) {
        int put = (access & NIXL_ACCESS_NO_PUT) != 0 ? NIXL_E_ACCESS : NIXL_OK;
        int get = (access & NIXL_ACCESS_NO_GET) != 0 ? NIXL_E_ACCESS : NIXL_OK;
        uint64_t word = 7, shown = get == NIXL_OK ? 7 : 0;
        struct nxr_published *published = publish_with(access, &word);

        expect_put(&published->key, put);
        cr_expect(eq(u64, word, put == NIXL_OK ? 42 : 7));
        word = 7;
        expect_get(&published->key, get);
        cr_expect(eq(u64, expect_word(&published->key, NIXL_ATOMIC_FETCH, get), shown));
        cr_expect(eq(u64, expect_word(&published->key, NIXL_ATOMIC_ADD, put),
                     put == NIXL_OK ? shown : 0));
        cr_expect(eq(u64, word, put == NIXL_OK ? 8 : 7));
        unpublish(published);
    }
}

/* A region without a name, by its number, which can be guessed. */
Test(hostile, accesses_to_memory_of_this_rank_alone, .init = start, .fini = stop)
{
    struct nixl_region *region;
    uint64_t word = 7;

    cr_assert(zero(int, nixl_region_register(NULL, &word, sizeof(word), NULL, &region)));
    expect_put(&region->published->key, NIXL_E_ACCESS);
    expect_get(&region->published->key, NIXL_E_ACCESS);
    expect_word(&region->published->key, NIXL_ATOMIC_FETCH, NIXL_E_ACCESS);
    expect_word(&region->published->key, NIXL_ATOMIC_ADD, NIXL_E_ACCESS);
    cr_expect(eq(u64, word, 7));
    pthread_mutex_lock(&nxr_job.lock);
    cr_expect(zero(ptr, nxr_publish_find("")));
    pthread_mutex_unlock(&nxr_job.lock);
    cr_expect(eq(int, nixl_region_close(region, NIXL_FOREVER), NIXL_OK));
}

static void *bulk_got(uint64_t move, size_t nbytes)
{
    const struct nxr_net_got got = {.move = move, .nbytes = nbytes};

    return fake_bulk(1, NXR_NET_BULK_GOT, &got, sizeof(got), nbytes);
}

Test(hostile, answers_that_were_not_asked_for, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nixl_req *req = NULL;
    uint64_t id;

    cr_expect(zero(ptr, bulk_got(np->last_id + 1, 8)), "to no get");
    cr_expect(eq(u64, nxr_net.n_dropped, 1));
    cr_assert(eq(int, get_nb(region, LARGE, &req), NIXL_INPROGRESS));
    id = ((const struct nxr_net_get *)fake_last(NXR_NET_GET))->move;
    cr_expect(zero(ptr, bulk_got(id, LARGE - 1)), "of another length");
    cr_expect(eq(u64, nxr_net.n_dropped, 2));
    cr_expect(eq(ptr, bulk_got(id, LARGE), buffer));
    fake_land(0, NIXL_OK);
    cr_expect(eq(int, nixl_req_wait(&req, 0), NIXL_OK));
    cr_expect(zero(ptr, bulk_got(id, LARGE)), "it has ended");
}

Test(hostile, bulk_for_a_put_of_our_own, .init = start, .fini = stop)
{
    struct nixl_region *region = fake_region(1, false);
    struct nixl_req *req = NULL;

    fake.answer = NIXL_E_AGAIN; /* it waits for room */
    cr_assert(eq(int, put_nb(region, LARGE, &req), NIXL_INPROGRESS));
    cr_expect(zero(ptr, bulk_got(np->last_id, LARGE)));
    cr_expect(eq(u64, nxr_net.n_dropped, 1));
    fake.answer = NIXL_OK;
    fake_round();
    cr_expect(eq(int, nixl_req_wait(&req, 0), NIXL_OK));
}
