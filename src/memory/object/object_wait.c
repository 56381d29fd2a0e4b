/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits for uploads: SYNCs, until all before them are over; and others that are to begin. An
 * upload into a directory keeps a file open from CREATE to COMPLETE or ABORT. If as many as
 * MAX_OPEN are, or the process has no descriptor left, those that come then wait, but only while
 * one that is open has all its bytes: it ends by itself. The bytes that others lack may come
 * after those of one that would wait. Lock: set->lock.
 */
#include "config.h"

#include "memory/object/object_upload.h"

#include <errno.h>

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

uint64_t nxr_object_upload_nbytes(const struct object_upload *upload)
{
    const struct nxr_object_set *set = upload->set;
    uint64_t nbytes = 0;

    for (unsigned i = 0; i < set->n_parts; i++) {
        nbytes += upload->parts[i].state == PART_COLLECTING
                      ? nxr_object_spans_nbytes(&upload->parts[i].spans)
                      : nxr_object_upload_part_nbytes(set, i);
    }
    return nbytes;
}

/* Is one open that ends by itself? */
static bool wait_has_end(const struct nxr_object_set *set)
{
    bool has_end = set->n_aborting > 0;

    for (struct nxr_list *link = set->uploads.next; !has_end && link != &set->uploads;
         link = link->next) {
        const struct object_upload *upload = nxr_list_entry(link, struct object_upload, link);

        has_end = upload->is_open &&
                  (upload->is_failed || nxr_object_upload_nbytes(upload) == set->object_nbytes);
    }
    return has_end;
}

static bool wait_is_due(const struct nxr_object_set *set)
{
    return set->is_directory && (set->is_short || set->n_open >= MAX_OPEN) && wait_has_end(set);
}

void nxr_object_upload_waits(struct object_upload *upload, bool does_wait)
{
    upload->set->n_waiting += (unsigned)does_wait - (unsigned)upload->is_waiting;
    upload->is_waiting = does_wait;
}

bool nxr_object_upload_may_open(struct object_upload *upload)
{
    struct nxr_object_set *set = upload->set;

    if (upload->is_waiting || wait_is_due(set)) {
        nxr_object_upload_waits(upload, true);
        return false;
    }
    upload->is_open = true;
    upload->n_shut_then = set->n_shut;
    set->n_open++;
    return true;
}

bool nxr_object_upload_is_short(struct object_upload *upload, const struct nxr_object_io *io)
{
    struct nxr_object_set *set = upload->set;

    if (!set->is_directory || io->action != NXR_OBJECT_CREATE ||
        (io->error != EMFILE && io->error != ENFILE) || upload->is_failed ||
        atomic_load(&upload->is_canceled)) {
        return false;
    }
    upload->is_open = false;
    set->n_open--;
    if (upload->n_shut_then != set->n_shut) {
        return true;
    }
    set->is_short = true;
    return wait_is_due(set);
}

void nxr_object_upload_shut(struct object_upload *upload)
{
    struct nxr_object_set *set = upload->set;

    if (!upload->is_named && upload->is_open) {
        upload->is_open = false;
        set->n_open--;
        set->n_shut++;
        set->is_short = false;
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
