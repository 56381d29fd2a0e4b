/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between objects and host memory: gets become requests, as many as they touch objects; puts
 * go to uploads, or become requests if the set is written in place; a SYNC waits for uploads, and
 * then for the engine if it has to do something. Requests end on the engine's thread. No lock of
 * its own: copy.c lets one thread at a time test and arm.
 */
#include "config.h"

#include "memory/file/engine.h"
#include "memory/object/object.h"
#include "util/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A request for bytes of an object. */
struct object_move {
    struct nxr_object_io io;
    struct object_copy *copy;
    char key[];
};

static struct object_copy *object_copy_new(struct nxr_object_set *set)
{
    struct object_copy *made = calloc(1, sizeof(*made));

    if (made != NULL) {
        made->set = set;
        atomic_init(&made->left, 1); /* while it is being made */
        atomic_init(&made->status, NIXL_OK);
        atomic_init(&made->is_canceled, false);
    }
    return made;
}

void nxr_object_copy_leave(struct object_copy *copy, int status)
{
    int none = NIXL_OK;
    uint32_t left;

    if (status != NIXL_OK) {
        atomic_compare_exchange_strong(&copy->status, &none, status);
    }
    left = atomic_fetch_sub(&copy->left, 1);
    if (left == (OBJECT_ARMED | 1)) {
        nxr_device_ended();
    } else if (left == 1) {
        nxr_device_tell_end();
    }
}

/* ---- gets, and puts in place ---------------------------------------------------------------- */

static void object_move_ended(struct nxr_object_io *io)
{
    struct object_move *move = (struct object_move *)io; /* its first member */
    struct object_copy *copy = move->copy;
    char what[48];
    int status = NIXL_OK;

    if (io->error != ECANCELED || io->action != NXR_OBJECT_WRITE) { /* else it was not begun */
        atomic_fetch_add(&copy->nbytes_touched, (size_t)io->nbytes);
    }
    if (io->error == ECANCELED) { /* maybe since another one has failed, which is the reason */
        status = NIXL_E_CANCELED;
    } else if (io->error != 0) {
        snprintf(what, sizeof(what), "%s of %llu at %llu",
                 io->action == NXR_OBJECT_WRITE ? "put" : "get", (unsigned long long)io->nbytes,
                 (unsigned long long)io->offset);
        nxr_object_fail(copy->set, what, move->key, io->error, io->why);
        status = NIXL_E_STORAGE;
    }
    free(move);
    nxr_object_copy_leave(copy, status);
}

/* A request for bytes of one object. NULL: no memory. */
static struct object_move *object_move_new(struct object_copy *copy, uint64_t object,
                                           uint64_t offset, char *bytes, uint64_t nbytes)
{
    struct nxr_object_set *set = copy->set;
    struct object_move *move = calloc(1, sizeof(*move) + NXR_OBJECT_KEY_MAX + 1);

    if (move == NULL) {
        return NULL;
    }
    nxr_object_key(set, object, move->key);
    move->copy = copy;
    move->io = (struct nxr_object_io){.store = set->store,
                                      .key = move->key,
                                      .memory = bytes,
                                      .nbytes = nbytes,
                                      .offset = offset,
                                      .object_nbytes = set->object_nbytes,
                                      .is_canceled = &copy->is_canceled,
                                      .ended = object_move_ended};
    return move;
}

/* Add the requests of a piece to the list. False: no memory. */
static bool object_move_piece(struct object_copy *copy, const struct nxr_device_piece *piece,
                              bool is_put, struct nxr_object_io **list_p)
{
    const struct nxr_object_set *set = copy->set;
    const char *there = is_put ? piece->dst : piece->src;
    char *bytes = is_put ? (char *)(uintptr_t)piece->src : piece->dst;
    uint64_t place = (uint64_t)(there - set->base), left = piece->nbytes;

    while (left > 0) {
        uint64_t object = place / set->object_nbytes, offset = place % set->object_nbytes;
        uint64_t part = set->object_nbytes - offset;
        struct object_move *move;

        part = part < left ? part : left;
        part = part < set->part_nbytes ? part : set->part_nbytes;
        move = object_move_new(copy, object, offset, bytes, part);
        if (move == NULL) {
            return false;
        }
        move->io.action = is_put ? NXR_OBJECT_WRITE : NXR_OBJECT_GET;
        atomic_fetch_add_explicit(&copy->left, 1, memory_order_relaxed);
        move->io.next = *list_p;
        *list_p = &move->io;
        place += part;
        bytes += part;
        left -= part;
    }
    return true;
}

