/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and keys of this rank's regions: a search tree by name, and ids from a free list. Lock:
 * job.lock.
 */
#include "config.h"

#include "region/extents.h"
#include "region/publish.h"
#include "control/dispatch.h"
#include "memory/memory.h"
#include "core/carrier.h"
#include "core/route.h"
#include "nixlrun.h"
#include "region/region.h"
#include "util/debug.h"
#include "util/log.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A question that waits for its name to be published. */
struct parked_ask {
    struct nxr_list conn_link; /* of what is parked on the connection */
    struct nxr_list link;      /* of parked */
    struct nxr_peer *peer;
    struct nxr_conn *conn; /* NULL: it arrived over a network */
    uint64_t ask;
    char name[NIXL_NAME_MAX + 1];
};

static void *tree; /* struct nxr_published by name */
static struct nxr_list publish_parked = {&publish_parked, &publish_parked};
static struct nxr_own_memory own[NXR_N_REGION_IDS]; /* set before the generation, read after it */
static uint32_t free_ids[NXR_N_REGION_IDS];         /* ids that were given back, a stack */
static uint32_t n_free_ids;
static uint32_t n_used_ids; /* ids from here on were never used */
static uint64_t last_generation;
static const char *publish_ended; /* a name of the library's own that is not awaited any more */

/* What makes regions whose names begin, in any context, with the prefix when they are asked for. */
static struct {
    const char *prefix;
    nxr_publish_maker *make;
} publish_makers[NXR_PUBLISH_MAKERS];

void nxr_publish_make_by(const char *prefix, nxr_publish_maker *maker)
{
    size_t i = 0;

    while (publish_makers[i].prefix != NULL && strcmp(publish_makers[i].prefix, prefix) != 0) {
        i++;
        NXR_ASSERT(i < NXR_PUBLISH_MAKERS);
    }
    publish_makers[i].prefix = prefix;
    publish_makers[i].make = maker;
}

/* Make a region for this question. *published_p left as it is: none, or not yet. */
static int publish_make(const struct nxr_peer *peer, const char *name,
                        struct nxr_published **published_p)
{
    for (size_t i = 0; i < NXR_PUBLISH_MAKERS && publish_makers[i].prefix != NULL; i++) {
        if (strncmp(nxr_region_label(name), publish_makers[i].prefix,
                    strlen(publish_makers[i].prefix)) == 0) {
            return publish_makers[i].make(peer, name, published_p);
        }
    }
    return NIXL_OK;
}

/*
 * Can no region of that name be published any more? Once the last nixl_finalize() has begun, the
 * program publishes nothing; the library still does.
 */
static bool publish_is_over(const char *name)
{
    if (name[0] == NXR_REGION_INTERNAL || name[0] == NXR_WINDOW_NAME) {
        return publish_ended != NULL && strcmp(name, publish_ended) == 0;
    }
    return atomic_load(&nxr_job.state) == NXR_STATE_LEAVING;
}

/* Answer that there is none, and why. */
static void publish_refuse(struct nxr_peer *peer, const struct nxr_conn *conn, uint64_t ask,
                           enum nxr_wire_found why)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_PROBED);
    message.probed.ask = ask;
    message.probed.found = why;
    (conn != NULL ? nxr_carrier_first() : peer->carrier)->send(peer, &message);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct nxr_published *)a)->name, ((const struct nxr_published *)b)->name);
}

static struct nxr_published *new_published(const char *name)
{
    struct nxr_published *published = calloc(1, sizeof(*published) + strlen(name) + 1);

    if (published != NULL) {
        memcpy(published->name, name, strlen(name) + 1);
        published->fd = -1;
    }
    return published;
}

/* For tfind(), which compares its key with nodes: a name, so that a look-up needs no memory. */
static int compare_name(const void *name, const void *published)
{
    return strcmp(name, ((const struct nxr_published *)published)->name);
}

struct nxr_published *nxr_publish_find(const char *name)
{
    struct nxr_published **found = tfind(name, &tree, compare_name);

    return found != NULL ? *found : NULL;
}

/* That peer has the key: it must hear when the region is closed. */
static void note_opener(struct nxr_published *published, int rank)
{
    if (rank >= published->n_openers) {
        int n_openers = (int)nxr_n_numbers() + 7;
        unsigned char *openers = realloc(published->openers, (size_t)n_openers / 8);

        if (openers == NULL) {
            published->has_any_opener = true;
            return;
        }
        n_openers -= n_openers % 8;
        memset(openers + published->n_openers / 8, 0,
               (size_t)(n_openers - published->n_openers) / 8);
        published->openers = openers;
        published->n_openers = n_openers;
    }
    published->openers[rank / 8] |= (unsigned char)(1u << (rank % 8));
}

