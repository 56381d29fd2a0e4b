/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/object.h
 * Objects of an S3 store as regions.
 */
#ifndef NIXLRUN_OBJECT_H
#define NIXLRUN_OBJECT_H

#include <nixlrun/base.h>
#include <nixlrun/context.h>
#include <nixlrun/region.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How nixl_region_open_object() opens objects; any of these together. */
enum nixl_object_flag {
    NIXL_OBJECT_READ_ONLY = 1, /**< only get; implies NIXL_ACCESS_NO_PUT */
    NIXL_OBJECT_MD5 = 2,       /**< check bytes by MD5, for servers without CRC32C; costs time */
    NIXL_OBJECT_ANONYMOUS = 4, /**< sign nothing: public buckets */
};

struct nixl_object_params {
    size_t struct_nbytes;
    uint32_t flags;  /**< of enum nixl_object_flag */
    uint32_t access; /**< of enum nixl_access: what peers may not do */

    uint64_t nobjects;       /**< 0: one object, whose key is the URL's path */
    uint64_t object_nbytes;  /**< of each object; 0: as the one object has that is there */
    const char *const *keys; /**< nobjects of them, behind the URL's path; NULL: see below */

    uint64_t part_nbytes;  /**< longer objects are put in such parts; 0: 8 MiB */
    uint32_t nconnections; /**< to the store at once, at most; 0: 32 */

    const char *endpoint; /**< "https://HOST[:PORT]"; NULL: as AWS's variables and files say */
    const char *region;   /**< such as "eu-west-1"; NULL: likewise */
    const char *ca_file;  /**< certificates to trust, in PEM; NULL: likewise */

    struct nixl_context *context; /**< where its name and its events belong; NULL: the default */
};
#define NIXL_OBJECT_PARAMS_INIT                                                                    \
    {                                                                                              \
        sizeof(struct nixl_object_params), 0, 0, 0, 0, NULL, 0, 0, NULL, NULL, NULL, NULL          \
    }

/**
 * Publish objects of an S3 store under a name: a region of kind NIXL_MEM_OBJECT.
 *
 * The region is a table of `nobjects` objects of `object_nbytes` bytes: object i lies at the
 * offsets from i * object_nbytes on. Its key is the path of the URL, "/" if that does not end so,
 * and keys[i], or without keys i as 16 hexadecimal digits. Any rank puts and gets as in memory, of
 * this host, of another one, of an attached job, from and into GPU memory, with notifications,
 * prepared transfers, grants, flush, deadlines and events. The library of the owner, this rank,
 * talks to the store; its program takes no part.
 *
 * Gets read any range of an object that is there. Objects are put as a whole, as S3 has it: the
 * owner collects what one rank puts into an object, in whatever pieces, and sends the object, or a
 * part of it, when all its bytes have come. Until then gets see the former object, and nothing of
 * the new one. A put that covers whole objects, or brings the last bytes of one, has ended when the
 * store has acknowledged the object and its etag; a failure is that put's. Other puts have ended
 * when the owner has their bytes. The owner gives up an incomplete object after 10 s without a new
 * byte, and mostly at once if the put is canceled.
 *
 * NIXL_OP_DURABLE: the operation ends when every object that the region has begun to collect is in
 * the store; it fails with NIXL_E_STORAGE if one was given up, or could not be put.
 *
 * Refused with NIXL_E_UNSUPPORTED, since no processor reaches the bytes: atomics, signals in the
 * region, nixl_region_map(), copies on streams. nixl_region_addr() is NULL.
 *
 * @param name      as nixl_region_alloc(); NULL: for this rank alone
 * @param url       "s3://BUCKET/PATH", or "http[s]://HOST[:PORT]/BUCKET/PATH", which names the
 *                  endpoint as well
 * @param params    NULL: one object that is there, all of it
 * @param region_p  the handle, to be closed with nixl_region_close()
 * @return NIXL_OK: the store has answered, and accepts the credentials
 * @return NIXL_E_INVALID_ARG  a bad name, URL, key or params; no object_nbytes for several objects
 * @return NIXL_E_UNSUPPORTED  this build has no module for S3; the detail says how to get it
 * @return NIXL_E_NOT_FOUND    no such bucket; without object_nbytes: no such object
 * @return NIXL_E_ACCESS       no credentials, wrong ones, or a certificate that is not trusted
 * @return NIXL_E_NAME_IN_USE  this rank has an open region of that name
 * @return NIXL_E_RANGE        more bytes than a region can have, or than objects of 10,000 parts
 * @return NIXL_E_LIMIT, NIXL_E_NO_MEMORY
 * @return NIXL_E_CANCELED     nixl_question_cancel() has ended it
 * @return NIXL_E_STORAGE      the store failed otherwise: nixl_last_error() says how
 * Later failures end puts, gets and flushes with NIXL_E_STORAGE at the rank that called, with key
 * and reason, and an errno as native_code: ENOENT for a get of an object that is not there.
 * Collective: no. Threads: any.
 */