static void object_drop_list(struct nxr_object_io *list)
{
    while (list != NULL) {
        struct nxr_object_io *next = list->next;

        free(list); /* the first member of a struct object_move */
        list = next;
    }
}

/* In the order in which they were made. */
static struct nxr_object_io *object_reverse(struct nxr_object_io *list)
{
    struct nxr_object_io *reversed = NULL;

    while (list != NULL) {
        struct nxr_object_io *next = list->next;

        list->next = reversed;
        reversed = list;
        list = next;
    }
    return reversed;
}

/* Gets, and puts that are written in place. */
static int object_copy_move(struct object_copy *made, const struct nxr_device_copy *copy,
                            bool is_put)
{
    const struct nxr_object_set *set = made->set;
    struct nxr_object_io *list = NULL;

    for (size_t i = 0; i < copy->n_pieces; i++) {
        if (!object_move_piece(made, &copy->pieces[i], is_put, &list)) {
            object_drop_list(list);
            return NIXL_E_NO_MEMORY;
        }
    }
    if (list != NULL) {
        set->engine->submit(object_reverse(list));
    }
    return NIXL_OK;
}

/* ---- puts ------------------------------------------------------------------------------------ */

/* Cut a piece where objects and their parts end. Holds set->lock. */
static int object_put_piece(struct object_copy *copy, uint64_t origin,
                            const struct nxr_device_piece *piece, struct nxr_object_io **list_p)
{
    struct nxr_object_set *set = copy->set;
    uint64_t place = (uint64_t)((const char *)piece->dst - set->base), left = piece->nbytes;
    struct object_bytes bytes = {.origin = origin, .bytes = (char *)(uintptr_t)piece->src};
    int status = NIXL_OK;

    while (left > 0 && status == NIXL_OK) {
        uint64_t in_part, to_end;

        bytes.object = place / set->object_nbytes;
        bytes.offset = place % set->object_nbytes;
        in_part = set->part_nbytes - bytes.offset % set->part_nbytes;
        to_end = set->object_nbytes - bytes.offset;
        bytes.nbytes = in_part < to_end ? in_part : to_end;
        bytes.nbytes = bytes.nbytes < left ? bytes.nbytes : left;
        status = nxr_object_upload_take(set, &bytes, copy, list_p);
        place += bytes.nbytes;
        bytes.bytes += bytes.nbytes;
        left -= bytes.nbytes;
    }
    return status;
}

/* What was begun goes on if a later piece fails: the copy waits for it, and then fails. */
static int object_copy_put(struct object_copy *made, const struct nxr_device_copy *copy)
{
    struct nxr_object_set *set = made->set;
    struct nxr_object_io *list = NULL;
    int status = NIXL_OK;

    if (set->is_read_only) {
        nxr_object_fail(set, "put", set->prefix, EBADF, "it is open for reading only");
        return NIXL_E_STORAGE;
    }
    if (set->writes_in_place) {
        return object_copy_move(made, copy, true);
    }
    pthread_mutex_lock(&set->lock);
    made->number = ++set->n_puts;
    for (size_t i = 0; i < copy->n_pieces; i++) {
        made->nbytes += copy->pieces[i].nbytes;
    }
    for (size_t i = 0; i < copy->n_pieces && status == NIXL_OK; i++) {
        status = object_put_piece(made, copy->origin, &copy->pieces[i], &list);
    }
    nxr_object_timer_set(set, &list);
    pthread_mutex_unlock(&set->lock);
    if (list != NULL) {
        set->engine->submit(object_reverse(list));
    }
    return status;
}

static void object_synced(struct nxr_object_io *io)
{
    struct object_copy *copy = nxr_list_entry(io, struct object_copy, sync);

    if (io->error != 0) {
        nxr_object_fail(copy->set, "sync", "", io->error, io->why);
    }
    nxr_object_copy_leave(copy, io->error == 0 ? NIXL_OK : NIXL_E_STORAGE);
}