static void send_key(struct nxr_peer *peer, struct nxr_conn *conn, uint64_t ask,
                     struct nxr_published *published)
{
    union nxr_wire_message message;

    note_opener(published, peer->rank);
    nxr_wire_init(&message, NXR_WIRE_KEY);
    message.key.ask = ask;
    message.key.key = published->key;
    (conn != NULL ? nxr_carrier_first() : peer->carrier)->send_key(peer, conn, &message, published);
}

static struct parked_ask take_parked(struct parked_ask *waiting)
{
    struct parked_ask taken = *waiting;

    nxr_list_remove(&waiting->link);
    nxr_list_remove(&waiting->conn_link);
    free(waiting);
    return taken;
}

static void answer_parked(struct nxr_published *published)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &publish_parked) {
        struct parked_ask *waiting = nxr_list_entry(link, struct parked_ask, link);

        if (strcmp(waiting->name, published->name) == 0) {
            const struct parked_ask ask = take_parked(waiting);

            send_key(ask.peer, ask.conn, ask.ask, published);
            /* Sending may have closed a connection and unparked others: begin again. */
            after = publish_parked.next;
        }
    }
}

void nxr_publish_leave(void)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &publish_parked) {
        struct parked_ask *waiting = nxr_list_entry(link, struct parked_ask, link);

        if (publish_is_over(waiting->name)) {
            const struct parked_ask ask = take_parked(waiting);

            publish_refuse(ask.peer, ask.conn, ask.ask, NXR_FOUND_NEVER);
            after = publish_parked.next; /* see answer_parked() */
        }
    }
}

void nxr_publish_end(const char *name)
{
    publish_ended = name;
    nxr_publish_leave();
}

/* Does the library itself make regions of that name? The last are those of channels. */
static bool is_own_name(const char *name)
{
    return name[0] == NXR_REGION_INTERNAL || name[0] == NXR_WINDOW_NAME ||
           strncmp(nxr_region_label(name), "nixl.channel/", strlen("nixl.channel/")) == 0;
}

static struct nxr_key key_of(const char *name, const struct nxr_memory *memory)
{
    return (struct nxr_key){
        .generation = ++last_generation,
        .nbytes = memory->nbytes,
        .addr = (uintptr_t)memory->addr,
        .id = n_free_ids > 0 ? free_ids[--n_free_ids] : n_used_ids++,
        .kind = (uint8_t)memory->kind->kind,
        .flags = (uint8_t)memory->flags,
        .marks = (memory->is_registered ? NXR_KEY_REGISTERED : 0) |
                 (is_own_name(name) ? NXR_KEY_OWN : 0) |
                 (memory->kind->is_storage ? nxr_storage_marks(memory->device) : 0),
        .access = (uint8_t)memory->access,
    };
}

/* Make it known by its name. NIXL_OK, NIXL_E_NAME_IN_USE, NIXL_E_NO_MEMORY. */
static int enter_name(struct nxr_published *published)
{
    struct nxr_published **node = tsearch(published, &tree, compare_names);

    return node == NULL ? NIXL_E_NO_MEMORY : *node == published ? NIXL_OK : NIXL_E_NAME_IN_USE;
}

/* Take an id and, unless the name is "", the name. Nobody sees it before publish_show(). */
static int publish_begin(const char *name, struct nxr_published **published_p)
{
    struct nxr_published *published;
    int status;

    if (n_free_ids == 0 && n_used_ids == NXR_N_REGION_IDS) {
        return NIXL_E_LIMIT;
    }
    published = new_published(name);
    if (published == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    status = name[0] != '\0' ? enter_name(published) : NIXL_OK;
    if (status != NIXL_OK) {
        free(published);
        return status;
    }
    *published_p = published;
    return NIXL_OK;
}

/* From now on the key opens the memory. */
static void publish_open(struct nxr_published *published, struct nxr_own_memory memory)
{
    own[published->key.id] = memory;
    atomic_store_explicit(&nxr_job.control->generations[published->key.id],
                          published->key.generation, memory_order_release);
}

static void publish_open_memory(struct nxr_published *published, const struct nxr_memory *memory)
{
    published->key = key_of(published->name, memory);
    published->export = memory->export;
    published->fd = memory->fd;
    publish_open(published, (struct nxr_own_memory){memory->addr, memory->nbytes, memory->range,
                                                    memory->access});
}

/* Its memory is for this rank alone: the networks prepare for that. */
static void publish_locally(struct nxr_published *published)
{
    if (nxr_carrier_far()->own_local != NULL) {
        nxr_carrier_far()->own_local(published);
    }
}

bool nxr_publish_is_awaited(void)
{
    return !nxr_list_is_empty(&publish_parked) ||
           !nxr_list_is_empty(nxr_region_asks(nxr_job.peers[nxr_job.rank]));
}

/* Answer those who have asked for the name. */
static void publish_show(struct nxr_published *published)
{
    answer_parked(published);
    nxr_region_published(published);
}

int nxr_publish(const char *name, const struct nxr_memory *memory,
                struct nxr_published **published_p)
{
    int status = publish_begin(name, published_p);

    if (status != NIXL_OK) {
        return status;
    }
    publish_open_memory(*published_p, memory);
    if (name[0] != '\0') {
        publish_show(*published_p);
    } else {
        publish_locally(*published_p);
    }
    return NIXL_OK;
}

/* ---- regions of extents ---------------------------------------------------------------------- */

/* Take back the first n extents; their memory stays the caller's. */
static void withdraw_extents(struct nxr_extents *extents, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct nxr_published *part = extents->list[i].published;

        nxr_publish_revoke(part);
        part->fd = -1;
        nxr_publish_free(part);
        extents->list[i].published = NULL;
    }
}

