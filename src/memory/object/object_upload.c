/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads: what one rank puts into one object. Its bytes are collected here until a part has all of
 * its own; a part that comes as a whole is sent from where it lies. Bytes of two ranks are never
 * mixed in an object, and bytes that come once more begin the object anew: then a rank that was
 * interrupted, and tries again, cannot complete an object of both attempts.
 *
 * The life of an upload: it collects until all parts are sent; then, if it has several, they are
 * joined; then it is over. It fails as a whole, with the first of its requests that fails: what has
 * come is dropped, and the parts that are in the store are removed (ABORT). Lock: set->lock.
 */
#include "config.h"

#include "memory/object/object.h"
#include "memory/object/object_upload.h"
#include "util/clock.h"
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMER_NS (1 * NXR_S)

static void upload_go_on(struct object_upload *upload, struct nxr_object_io **list_p);

/* ---- making and ending ----------------------------------------------------------------------- */

static struct nxr_list *uploads_of(struct nxr_object_set *set, uint64_t object)
{
    return &set->by_object[object % NXR_OBJECT_BUCKETS];
}

/* The upload that still takes bytes of that rank for that object. */
static struct object_upload *upload_find(struct nxr_object_set *set, uint64_t object,
                                         uint64_t origin)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, uploads_of(set, object)) {
        struct object_upload *upload = nxr_list_entry(link, struct object_upload, by_object);

        if (upload->object == object && upload->origin == origin) {
            return upload;
        }
    }
    return NULL;
}

static struct object_upload *upload_new(struct nxr_object_set *set, uint64_t object,
                                        uint64_t origin)
{
    struct object_upload *upload =
        calloc(1, sizeof(*upload) + set->n_parts * sizeof(upload->parts[0]));

    if (upload == NULL) {
        return NULL;
    }
    upload->sent = calloc(set->n_parts, sizeof(upload->sent[0]));
    if (upload->sent == NULL) {
        free(upload);
        return NULL;
    }
    upload->set = set;
    upload->object = object;
    upload->origin = origin;
    upload->number = set->next_number++;
    upload->n_unsent = set->n_parts;
    nxr_object_key(set, object, upload->key);
    for (unsigned i = 0; i < set->n_parts; i++) {
        upload->parts[i].upload = upload;
    }
    nxr_list_append(&set->uploads, &upload->link);
    nxr_list_append(uploads_of(set, object), &upload->by_object);
    return upload;
}

static void part_drop(struct object_part *part, uint64_t nbytes)
{
    if (part->buffer != NULL) {
        free(part->buffer);
        part->buffer = NULL;
        part->upload->set->collected_nbytes -= nbytes;
    }
    nxr_object_spans_free(&part->spans);
}

static void waiter_leave(struct object_copy **waiter_p, int status)
{
    if (*waiter_p != NULL) {
        nxr_object_copy_leave(*waiter_p, status);
        *waiter_p = NULL;
    }
}

/* It takes no more bytes, and SYNCs need not wait for it. */
static void upload_end(struct object_upload *upload, struct nxr_object_io **list_p)
{
    struct nxr_object_set *set = upload->set;

    upload->is_over = true;
    nxr_list_remove(&upload->by_object);
    nxr_list_remove(&upload->link);
    nxr_object_syncs_check(set, list_p);
}

