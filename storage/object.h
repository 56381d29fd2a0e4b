/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of engines for objects: what talks to an object store for the memory kind of
 * objects (src/memory/object/). storage/s3 is a module, nixlrun_s3.so, that exports
 * nxr_object_engine, so that the library does not need libcurl. storage/directory, whose objects
 * are the files of a directory, is part of the library.
 *
 * An engine knows a store, keys and bytes, and nothing of regions and ranks. It tries again what
 * may succeed then, and verifies that bytes arrive as they were sent, in both directions. Common
 * rules as in storage.h: it logs nothing, installs no signal handlers, and so on. Functions are
 * called by any thread, start() and stop() by one at a time while no other runs.
 */
#ifndef NXR_OBJECT_H
#define NXR_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_OBJECT_ABI    5
#define NXR_OBJECT_SYMBOL "nxr_object_engine"

#define NXR_OBJECT_ETAG_NBYTES   80
#define NXR_OBJECT_KEY_MAX       1024 /* bytes, by S3's rule */
#define NXR_OBJECT_UPLOAD_NBYTES 512  /* an upload's name; longer ones are refused */
#define NXR_OBJECT_WHY_NBYTES    200

enum nxr_object_action {
    NXR_OBJECT_GET,      /* nbytes at offset of an object into memory */
    NXR_OBJECT_PUT,      /* an object of nbytes */
    NXR_OBJECT_CREATE,   /* begin an upload in parts: fills `upload` */
    NXR_OBJECT_PART,     /* part number `part` of the upload, which begins at `offset` */
    NXR_OBJECT_COMPLETE, /* the parts become the object */
    NXR_OBJECT_ABORT,    /* they are removed */
    NXR_OBJECT_HEAD,
    NXR_OBJECT_DELETE,
    NXR_OBJECT_LIST,  /* call each() for keys that begin with `key` */
    NXR_OBJECT_PROBE, /* does the store accept us? */
    NXR_OBJECT_DELAY, /* nothing, for delay_ns: a timer */
    NXR_OBJECT_WRITE, /* nbytes at offset of an object, which is made if it is not there */
    NXR_OBJECT_SYNC,  /* what has ended before is durable; no key */
};

struct nxr_object_store;
struct nxr_storage_engine;

/* What the store has told about an object. */
struct nxr_object_found {
    uint64_t nbytes;
    int64_t modified; /* seconds since 1970 */
    char etag[NXR_OBJECT_ETAG_NBYTES];
};

/* One of the parts of an upload, in their order. */
struct nxr_object_part {
    char etag[NXR_OBJECT_ETAG_NBYTES];
    uint32_t crc32c;
};

/*
 * One request. The struct and what it points to are the caller's and stay valid until `ended` is
 * called, once, by a thread of the engine, without its locks. Then the struct may be freed.
 */
struct nxr_object_io {
    enum nxr_object_action action;
    struct nxr_object_store *store;
    const char *key;
    void *memory;
    uint64_t nbytes;
    uint64_t offset;
    uint64_t object_nbytes; /* GET: of the object; if it is all of it, it is checked as a whole */
                            /* COMPLETE: of all parts */
    char *upload;           /* NXR_OBJECT_UPLOAD_NBYTES, written by CREATE */
    unsigned part;          /* from 1 */
    struct nxr_object_part *parts; /* PART: the one, which is filled in; COMPLETE: all */
    unsigned n_parts;
    int64_t delay_ns; /* DELAY; once it is submitted, the engine's */
    /* NULL, or of nxr_now_ns(): no further attempt after that; while it is 0, at any time. */
    const _Atomic int64_t *until;

    const char *after; /* LIST: behind that key; NULL: from the first on */
    /* LIST, by a thread of the engine; false: enough. */
    bool (*each)(struct nxr_object_io *io, const char *key, const struct nxr_object_found *found);

    struct nxr_object_found found; /* of HEAD; etag: of PUT and COMPLETE, too */
    int error;                     /* 0, or an errno */
    bool is_denied;                /* PROBE: known, but not permitted to list */
    bool is_no_bucket;             /* ENOENT: not even the bucket is there */
    char why[NXR_OBJECT_WHY_NBYTES];

    atomic_bool *is_canceled; /* NULL, or: true ends it with ECANCELED, at the engine's next turn */
    void (*ended)(struct nxr_object_io *io);
    struct nxr_object_io *next; /* of a list that is submitted; then the engine's */
};

struct nxr_object_settings {
    /* Of a directory: */
    const char *path;
    uint32_t mode;          /* of files that are made */
    unsigned n_descriptors; /* that stay open */
    bool must_make;         /* the directory, if it is not there */
    bool is_read_only;
    bool writes_in_place;                   /* by WRITE, and never by PUT */
    bool is_direct;                         /* past the page cache, where the file system can */
    const struct nxr_storage_engine *files; /* what reads and writes them; it is started */

    /* Of S3: */
    const char *url; /* s3://BUCKET/PATH or http[s]://HOST[:PORT]/BUCKET/PATH */
    const char *endpoint, *region, *ca_file; /* NULL: as the environment says */
    bool is_anonymous;
    bool uses_md5;
    unsigned n_connections;
};

struct nxr_object_engine {
    uint32_t abi;
    const char *name; /* "s3", "directory" */

    /* It has WRITE and SYNC: what has ended is not durable yet. */
    bool has_sync;

    /* The libraries in use, with their versions. */
    const char *(*libraries)(void);

    /* NIXL_OK; or NIXL_E_UNSUPPORTED or NIXL_E_LIMIT, and one line in `why`. */
    int (*start)(char *why, size_t why_nbytes);

    /* Nothing is under way. */
    void (*stop)(void);

    /*
     * A store; nothing is sent to it, but credentials are looked for: at most three questions of
     * a second each. NIXL_OK; or NIXL_E_INVALID_ARG, NIXL_E_ACCESS, NIXL_E_NO_MEMORY, and one line
     * in `why`; of a directory NIXL_E_NOT_FOUND, NIXL_E_LIMIT and NIXL_E_STORAGE, too, and errno.
     */
    int (*open)(const struct nxr_object_settings *settings, struct nxr_object_store **store_p,
                char *why, size_t why_nbytes);
    void (*close)(struct nxr_object_store *store);

    /* The path of the URL, decoded: "" or the begin of keys. Valid until close(). */
    const char *(*path)(const struct nxr_object_store *store);

    /* Where it is, for people: endpoint, bucket and how bytes are checked. */
    void (*describe)(const struct nxr_object_store *store, char *text, size_t text_nbytes);

    /* May that be the key of an object, or a part of one? If not, one line in `why`. NULL: any. */
    bool (*is_key)(const char *key, char *why, size_t why_nbytes);

    /* Begin all requests of a list, in any order. Each ends, whatever happens, maybe at once. */
    void (*submit)(struct nxr_object_io *list);

    /* Look at is_canceled of all requests soon. */
    void (*wake)(void);
};

extern const struct nxr_object_engine nxr_object_directory;

#endif
