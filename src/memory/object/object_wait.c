/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits for uploads: SYNCs, until all before them are over; and others that are to begin. An
 * upload into a directory keeps a file open from CREATE to COMPLETE or ABORT. If as many as
 * MAX_OPEN are, or the process has no descriptor left, those that come then wait, but only while
 * one that is open, in any directory if it is for a descriptor, has all its bytes: it ends by
 * itself. The bytes that others lack may come after those of one that would wait.
 *
 * Locks: set->lock; all.lock for the list of sets, outside of it.
 */
#include "config.h"

#include "memory/object/object_upload.h"

#include <errno.h>
#include <stdatomic.h>

#define MAX_OPEN 64 /* in a directory */

/* ---- what waits for their end ---------------------------------------------------------------- */

bool nxr_object_uploads_are_over(const struct nxr_object_set *set, uint64_t mark)
{
    return nxr_list_is_empty(&set->uploads) ||
           nxr_list_entry(set->uploads.next, struct object_upload, link)->number >= mark;
}

void nxr_object_syncs_check(struct nxr_object_set *set, struct nxr_object_io **list_p)
{
    struct nxr_list *link, *after;
    int lost = NIXL_INPROGRESS;

    nxr_list_for_each (link, after, &set->syncs) {
        struct object_copy *copy = nxr_list_entry(link, struct object_copy, link);

        if (nxr_object_uploads_are_over(set, copy->mark)) {
            if (lost == NIXL_INPROGRESS) {
                lost = nxr_object_lost_report(set);
            }
            nxr_list_remove(link);
            copy->is_sync = false;
            nxr_object_copy_synced(copy, lost, list_p);
        }
    }
}

/* ---- what waits for its turn ----------------------------------------------------------------- */

/*
 * The state that all directories of the process share. A waiter counts itself first, then checks
 * whether it must wait; an upload that ends checks for waiters last. So none of them is missed.
 */
static struct {
    pthread_mutex_t lock;
    struct nxr_list sets;
    atomic_uint n_waiting, n_ending; /* as in each set */
    atomic_uint n_shut;              /* uploads that are not open any more */
    atomic_bool is_short; /* no descriptor was left, and none was given back since then */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .sets = {&all.sets, &all.sets}};

void nxr_object_set_enter(struct nxr_object_set *set)
{
    pthread_mutex_lock(&all.lock);
    nxr_list_append(&all.sets, &set->directory);
    pthread_mutex_unlock(&all.lock);
}

void nxr_object_set_leave(struct nxr_object_set *set)
{
    pthread_mutex_lock(&all.lock);
    nxr_list_remove(&set->directory);
    pthread_mutex_unlock(&all.lock);
}

void nxr_object_sets_admit(void (*admit)(struct nxr_object_set *set, struct nxr_object_io **list_p),
                           struct nxr_object_io **list_p)
{
    struct nxr_list *link, *after;

    if (atomic_load(&all.n_waiting) == 0) {
        return;
    }
    pthread_mutex_lock(&all.lock);
    nxr_list_for_each (link, after, &all.sets) {
        struct nxr_object_set *set = nxr_list_entry(link, struct nxr_object_set, directory);

        pthread_mutex_lock(&set->lock);
        admit(set, list_p);
        pthread_mutex_unlock(&set->lock);
    }
    pthread_mutex_unlock(&all.lock);
}

static bool wait_is_due(const struct nxr_object_set *set)
{
    return set->is_directory && ((atomic_load(&all.is_short) && atomic_load(&all.n_ending) > 0) ||
                                 (set->n_open >= MAX_OPEN && set->n_ending > 0));
}

void nxr_object_upload_note(struct object_upload *upload)
{
    struct nxr_object_set *set = upload->set;
    bool is_ending = set->is_directory && upload->is_open &&
                     (upload->is_failed || upload->nbytes_come == set->object_nbytes);

    if (is_ending != upload->is_ending) {
        upload->is_ending = is_ending;
        set->n_ending += is_ending ? 1 : -1u;
        atomic_fetch_add(&all.n_ending, is_ending ? 1 : -1u);
    }
}

void nxr_object_upload_waits(struct object_upload *upload, bool does_wait)
{
    if (does_wait != upload->is_waiting) {
        upload->is_waiting = does_wait;
        upload->set->n_waiting += does_wait ? 1 : -1u;
        atomic_fetch_add(&all.n_waiting, does_wait ? 1 : -1u);
    }
}

bool nxr_object_upload_may_open(struct object_upload *upload)
{
    struct nxr_object_set *set = upload->set;

    if (upload->is_waiting) {
        return false;
    }
    nxr_object_upload_waits(upload, true);
    if (wait_is_due(set)) {
        return false;
    }
    nxr_object_upload_waits(upload, false);
    upload->is_open = true;
    upload->n_shut_then = atomic_load(&all.n_shut);
    set->n_open++;
    nxr_object_upload_note(upload);
    return true;
}

static void upload_close(struct object_upload *upload)
{
    upload->is_open = false;
    upload->set->n_open--;
    nxr_object_upload_note(upload);
}

bool nxr_object_upload_is_short(struct object_upload *upload, const struct nxr_object_io *io)
{
    struct nxr_object_set *set = upload->set;

    if (!set->is_directory || io->action != NXR_OBJECT_CREATE ||
        (io->error != EMFILE && io->error != ENFILE) || upload->is_failed ||
        atomic_load(&upload->is_canceled)) {
        return false;
    }
    upload_close(upload);
    if (upload->n_shut_then != atomic_load(&all.n_shut)) {
        return true;
    }
    atomic_store(&all.is_short, true);
    return wait_is_due(set);
}

void nxr_object_upload_shut(struct object_upload *upload)
{
    if (!upload->is_named && upload->is_open) {
        atomic_fetch_add(&all.n_shut, 1);
        atomic_store(&all.is_short, false);
        upload_close(upload);
    }
}

struct object_upload *nxr_object_upload_admitted(struct nxr_object_set *set)
{
    if (set->n_waiting == 0 || wait_is_due(set)) {
        return NULL;
    }
    for (struct nxr_list *link = set->uploads.next; link != &set->uploads; link = link->next) {
        struct object_upload *upload = nxr_list_entry(link, struct object_upload, link);

        if (upload->is_waiting) {
            nxr_object_upload_waits(upload, false);
            return upload;
        }
    }
    return NULL;
}