static void upload_free(struct object_upload *upload)
{
    free(upload->sent);
    free(upload);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void upload_submit(struct object_upload *upload, struct nxr_object_io *io,
                          struct nxr_object_io **list_p)
{
    io->store = upload->set->store;
    io->key = upload->key;
    io->upload = upload->name;
    io->is_canceled = io->action != NXR_OBJECT_ABORT ? &upload->is_canceled : NULL;
    io->until = &upload->set->until;
    io->next = *list_p;
    *list_p = io;
    upload->n_ios++;
    upload->set->n_requests++;
}

/* Let those that wait for their turn go on, as many as there is room for. */
static void uploads_admit(struct nxr_object_set *set, struct nxr_object_io **list_p)
{
    struct object_upload *upload;

    while ((upload = nxr_object_upload_admitted(set)) != NULL) {
        upload_go_on(upload, list_p);
    }
}

/* Others of the process wait for the descriptors that an upload has had. Holds no lock. */
static void others_admit(void)
{
    struct nxr_object_io *list = NULL;

    nxr_object_sets_admit(uploads_admit, &list);
    if (list != NULL) {
        nxr_object_engine_now(true)->submit(list);
    }
}

/* Submit what the end of a request has led to, without the lock. */
static void upload_leave(struct nxr_object_set *set, struct nxr_object_io *list)
{
    const struct nxr_object_engine *engine = set->engine; /* the set may be gone below */

    if (--set->n_requests == 0) {
        pthread_cond_broadcast(&set->has_ended);
    }
    pthread_mutex_unlock(&set->lock);
    if (list != NULL) {
        engine->submit(list);
    }
}

/* What those that wait for it are told, once it has failed. */
static int upload_status(const struct object_upload *upload)
{
    return atomic_load(&upload->is_canceled) ? NIXL_E_CANCELED : NIXL_E_STORAGE;
}

/* The first failure. Those that wait for parts which are not under way are told now. */
static void upload_fail(struct object_upload *upload, const char *what, int error, const char *why)
{
    struct nxr_object_set *set = upload->set;

    if (upload->is_failed) {
        return;
    }
    upload->is_failed = true;
    nxr_object_upload_note(upload);
    nxr_object_upload_waits(upload, false);
    if (error != ECANCELED) { /* else another one may have failed, which is the reason */
        nxr_object_fail(set, what, upload->key, error, why);
    }
    nxr_object_lost_add(set, upload->object, error, why);
    for (unsigned i = 0; i < set->n_parts; i++) {
        struct object_part *part = &upload->parts[i];

        if (part->state != PART_SENDING) {
            waiter_leave(&part->waiter, upload_status(upload));
            part_drop(part, nxr_object_upload_part_nbytes(set, i));
        }
    }
    waiter_leave(&upload->last_waiter, upload_status(upload));
}

static const char *io_why(const struct nxr_object_io *io)
{
    return io->error == ECANCELED ? "the put was canceled" : io->why;
}

/*
 * The object was put, and the waiter's bytes in it. It may have been even if the request has failed
 * or was canceled, at a store of which only the answer is missing.
 */
static void waiter_touch(struct object_copy *waiter, const struct nxr_object_io *io,
                         const struct nxr_object_set *set)
{
    if (waiter != NULL && (io->action == NXR_OBJECT_PUT || io->action == NXR_OBJECT_COMPLETE) &&
        (io->error == 0 || !set->is_directory)) {
        atomic_fetch_add(&waiter->nbytes_touched, (size_t)set->object_nbytes);
    }
}

static void upload_io_ended(struct nxr_object_io *io)
{
    struct object_upload *upload = nxr_list_entry(io, struct object_upload, io);
    struct nxr_object_set *set = upload->set;
    struct nxr_object_io *list = NULL;

    pthread_mutex_lock(&set->lock);
    upload->n_ios--;
    if (io->action == NXR_OBJECT_CREATE) {
        upload->is_creating = false;
        upload->is_named = io->error == 0;
    } else {
        upload->is_named = false; /* it is the object now, or removed */
    }
    if (nxr_object_upload_is_short(upload, io)) { /* in go_on() it waits, or tries again */
        upload_go_on(upload, &list);
        upload_leave(set, list);
        others_admit();
        return;
    }
    if (io->error != 0 && io->action == NXR_OBJECT_ABORT) {
        nxr_warn(MEMORY, "%s: parts of '%s' stay in the store, as upload %s: %s", set->label,
                 upload->key, upload->name, io->why);
    }
    waiter_touch(upload->last_waiter, io, set);
    if (io->error != 0 && io->action != NXR_OBJECT_ABORT) {
        upload->is_named = io->action == NXR_OBJECT_COMPLETE;
        upload_fail(upload, io->action == NXR_OBJECT_CREATE ? "begin of an upload" : "put",
                    io->error, io_why(io));
    } else if (io->action == NXR_OBJECT_COMPLETE) {
        nxr_object_lost_forget(set, upload->object);
        waiter_leave(&upload->last_waiter, NIXL_OK);
        upload_end(upload, &list);
    }
    nxr_object_upload_shut(upload);
    upload_go_on(upload, &list);
    uploads_admit(set, &list);
    upload_leave(set, list);
    others_admit();
}

static void part_ended(struct nxr_object_io *io)
{
    struct object_part *part = nxr_list_entry(io, struct object_part, io);
    struct object_upload *upload = part->upload;
    struct nxr_object_set *set = upload->set;
    struct nxr_object_io *list = NULL;

    pthread_mutex_lock(&set->lock);
    upload->n_ios--;
    part->state = PART_SENT;
    part_drop(part, nxr_object_upload_part_nbytes(set, (unsigned)(part - upload->parts)));
    waiter_touch(part->waiter, io, set);
    if (io->error != 0) {
        /* Set the reason before the status: a waiter reads it as soon as the status is set. */
        upload_fail(upload, "put", io->error, io_why(io));
        waiter_leave(&part->waiter, upload_status(upload));
    } else if (upload->is_failed) {
        waiter_leave(&part->waiter, upload_status(upload));
    } else if (--upload->n_unsent > 0) {
        waiter_leave(&part->waiter, NIXL_OK);
    } else if (set->n_parts > 1) {
        upload->last_waiter = part->waiter; /* until the parts are joined */
        part->waiter = NULL;
    } else {
        nxr_object_lost_forget(set, upload->object);
        waiter_leave(&part->waiter, NIXL_OK);
        upload_end(upload, &list);
    }
    upload_go_on(upload, &list);
    upload_leave(set, list);
}

static void part_send(struct object_part *part, struct nxr_object_io **list_p)
{
    struct object_upload *upload = part->upload;
    unsigned i = (unsigned)(part - upload->parts);

    part->state = PART_SENDING;
    part->io.action = upload->set->n_parts > 1 ? NXR_OBJECT_PART : NXR_OBJECT_PUT;
    part->io.part = i + 1;
    part->io.offset = i * upload->set->part_nbytes;
    part->io.parts = &upload->sent[i];
    part->io.ended = part_ended;
    upload_submit(upload, &part->io, list_p);
}

static void upload_ask(struct object_upload *upload, enum nxr_object_action action,
                       struct nxr_object_io **list_p)
{
    upload->io = (struct nxr_object_io){.action = action,
                                        .parts = upload->sent,
                                        .n_parts = upload->set->n_parts,
                                        .object_nbytes = upload->set->object_nbytes,
                                        .ended = upload_io_ended};
    upload_submit(upload, &upload->io, list_p);
}

/* The next step of one that has failed or is over; with the last, it is freed. */
static void upload_clear(struct object_upload *upload, struct nxr_object_io **list_p)
{
    if (upload->n_ios > 0) {
        return;
    }
    if (!upload->is_over) {
        upload_end(upload, list_p);
    }
    if (upload->is_named) {
        upload->is_named = false;
        upload_ask(upload, NXR_OBJECT_ABORT, list_p);
        return;
    }
    upload_free(upload);
}

/* Whatever may be done now. The upload may be gone afterwards. */
static void upload_go_on(struct object_upload *upload, struct nxr_object_io **list_p)
{
    if (upload->is_failed || upload->is_over) {
        upload_clear(upload, list_p);
        return;
    }
    for (unsigned i = 0; i < upload->set->n_parts; i++) {
        struct object_part *part = &upload->parts[i];

        if (part->state != PART_QUEUED) {
            continue;
        }
        if (upload->set->n_parts == 1 || upload->is_named) {
            part_send(part, list_p);
        } else if (!upload->is_creating && nxr_object_upload_may_open(upload)) {
            upload->is_creating = true;
            upload_ask(upload, NXR_OBJECT_CREATE, list_p);
        }
    }
    if (upload->n_unsent == 0 && upload->n_ios == 0) {
        upload_ask(upload, NXR_OBJECT_COMPLETE, list_p);
    }
}

/* ---- taking bytes ---------------------------------------------------------------------------- */

/* The bytes of a part come: all at once, or to be collected. */
static enum object_span_outcome part_take(struct object_part *part, uint64_t offset,
                                          uint64_t nbytes, char *bytes, uint64_t all)
{
    struct nxr_object_set *set = part->upload->set;
    enum object_span_outcome outcome;

    if (part->state != PART_COLLECTING) {
        return OBJECT_SPAN_OVERLAPS;
    }
    if (part->buffer == NULL && nbytes == all) {
        part->io.memory = bytes;
        part->io.nbytes = all;
        part->state = PART_QUEUED;
        return OBJECT_SPAN_ADDED;
    }
    if (part->buffer == NULL) {
        if (all > NXR_OBJECT_COLLECT_MAX - set->collected_nbytes) {
            return OBJECT_SPAN_NO_ROOM;
        }
        part->buffer = malloc(all);
        if (part->buffer == NULL) {
            return OBJECT_SPAN_NO_ROOM;
        }
        set->collected_nbytes += all;
    }
    outcome = nxr_object_spans_add(&part->spans, offset, offset + nbytes);
    if (outcome == OBJECT_SPAN_ADDED) {
        memcpy(part->buffer + offset, bytes, nbytes);
        if (nxr_object_spans_are_all(&part->spans, all)) {
            part->io.memory = part->buffer;
            part->io.nbytes = all;
            part->state = PART_QUEUED;
        }
    }
    return outcome;
}

static void upload_give_up(struct object_upload *upload, const char *reason,
                           struct nxr_object_io **list_p)
{
    char why[NXR_OBJECT_WHY_NBYTES];

    snprintf(why, sizeof(why), "only %llu of its %llu bytes were put: %s",
             (unsigned long long)upload->nbytes_come,
             (unsigned long long)upload->set->object_nbytes, reason);
    upload_fail(upload, "put", ECANCELED, why);
    upload_go_on(upload, list_p);
}

/*
 * The same bytes once more. If the object was complete, it goes its way; else its rank has begun
 * anew.
 */
static struct object_upload *upload_renew(struct object_upload *upload,
                                          struct nxr_object_io **list_p)
{
    struct nxr_object_set *set = upload->set;
    uint64_t object = upload->object;
    uint64_t origin = upload->origin;
    bool is_complete = upload->nbytes_come == set->object_nbytes;

    nxr_list_remove(&upload->by_object); /* it takes no more bytes */
    if (!is_complete) {
        upload_give_up(upload, "then its rank put some of them once more", list_p);
        nxr_object_lost_forget(set, object); /* what is put now decides */
    }
    return upload_new(set, object, origin);
}

int nxr_object_upload_take(struct nxr_object_set *set, const struct object_bytes *bytes,
                           struct object_copy *copy, struct nxr_object_io **list_p)
{
    struct object_upload *upload = upload_find(set, bytes->object, bytes->origin);
    unsigned number = (unsigned)(bytes->offset / set->part_nbytes);
    uint64_t offset = bytes->offset % set->part_nbytes,
             all = nxr_object_upload_part_nbytes(set, number);
    enum object_span_outcome outcome = OBJECT_SPAN_NO_ROOM;
    static const char no_room[] =
        "too many objects are put in pieces at once, or in too many pieces";

    if (upload == NULL || upload->is_failed) {
        if (upload != NULL) {
            nxr_list_remove(&upload->by_object);
        }
        upload = upload_new(set, bytes->object, bytes->origin);
    }
    for (int i = 0; i < 2 && upload != NULL; i++) {
        outcome = part_take(&upload->parts[number], offset, bytes->nbytes, bytes->bytes, all);
        if (outcome != OBJECT_SPAN_OVERLAPS) {
            break;
        }
        upload = upload_renew(upload, list_p);
    }
    if (upload == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    upload->touched_ns = nxr_now_ns();
    upload->toucher = copy->number;
    if (outcome != OBJECT_SPAN_ADDED) {
        nxr_object_fail(set, "put", upload->key, ENOMEM, no_room);
        upload_give_up(upload, no_room, list_p);
        return NIXL_E_STORAGE;
    }
    upload->nbytes_come += bytes->nbytes;
    nxr_object_upload_note(upload);
    if (upload->parts[number].state == PART_QUEUED) {
        upload->parts[number].waiter = copy;
        atomic_fetch_add(&copy->left, 1);
        upload_go_on(upload, list_p);
    }
    return NIXL_OK;
}

/* ---- giving up ------------------------------------------------------------------------------- */

static bool upload_has_waiter(const struct object_upload *upload, const struct object_copy *copy)
{
    bool has = upload->last_waiter == copy;

    for (unsigned i = 0; i < upload->set->n_parts && !has; i++) {
        has = upload->parts[i].waiter == copy;
    }
    return has;
}

/*
 * Uploads with requests under way end at the engine's next turn. An upload that has only part of
 * its bytes, the last of them from this copy, gets no more and ends now.
 */
void nxr_object_uploads_cancel(struct nxr_object_set *set, const struct object_copy *copy,
                               struct nxr_object_io **list_p)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &set->uploads) {
        struct object_upload *upload = nxr_list_entry(link, struct object_upload, link);

        if (upload_has_waiter(upload, copy)) {
            atomic_store(&upload->is_canceled, true);
            if (upload->is_waiting) { /* the engine has no request that it could end */
                upload_give_up(upload, "the put was canceled", list_p);
            }
        } else if (upload->n_ios == 0 && upload->toucher == copy->number) {
            upload_give_up(upload, "the put was canceled", list_p);
        }
    }
}