NIXL_API int nixl_region_open_object(const char *name, const char *url,
                                     const struct nixl_object_params *params,
                                     struct nixl_region **region_p) NIXL_MUST_CHECK;

#define NIXL_OBJECT_KEY_MAX 1024 /**< bytes of a key, with the URL's path */

/** What the store has at a key. */
struct nixl_object_info {
    size_t struct_nbytes;
    uint64_t object;  /**< its number in the region; UINT64_MAX: it is none of the region's */
    uint64_t nbytes;  /**< of the object that is there */
    int64_t modified; /**< seconds since 1970 */
    char etag[80];    /**< as the store names this version, without quotation marks */
    char key[1032];   /**< behind the URL's path; of a region of one object: the whole key */
};
#define NIXL_OBJECT_INFO_INIT                                                                      \
    {                                                                                              \
        sizeof(struct nixl_object_info), 0, 0, 0, "", ""                                           \
    }

/**
 * Ask the store for an object of a region that this rank has opened by nixl_region_open_object().
 * Only the owner may call this; another rank sends it a message, or opens the same URL itself.
 *
 * @param object      0 .. nobjects - 1
 * @param timeout_ns  after which the question is given up
 * @param info_p      initialized by NIXL_OBJECT_INFO_INIT
 * @return NIXL_OK
 * @return NIXL_E_NOT_FOUND    no such object is in the store
 * @return NIXL_E_INVALID_ARG  not such a region of this rank; a bad info_p
 * @return NIXL_E_RANGE        the region has not so many objects
 * @return NIXL_E_TIMEOUT, NIXL_E_ACCESS, NIXL_E_STORAGE
 * @return NIXL_E_CANCELED     nixl_question_cancel() has ended it
 * Threads: any.
 */
NIXL_API int nixl_object_stat(struct nixl_region *region, uint64_t object, int64_t timeout_ns,
                              struct nixl_object_info *info_p) NIXL_MUST_CHECK;

/**
 * Remove an object from the store. One that is not there is no failure. Parameters and returns as
 * nixl_object_stat(), and NIXL_E_ACCESS for a region that is only read. Threads: any.
 */
NIXL_API int nixl_object_delete(struct nixl_region *region, uint64_t object,
                                int64_t timeout_ns) NIXL_MUST_CHECK;

/** Called for each object; `info` is gone afterwards. 0: go on; else the list ends. */
typedef int nixl_object_list_fn(const struct nixl_object_info *info, void *arg);

/**
 * Call `each` for the objects in the store whose keys begin with the URL's path, as the store
 * orders them; those that are in no number of the region, too. `each` may call the library. The
 * list is collected first, about 120 bytes and the key for each object, and `each` is called when
 * all of it has come in time. For a part of it: a region of a longer path.
 *
 * @param after  go on behind this key, without the URL's path; NULL: from the first on
 * Other parameters and returns as nixl_object_stat(); NIXL_E_CANCELED: `each` has ended it, too;
 * NIXL_E_NO_MEMORY: for the list.
 */
NIXL_API int nixl_object_list(struct nixl_region *region, const char *after, int64_t timeout_ns,
                              nixl_object_list_fn *each, void *arg) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_OBJECT_H */