/* The key of the whole names no memory: nothing can be reached by its id. */
static void publish_open_whole(struct nxr_published *whole, const struct nxr_extents *extents,
                               uint32_t access)
{
    const struct nxr_memory none = {.kind = &nxr_memory_host,
                                    .addr = (void *)(uintptr_t)extents->n,
                                    .nbytes = extents->nbytes,
                                    .access = access,
                                    .is_registered = true};

    whole->key = key_of(whole->name, &none);
    whole->key.marks |= NXR_KEY_EXTENTS;
    whole->extents = extents;
    publish_open(whole, (struct nxr_own_memory){.access = NXR_ACCESS_ALL});
}

int nxr_publish_extents(const char *name, struct nxr_extents *extents, uint32_t access,
                        struct nxr_published **published_p)
{
    bool is_named = name[0] != '\0';
    int status = publish_begin(name, published_p);
    uint32_t n = 0;

    if (status != NIXL_OK) {
        return status;
    }
    publish_open_whole(*published_p, extents, access);
    for (; n < extents->n && status == NIXL_OK; n++) {
        status = publish_begin("", &extents->list[n].published);
        if (status != NIXL_OK) {
            break;
        }
        extents->list[n].published->whole = *published_p;
        publish_open_memory(extents->list[n].published, &extents->list[n].memory);
        if (!is_named) {
            publish_locally(extents->list[n].published);
        }
    }
    if (status != NIXL_OK) {
        withdraw_extents(extents, n);
        (*published_p)->extents = NULL;
        nxr_publish_revoke(*published_p);
        nxr_publish_free(*published_p);
        return status;
    }
    if (is_named) {
        publish_show(*published_p);
    }
    return NIXL_OK;
}

struct nxr_published *nxr_publish_extent(const struct nxr_published *whole, uint64_t generation,
                                         uint32_t extent)
{
    return whole->key.generation == generation && whole->extents != NULL &&
                   extent < whole->extents->n
               ? whole->extents->list[extent].published
               : NULL;
}

struct nxr_own_memory nxr_publish_memory(uint32_t id)
{
    return own[id];
}

static bool may_be_opener(const struct nxr_published *published, int rank)
{
    return published->has_any_opener || (rank < published->n_openers &&
                                         (published->openers[rank / 8] & (1u << (rank % 8))) != 0);
}

static void tell_openers(const struct nxr_published *published)
{
    int n_asked = published->has_any_opener ? (int)nxr_n_numbers() : published->n_openers;
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_CLOSED);
    message.closed.generation = published->key.generation;
    message.closed.id = published->key.id;
    for (int rank = 0; rank < n_asked; rank++) {
        struct nxr_peer *peer = nxr_is_rank(rank) ? nxr_job.peers[rank] : NULL;

        if (peer != NULL && may_be_opener(published, rank)) {
            if (peer->carrier->revoking != NULL) {
                peer->carrier->revoking(peer, published);
            }
            nxr_peer_tell(peer, &message);
        }
    }
}

void nxr_publish_revoke(struct nxr_published *published)
{
    atomic_store_explicit(&nxr_job.control->generations[published->key.id], 0,
                          memory_order_seq_cst);
    if (published->name[0] != '\0') {
        tdelete(published, &tree, compare_names);
    }
    if (!nxr_job.is_leaving) {
        tell_openers(published);
    }
    for (uint32_t i = 0; published->extents != NULL && i < published->extents->n; i++) {
        nxr_publish_revoke(published->extents->list[i].published);
    }
}

