/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of this folder.
 *
 * A set is the memory of a region: a table of objects of one size. An upload is what one rank puts
 * into one object: its parts are collected until all their bytes have come, sent, and joined. An
 * object that fits in a part is put by one request.
 *
 * Locks: the lock of object_wait.c for the list of all directories, then set->lock for the uploads
 * of one, which is not held while a request is submitted, and is taken by the engine's thread when
 * one ends; object_failure_lock (object.c) for failures, a leaf inside it;
 * object_engine_lock (object_engine.c) for loading the engine, inside of job.lock.
 */
#ifndef NXR_MEMORY_OBJECT_OBJECT_H
#define NXR_MEMORY_OBJECT_OBJECT_H

#include "memory/memory.h"
#include "storage/object.h"
#include "util/list.h"

#include <pthread.h>

#define NXR_OBJECT_GIVE_UP_NS   (10 * NXR_S) /* without a byte: an upload is given up */
#define NXR_OBJECT_MAX_PARTS    10000        /* by S3's rule, as the next ones */
#define NXR_OBJECT_PART_MIN     ((uint64_t)5 << 20)
#define NXR_OBJECT_PART_MAX     ((uint64_t)5 << 30)
#define NXR_OBJECT_PART_DEFAULT ((uint64_t)8 << 20)
#define NXR_OBJECT_BUCKETS      1024
#define NXR_OBJECT_COLLECT_MAX  ((uint64_t)1 << 30) /* bytes that a set collects */

struct nxr_object_set {
    struct nxr_range *range;
    char *base;             /* reserved addresses: they name the places of the objects */
    size_t reserved_nbytes; /* of them, whole pages */
    uint64_t n_objects, object_nbytes, part_nbytes;
    unsigned n_parts; /* of an object */
    const struct nxr_object_engine *engine;
    struct nxr_object_store *store;
    bool is_directory; /* its bytes are moved by the storage engine */
    bool is_single;    /* the key is `prefix` */
    bool is_read_only;
    bool writes_in_place;      /* puts write at once where they belong; there are no uploads */
    char *prefix;              /* of all keys, with its slash */
    char **keys;               /* n_objects, behind the prefix; NULL: they are numbers */
    uint64_t *by_key, n_slots; /* of keys: a table of their numbers (object_key.c) */
    char label[120];           /* of the URL, for messages */

    pthread_mutex_t lock;
    pthread_cond_t has_ended; /* n_requests has become 0 */
    struct nxr_list uploads;  /* struct object_upload, in the order in which they began */
    struct nxr_list by_object[NXR_OBJECT_BUCKETS]; /* the same, by the number of the object */
    struct nxr_list syncs;                         /* struct object_copy */
    struct nxr_list lost;                          /* struct object_lost */
    uint64_t next_number;                          /* of an upload */
    uint64_t n_puts;                               /* copies that have put */
    uint64_t collected_nbytes;                     /* in buffers */
    unsigned n_requests;                           /* of uploads, and the timer */
    unsigned n_open, n_ending; /* uploads that the engine has begun; of them, those that end soon */
    unsigned n_waiting;        /* uploads that are to begin */
    struct nxr_list directory; /* in the list of all sets that are directories (object_wait.c) */
    bool has_timer, is_closing;
    _Atomic int64_t until; /* of uploads' requests: no further attempt after that; 0: any time */
    atomic_bool is_timer_canceled;
    struct nxr_object_io timer;

    struct nxr_storage_why why; /* object_failure_lock */
};

struct object_upload;

#define OBJECT_ARMED (1u << 31) /* in object_copy.left: wake the library at the end */

/* A copy that has begun. It is freed by nxr_object_copy_test(), once nothing is left. */
struct object_copy {
    struct nxr_list link; /* SYNC: in set->syncs */
    struct nxr_object_set *set;
    uint64_t mark;                 /* SYNC: uploads with lower numbers are waited for */
    uint64_t number;               /* of a put, never given twice in its set */
    _Atomic uint32_t left;         /* requests and parts that it waits for; and OBJECT_ARMED */
    _Atomic int status;            /* the first failure */
    size_t nbytes;                 /* of a put to uploads */
    _Atomic size_t nbytes_touched; /* what requests that ended have moved, or may have moved; of a
                                      put to uploads rather more: of each, all of the object */
    struct nxr_object_io sync;     /* SYNC: of the engine, once the uploads are over */
    bool is_sync;                  /* SYNC: it is in set->syncs */
    atomic_bool is_canceled;
};