/* Give up those of which no byte has come for a while. True: others are there. */
static bool uploads_look(struct nxr_object_set *set, struct nxr_object_io **list_p)
{
    int64_t now = nxr_now_ns();
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &set->uploads) {
        struct object_upload *upload = nxr_list_entry(link, struct object_upload, link);

        if (upload->n_ios == 0 && !upload->is_waiting &&
            now - upload->touched_ns > NXR_OBJECT_GIVE_UP_NS) {
            upload_give_up(upload, "no more came for 10 s", list_p);
        }
    }
    return !nxr_list_is_empty(&set->uploads);
}

static void timer_ended(struct nxr_object_io *io)
{
    struct nxr_object_set *set = nxr_list_entry(io, struct nxr_object_set, timer);
    struct nxr_object_io *list = NULL;

    pthread_mutex_lock(&set->lock);
    set->has_timer = false;
    if (uploads_look(set, &list)) {
        nxr_object_timer_set(set, &list);
    }
    upload_leave(set, list);
}

void nxr_object_timer_set(struct nxr_object_set *set, struct nxr_object_io **list_p)
{
    if (set->has_timer || set->is_closing || nxr_list_is_empty(&set->uploads)) {
        return;
    }
    set->has_timer = true;
    set->n_requests++;
    set->timer = (struct nxr_object_io){.action = NXR_OBJECT_DELAY,
                                        .delay_ns = TIMER_NS,
                                        .is_canceled = &set->is_timer_canceled,
                                        .ended = timer_ended,
                                        .next = *list_p};
    *list_p = &set->timer;
}

void nxr_object_uploads_stop(struct nxr_object_set *set)
{
    struct nxr_object_io *list = NULL;
    struct nxr_list *link, *after;

    pthread_mutex_lock(&set->lock);
    set->is_closing = true;
    atomic_store(&set->until, nxr_now_ns() + NXR_OBJECT_GIVE_UP_NS); /* of what is under way, too */
    nxr_list_for_each (link, after, &set->uploads) {
        upload_give_up(nxr_list_entry(link, struct object_upload, link), "the region was closed",
                       &list);
    }
    pthread_mutex_unlock(&set->lock);
    atomic_store(&set->is_timer_canceled, true);
    if (list != NULL) {
        set->engine->submit(list);
    }
    set->engine->wake();
    pthread_mutex_lock(&set->lock);
    while (set->n_requests > 0) {
        pthread_cond_wait(&set->has_ended, &set->lock);
    }
    (void)nxr_object_lost_report(set);
    pthread_mutex_unlock(&set->lock);
}