void nxr_publish_free(struct nxr_published *published)
{
    for (uint32_t i = 0; published->extents != NULL && i < published->extents->n; i++) {
        nxr_publish_free(published->extents->list[i].published);
    }
    nxr_carrier_far()->forget(published);
    free_ids[n_free_ids++] = published->key.id;
    if (published->fd >= 0) {
        close(published->fd);
    }
    free(published->openers);
    free(published);
}

/* Keep the question until the name is published. */
static int publish_park(const struct nxr_control_source *source, uint64_t ask, const char *name)
{
    struct parked_ask *waiting = calloc(1, sizeof(*waiting));

    if (waiting == NULL) {
        nxr_warn(HOST, "no memory to queue the request of %s for '%s'", nxr_peer_name(source->peer),
                 name);
        return NIXL_E_NO_MEMORY;
    }
    waiting->peer = source->peer;
    waiting->conn = source->conn;
    waiting->ask = ask;
    memcpy(waiting->name, name, strlen(name) + 1);
    nxr_list_append(&publish_parked, &waiting->link);
    nxr_list_init(&waiting->conn_link);
    if (source->conn != NULL) {
        nxr_list_append(source->parked, &waiting->conn_link);
    }
    return NIXL_OK;
}

void nxr_publish_ask(const struct nxr_control_source *source, uint64_t ask, const char *name)
{
    struct nxr_published *published = nxr_publish_find(name);
    int status = published == NULL ? publish_make(source->peer, name, &published) : NIXL_OK;

    if (published != NULL) {
        send_key(source->peer, source->conn, ask, published);
        return;
    }
    if (status == NIXL_OK && publish_is_over(name)) {
        publish_refuse(source->peer, source->conn, ask, NXR_FOUND_NEVER);
        return;
    }
    if (status == NIXL_OK) {
        status = publish_park(source, ask, name);
    }
    if (status != NIXL_OK) {
        publish_refuse(source->peer, source->conn, ask, NXR_FOUND_NO_MEMORY);
    }
}

/*
 * A peer asks for an extent of a region that it has the key of. If the region was closed meanwhile,
 * the peer has been told, and forgets its question.
 */
static void publish_ask_extent(const struct nxr_control_source *source,
                               const struct nxr_wire_resolve *resolve)
{
    const struct nxr_published *whole = nxr_publish_find(resolve->name);
    struct nxr_published *part =
        whole != NULL ? nxr_publish_extent(whole, resolve->generation, resolve->extent) : NULL;

    if (part != NULL) {
        send_key(source->peer, source->conn, resolve->ask, part);
    }
}

static void publish_take_resolve(const struct nxr_control_source *source,
                                 const union nxr_wire_message *message)
{
    const struct nxr_wire_resolve *resolve = &message->resolve;

    if (resolve->generation == 0) {
        nxr_publish_ask(source, resolve->ask, resolve->name);
    } else {
        publish_ask_extent(source, resolve);
    }
}

/* A peer asks whether there is a region of that name now. Answer at once. */
static void publish_take_probe(const struct nxr_control_source *source,
                               const union nxr_wire_message *question)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_PROBED);
    message.probed.ask = question->resolve.ask;
    message.probed.found =
        nxr_publish_find(question->resolve.name) != NULL ? NXR_FOUND : NXR_FOUND_NEVER;
    nxr_peer_tell(source->peer, &message);
}

void nxr_publish_register(void)
{
    nxr_control_register(NXR_WIRE_RESOLVE, publish_take_resolve);
    nxr_control_register(NXR_WIRE_PROBE, publish_take_probe);
}

void nxr_publish_unpark(struct nxr_list *parked)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(parked)) != NULL) {
        struct parked_ask *waiting = nxr_list_entry(link, struct parked_ask, conn_link);

        nxr_list_remove(&waiting->link);
        free(waiting);
    }
}

void nxr_publish_unpark_remote(const struct nxr_peer *peer)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &publish_parked) {
        struct parked_ask *waiting = nxr_list_entry(link, struct parked_ask, link);

        if (waiting->peer == peer && waiting->conn == NULL) {
            nxr_list_remove(&waiting->link);
            free(waiting);
        }
    }
}

void nxr_publish_reset(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&publish_parked)) != NULL) { /* of peers that are freed */
        free(nxr_list_entry(link, struct parked_ask, link));
    }
    n_free_ids = 0;
    n_used_ids = 0;
    publish_ended = NULL;
}