void nxr_object_copy_synced(struct object_copy *copy, int status, struct nxr_object_io **list_p)
{
    if (status != NIXL_OK || !copy->set->engine->has_sync) {
        nxr_object_copy_leave(copy, status);
        return;
    }
    copy->sync = (struct nxr_object_io){.action = NXR_OBJECT_SYNC,
                                        .store = copy->set->store,
                                        .key = "",
                                        .ended = object_synced,
                                        .next = *list_p};
    *list_p = &copy->sync;
}

static void object_copy_sync(struct object_copy *made)
{
    struct nxr_object_set *set = made->set;
    struct nxr_object_io *list = NULL;

    pthread_mutex_lock(&set->lock);
    made->mark = set->next_number;
    atomic_fetch_add(&made->left, 1);
    if (nxr_object_uploads_are_over(set, made->mark)) {
        nxr_object_copy_synced(made, nxr_object_lost_report(set), &list);
    } else {
        nxr_list_append(&set->syncs, &made->link);
        made->is_sync = true;
        nxr_object_timer_set(set, &list);
    }
    pthread_mutex_unlock(&set->lock);
    if (list != NULL) {
        set->engine->submit(list);
    }
}

/* ---- the kind's functions -------------------------------------------------------------------- */

int nxr_object_copy_start(struct nxr_device_copy *copy)
{
    bool is_put = copy->dst != NULL && copy->dst->kind->kind == NIXL_MEM_OBJECT;
    struct nxr_object_set *set = nxr_object_set_of(is_put ? copy->dst : copy->src);
    struct object_copy *made;
    int status = NIXL_OK;

    if ((copy->dst != NULL && copy->src != NULL) || copy->reduction != NULL ||
        copy->stream != NULL) {
        return NIXL_E_UNSUPPORTED; /* staging goes through host memory */
    }
    made = object_copy_new(set);
    if (made == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    if (copy->is_sync) {
        object_copy_sync(made);
    } else if (is_put) {
        status = object_copy_put(made, copy);
    } else {
        status = object_copy_move(made, copy, false);
    }
    copy->state[0] = made;
    if (status == NIXL_E_NO_MEMORY && (!is_put || set->writes_in_place)) {
        free(made); /* nothing was submitted */
        return status;
    }
    nxr_object_copy_leave(made, status);
    if (atomic_load(&made->left) == 0) {
        status = atomic_load(&made->status);
        free(made);
        return status;
    }
    return NIXL_INPROGRESS;
}

int nxr_object_copy_test(struct nxr_device_copy *copy)
{
    struct object_copy *made = copy->state[0];
    uint32_t left = atomic_load(&made->left);
    int status;

    if ((left & ~OBJECT_ARMED) != 0) {
        return NIXL_INPROGRESS;
    }
    if ((left & OBJECT_ARMED) != 0 && made->set->is_directory) {
        nxr_file_engine_disarm();
    }
    status = atomic_load(&made->status);
    copy->nbytes_touched = atomic_load(&made->nbytes_touched);
    if (made->nbytes > 0 && copy->nbytes_touched > made->nbytes) {
        copy->nbytes_touched = made->nbytes;
    }
    free(made);
    return status;
}

void nxr_object_copy_arm(struct nxr_device_copy *copy)
{
    struct object_copy *made = copy->state[0];

    if ((atomic_fetch_or(&made->left, OBJECT_ARMED) & ~OBJECT_ARMED) == 0) {
        nxr_device_ended();
    }
    if (made->set->is_directory) {
        nxr_file_engine_arm();
    }
}

void nxr_object_copy_cancel(struct nxr_device_copy *copy)
{
    struct object_copy *made = copy->state[0];
    struct nxr_object_set *set = made->set;
    struct nxr_object_io *list = NULL;

    atomic_store(&made->is_canceled, true);
    pthread_mutex_lock(&set->lock);
    if (made->is_sync) {
        made->is_sync = false;
        nxr_list_remove(&made->link);
        nxr_object_copy_leave(made, NIXL_E_CANCELED);
    } else {
        nxr_object_uploads_cancel(set, made, &list);
    }
    pthread_mutex_unlock(&set->lock);
    if (list != NULL) {
        set->engine->submit(list);
    }
    set->engine->wake();
}