static inline struct nxr_object_set *nxr_object_set_of(const struct nxr_range *range)
{
    return range->memory;
}

/* ---- object_engine.c ------------------------------------------------------------------------- */

/* Load and start that of S3, once. NIXL_OK, or NIXL_E_UNSUPPORTED and one line in `why`. */
int nxr_object_engine_start(char *why, size_t why_nbytes);

/* Stop both. */
void nxr_object_engine_stop(void);

/* One that is started. */
const struct nxr_object_engine *nxr_object_engine_now(bool is_directory);

/* ---- object.c -------------------------------------------------------------------------------- */

/* Record a failure, for who asks why. Any thread. */
void nxr_object_fail(struct nxr_object_set *set, const char *what, const char *key, int error,
                     const char *why);

/* ---- object_key.c ---------------------------------------------------------------------------- */

/* The key of an object. */
void nxr_object_key(const struct nxr_object_set *set, uint64_t object,
                    char key[NXR_OBJECT_KEY_MAX + 1]);

/* The number of a key, with the prefix; UINT64_MAX: it is none of the set's. */
uint64_t nxr_object_of(const struct nxr_object_set *set, const char *key);

/* Make the table by which keys are found. False: no memory. */
bool nxr_object_index(struct nxr_object_set *set);

/* ---- object_open.c --------------------------------------------------------------------------- */

/* As in struct nxr_memory_kind. */
void nxr_objects_release(struct nxr_memory *memory);

/* ---- object_copy.c --------------------------------------------------------------------------- */

int nxr_object_copy_start(struct nxr_device_copy *copy);
int nxr_object_copy_test(struct nxr_device_copy *copy);
void nxr_object_copy_arm(struct nxr_device_copy *copy);
void nxr_object_copy_cancel(struct nxr_device_copy *copy);

/*
 * The uploads that a SYNC waits for are over, with that status: it has ended, or a request is added
 * to the list.
 */
void nxr_object_copy_synced(struct object_copy *copy, int status, struct nxr_object_io **list_p);

/* One of those that a copy waits for has ended. With the last one, the copy may be freed. */
void nxr_object_copy_leave(struct object_copy *copy, int status);

/* ---- object_upload.c ------------------------------------------------------------------------- */

/*
 * Take bytes of a put, which lie in one part of one object; `origin` is who has put them. If they
 * complete the part, the copy waits for it. Requests to submit are added to the list *list_p; the
 * bytes are needed until the copy has ended. NIXL_OK; NIXL_E_STORAGE, whose reason is recorded;
 * NIXL_E_NO_MEMORY. Holds set->lock.
 */
struct object_bytes {
    uint64_t origin;
    uint64_t object, offset; /* in the object */
    char *bytes;
    uint64_t nbytes;
};
int nxr_object_upload_take(struct nxr_object_set *set, const struct object_bytes *bytes,
                           struct object_copy *copy, struct nxr_object_io **list_p);

/*
 * Give up the uploads whose parts the copy waits for, and incomplete ones whose latest bytes it
 * brought. Holds set->lock.
 */
void nxr_object_uploads_cancel(struct nxr_object_set *set, const struct object_copy *copy,
                               struct nxr_object_io **list_p);

/* Watch for uploads that come to nothing. Holds set->lock. */
void nxr_object_timer_set(struct nxr_object_set *set, struct nxr_object_io **list_p);

/* Give up all uploads and wait until no request is left. */
void nxr_object_uploads_stop(struct nxr_object_set *set);

/* ---- object_wait.c --------------------------------------------------------------------------- */

/* A set is to be known to others of this process, with which it shares descriptors; or not. */
void nxr_object_set_enter(struct nxr_object_set *set);
void nxr_object_set_leave(struct nxr_object_set *set);

/* Are all uploads with lower numbers over? Holds set->lock. */
bool nxr_object_uploads_are_over(const struct nxr_object_set *set, uint64_t mark);

/* ---- object_lost.c --------------------------------------------------------------------------- */

/* An object could not be put; it was put after all; say what was lost, once. Holds set->lock. */
void nxr_object_lost_add(struct nxr_object_set *set, uint64_t object, int error, const char *why);
void nxr_object_lost_forget(struct nxr_object_set *set, uint64_t object);
int nxr_object_lost_report(struct nxr_object_set *set); /* NIXL_OK, or NIXL_E_STORAGE */

#endif
