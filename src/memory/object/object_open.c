/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a set of objects: its keys, its size, the store, and whether the store
 * accepts us. No state.
 */
#include "config.h"

#include "memory/file/engine.h"
#include "memory/object/kind.h"
#include "memory/object/object_ask.h"
#include "util/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ANSWER_NS (30 * NXR_S)  /* for the first requests */
#define LIST_NS   (300 * NXR_S) /* for the list of a whole directory */

struct set_opening {
    struct nxr_object_set *set;
    const struct nixl_object_params *params;
    const struct nixl_directory_params *directory; /* NULL: S3 */
    char *why;
    size_t why_nbytes;
    int error;
    bool is_denied; /* the store knows us, but lets us list nothing */
};

NIXL_PRINTF(3, 4)
static int set_refuse(struct set_opening *opening, int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(opening->why, opening->why_nbytes, format, args);
    va_end(args);
    return status;
}

static int set_no_memory(struct set_opening *opening)
{
    opening->error = ENOMEM;
    return set_refuse(opening, NIXL_E_NO_MEMORY, "no memory");
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* The prefix of keys, or the key. */
static int set_prefix(struct set_opening *opening)
{
    struct nxr_object_set *set = opening->set;
    const char *path = set->engine->path(set->store);
    size_t n = strlen(path);
    const char *slash = set->is_single || n == 0 || path[n - 1] == '/' ? "" : "/";

    if (set->is_single && n == 0) {
        return set_refuse(opening, NIXL_E_INVALID_ARG,
                          "%s names no object; allowed: a URL with a key, or params->nobjects",
                          set->label);
    }
    if (asprintf(&set->prefix, "%s%s", path, slash) < 0) {
        set->prefix = NULL;
        return set_no_memory(opening);
    }
    if (!set->is_single && set->keys == NULL && strlen(set->prefix) + 16 > NXR_OBJECT_KEY_MAX) {
        return set_refuse(opening, NIXL_E_INVALID_ARG, "keys would have more than %d bytes",
                          NXR_OBJECT_KEY_MAX);
    }
    return NIXL_OK;
}

static int set_keys(struct set_opening *opening)
{
    struct nxr_object_set *set = opening->set;
    const char *const *keys = opening->params->keys;
    char why[200];

    if (keys == NULL || set->is_single) {
        return NIXL_OK;
    }
    set->keys = calloc(set->n_objects, sizeof(set->keys[0]));
    if (set->keys == NULL) {
        return set_no_memory(opening);
    }
    for (uint64_t i = 0; i < set->n_objects; i++) {
        if (keys[i] == NULL || keys[i][0] == '\0' ||
            strlen(set->prefix) + strlen(keys[i]) > NXR_OBJECT_KEY_MAX) {
            return set_refuse(opening, NIXL_E_INVALID_ARG,
                              "params->keys[%llu]; allowed: 1 to %d bytes%s", (unsigned long long)i,
                              NXR_OBJECT_KEY_MAX,
                              opening->directory != NULL ? "" : ", with the URL's path");
        }
        if (set->engine->is_key != NULL && !set->engine->is_key(keys[i], why, sizeof(why))) {
            return set_refuse(opening, NIXL_E_INVALID_ARG, "params->keys[%llu] is %s",
                              (unsigned long long)i, why);
        }
        set->keys[i] = strdup(keys[i]);
        if (set->keys[i] == NULL) {
            return set_no_memory(opening);
        }
    }
    return NIXL_OK;
}

/* ---- the store ------------------------------------------------------------------------------- */

static int set_store_directory(struct set_opening *opening, const char *path)
{
    const struct nixl_directory_params *params = opening->directory;
    const struct nxr_object_settings settings = {
        .path = path,
        .mode = params->mode != 0 ? params->mode : 0600,
        .n_descriptors = params->ndescriptors != 0 ? params->ndescriptors : 256,
        .must_make = (params->flags & NIXL_DIRECTORY_CREATE) != 0,
        .is_read_only = opening->set->is_read_only,
        .writes_in_place = opening->set->writes_in_place,
        .is_direct = (params->flags & NIXL_DIRECTORY_DIRECT) != 0,
        .files = nxr_file_engine(NULL)};
    int status = opening->set->engine->open(&settings, &opening->set->store, opening->why,
                                            opening->why_nbytes);

    opening->error = status != NIXL_OK ? errno : 0;
    return status;
}

static int set_store(struct set_opening *opening, const char *url)
{
    const struct nixl_object_params *params = opening->params;
    const struct nxr_object_settings settings = {
        .url = url,
        .endpoint = params->endpoint,
        .region = params->region,
        .ca_file = params->ca_file,
        .is_anonymous = (params->flags & NIXL_OBJECT_ANONYMOUS) != 0,
        .uses_md5 = (params->flags & NIXL_OBJECT_MD5) != 0,
        .n_connections = params->nconnections != 0 ? params->nconnections : 32};

    if (opening->directory != NULL) {
        return set_store_directory(opening, url);
    }
    return opening->set->engine->open(&settings, &opening->set->store, opening->why,
                                      opening->why_nbytes);
}

static int set_ask(struct set_opening *opening, struct object_question *question)
{
    bool is_in_time = nxr_object_ask(opening->set, question, ANSWER_NS);
    const struct nxr_object_io *io = &question->io;

    if (is_in_time && io->error == 0) {
        return NIXL_OK;
    }
    opening->error = is_in_time ? io->error : ETIMEDOUT;
    return set_refuse(opening, is_in_time ? nxr_object_status(io->error) : NIXL_E_STORAGE,
                      "%.120s: %.200s", opening->set->label,
                      is_in_time ? io->why : "no answer in 30 s");
}

/* Does it accept us? A user who may put and get, but not list, learns of a refusal later. */
static int set_probe(struct set_opening *opening)
{
    struct object_question question = {
        .io = {.action = NXR_OBJECT_PROBE, .key = opening->set->prefix}};
    int status = set_ask(opening, &question);

    if (status == NIXL_E_ACCESS && question.io.is_denied) {
        opening->is_denied = true;
        return NIXL_OK;
    }
    return status;
}

/* ---- tables of a directory ------------------------------------------------------------------- */

/* The keys of what was listed become those of the table. */
static int table_keep(struct set_opening *opening, const struct object_listed *listed)
{
    struct nxr_object_set *set = opening->set;

    for (uint64_t i = 0; i < set->n_objects && listed != NULL; i++, listed = listed->next) {
        set->keys[i] = strdup(listed->key);
        if (set->keys[i] == NULL) {
            return set_no_memory(opening);
        }
    }
    return NIXL_OK;
}

/* Of all that is there: keys, and the size of the largest. */
static int table_of_all(struct set_opening *opening)
{
    struct nxr_object_set *set = opening->set;
    struct object_question question;
    struct object_listing listing;
    bool is_in_time = nxr_object_ask_list(set, NULL, LIST_NS, &question, &listing);
    const struct object_listed *listed;
    int status = is_in_time ? nxr_object_status(question.io.error) : NIXL_E_STORAGE;
    uint64_t n = 0, largest = 0;

    for (listed = listing.first; listed != NULL; listed = listed->next) {
        largest = listed->found.nbytes > largest ? listed->found.nbytes : largest;
        n++;
    }
    set->keys = n > 0 ? calloc(n, sizeof(set->keys[0])) : NULL;
    if (listing.is_short || (n > 0 && set->keys == NULL)) {
        status = set_no_memory(opening);
    } else if (status != NIXL_OK) {
        opening->error = is_in_time ? question.io.error : ETIMEDOUT;
        (void)set_refuse(opening, status, "%.120s: %.200s", set->label,
                         is_in_time ? question.io.why : "no list in 5 min");
    } else if (largest == 0 && (n == 0 || set->object_nbytes == 0)) {
        status = set_refuse(opening, NIXL_E_INVALID_ARG,
                            "%s holds no file%s; allowed: one with files, or params->nobjects and "
                            "object_nbytes",
                            set->label, n > 0 ? " with bytes" : "");
    }
    set->n_objects = set->keys != NULL ? n : 0;
    if (status == NIXL_OK) {
        status = table_keep(opening, listing.first);
    }
    set->object_nbytes = set->object_nbytes != 0 ? set->object_nbytes : largest;
    nxr_object_listing_free(&listing);
    return status;
}

/* The size of the largest of the table: all of them must be there. */
static int table_size(struct set_opening *opening)
{
    struct nxr_object_set *set = opening->set;
    char key[NXR_OBJECT_KEY_MAX + 1];
    uint64_t largest = 0;

    for (uint64_t i = 0; i < set->n_objects; i++) {
        struct object_question question = {.io = {.action = NXR_OBJECT_HEAD, .key = key}};
        int status;

        nxr_object_key(set, i, key);
        status = set_ask(opening, &question);
        if (status != NIXL_OK) {
            return set_refuse(opening, status,
                              "%.100s: '%.80s': %.100s; allowed: files that are there, or "
                              "params->object_nbytes",
                              set->label, key, question.io.why);
        }
        largest = question.io.found.nbytes > largest ? question.io.found.nbytes : largest;
    }
    set->object_nbytes = largest;
    return largest > 0 ? NIXL_OK
                       : set_refuse(opening, NIXL_E_INVALID_ARG,
                                    "%s: all files of the table are empty; allowed: others, or "
                                    "params->object_nbytes",
                                    set->label);
}

/* Parts are as large as they must be: files have no limit of their number. */
static int set_table(struct set_opening *opening)
{
    struct nxr_object_set *set = opening->set;
    uint64_t least;
    int status = NIXL_OK;

    if (opening->directory == NULL) {
        return NIXL_OK;
    }
    if (set->n_objects == 0) {
        status = table_of_all(opening);
    } else if (set->object_nbytes == 0) {
        status = table_size(opening);
    }
    least = set->object_nbytes / NXR_OBJECT_MAX_PARTS + 1;
    set->part_nbytes = set->part_nbytes > least ? set->part_nbytes : least;
    return status;
}

/* ---- size ------------------------------------------------------------------------------------ */

static int set_size(struct set_opening *opening)
{
    struct nxr_object_set *set = opening->set;
    struct object_question question = {.io = {.action = NXR_OBJECT_HEAD, .key = set->prefix}};
    int status = NIXL_OK;

    if (set->object_nbytes == 0) {
        status = set_ask(opening, &question);
        if (status != NIXL_OK) {
            return status;
        }
        set->object_nbytes = question.io.found.nbytes;
        if (set->object_nbytes == 0) {
            return set_refuse(opening, NIXL_E_INVALID_ARG,
                              "%s is an empty object; allowed: others, or params->object_nbytes",
                              set->label);
        }
    }
    if (set->object_nbytes > (uint64_t)INT64_MAX / set->n_objects) {
        return set_refuse(opening, NIXL_E_RANGE, "%llu objects of %llu bytes are too much",
                          (unsigned long long)set->n_objects,
                          (unsigned long long)set->object_nbytes);
    }
    if ((set->object_nbytes - 1) / set->part_nbytes >= NXR_OBJECT_MAX_PARTS) {
        return set_refuse(opening, NIXL_E_RANGE,
                          "objects of %llu bytes have more than %d parts of %llu; allowed: larger "
                          "params->part_nbytes",
                          (unsigned long long)set->object_nbytes, NXR_OBJECT_MAX_PARTS,
                          (unsigned long long)set->part_nbytes);
    }
    set->n_parts = (unsigned)((set->object_nbytes - 1) / set->part_nbytes) + 1;
    return NIXL_OK;
}

static int set_reserve(struct set_opening *opening)
{
    struct nxr_object_set *set = opening->set;
    uint64_t nbytes = set->n_objects * set->object_nbytes;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *base;
    int status;

    set->reserved_nbytes = (nbytes + page - 1) / page * page;
    base = mmap(NULL, set->reserved_nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    if (base == MAP_FAILED) {
        opening->error = errno;
        return set_refuse(opening, NIXL_E_LIMIT, "no addresses are left for %llu bytes (ulimit -v)",
                          (unsigned long long)nbytes);
    }
    set->base = base;
    status = nxr_range_add((uintptr_t)base, nbytes, &nxr_memory_object, set, &set->range);
    return status == NIXL_OK ? status : set_no_memory(opening);
}

/* ---- all ------------------------------------------------------------------------------------- */

static struct nxr_object_set *set_new(const char *url, const struct nixl_object_params *params,
                                      const struct nixl_directory_params *directory)
{
    struct nxr_object_set *set = calloc(1, sizeof(*set));

    if (set == NULL) {
        return NULL;
    }
    pthread_mutex_init(&set->lock, NULL);
    pthread_cond_init(&set->has_ended, NULL);
    nxr_list_init(&set->uploads);
    nxr_list_init(&set->syncs);
    nxr_list_init(&set->lost);
    for (int i = 0; i < NXR_OBJECT_BUCKETS; i++) {
        nxr_list_init(&set->by_object[i]);
    }
    set->engine = nxr_object_engine_now(directory != NULL);
    set->is_directory = directory != NULL;
    set->is_single = params->nobjects == 0 && directory == NULL;
    set->n_objects = set->is_single ? 1 : params->nobjects;
    set->object_nbytes = params->object_nbytes;
    set->part_nbytes = params->part_nbytes != 0 ? params->part_nbytes : NXR_OBJECT_PART_DEFAULT;
    set->is_read_only = (params->flags & NIXL_OBJECT_READ_ONLY) != 0;
    set->writes_in_place = directory != NULL && (directory->flags & NIXL_DIRECTORY_IN_PLACE) != 0;
    snprintf(set->label, sizeof(set->label), "%.119s", url);
    nxr_list_init(&set->directory);
    if (set->is_directory) {
        nxr_object_set_enter(set);
    }
    return set;
}

static void set_free(struct nxr_object_set *set)
{
    nxr_object_set_leave(set);
    if (set->range != NULL) {
        nxr_range_remove(set->range);
    }
    if (set->base != NULL) {
        munmap(set->base, set->reserved_nbytes);
    }
    if (set->store != NULL) {
        set->engine->close(set->store);
    }
    for (uint64_t i = 0; set->keys != NULL && i < set->n_objects; i++) {
        free(set->keys[i]);
    }
    free(set->keys);
    free(set->by_key);
    free(set->prefix);
    pthread_cond_destroy(&set->has_ended);
    pthread_mutex_destroy(&set->lock);
    free(set);
}

static int set_open_steps(struct set_opening *opening, const char *url)
{
    int status = set_store(opening, url);

    if (status == NIXL_OK) {
        status = set_prefix(opening);
    }
    if (status == NIXL_OK) {
        status = set_keys(opening);
    }
    if (status == NIXL_OK) {
        status = set_probe(opening);
    }
    if (status == NIXL_OK) {
        status = set_table(opening);
    }
    if (status == NIXL_OK) {
        status = set_size(opening);
    }
    if (status == NIXL_OK && !nxr_object_index(opening->set)) {
        status = set_no_memory(opening);
    }
    if (status == NIXL_OK) {
        status = set_reserve(opening);
    }
    return status;
}

static void objects_fill(struct nxr_memory *memory, const struct set_opening *opening)
{
    const struct nxr_object_set *set = opening->set;
    const char *why_not = "";
    char where[140];

    memory->kind = &nxr_memory_object;
    memory->addr = set->base;
    memory->nbytes = set->range->nbytes;
    memory->mapped_nbytes = set->reserved_nbytes;
    memory->fd = -1;
    memory->access = opening->params->access | (set->is_read_only ? NIXL_ACCESS_NO_PUT : 0);
    memory->range = set->range;
    memory->is_registered = true;
    snprintf(memory->device, sizeof(memory->device), "%s",
             set->is_directory ? nxr_file_engine(&why_not)->name : set->engine->name);
    set->engine->describe(set->store, where, sizeof(where));
    snprintf(memory->note, sizeof(memory->note), "%.139s%s%s%s", where,
             opening->is_denied ? "; may not list" : "", why_not[0] != '\0' ? "; " : "", why_not);
}

static int objects_open(const char *url, struct set_opening *opening, struct nxr_memory *memory_p,
                        int *error_p)
{
    int status;

    memset(memory_p, 0, sizeof(*memory_p));
    opening->set = set_new(url, opening->params, opening->directory);
    if (opening->set == NULL) {
        status = set_no_memory(opening);
    } else {
        status = set_open_steps(opening, url);
    }
    *error_p = opening->error;
    if (status == NIXL_OK) {
        objects_fill(memory_p, opening);
    } else if (opening->set != NULL) {
        set_free(opening->set);
    }
    return status;
}

int nxr_objects_open(const char *url, const struct nixl_object_params *params,
                     struct nxr_memory *memory_p, char *why, size_t why_nbytes, int *error_p)
{
    struct set_opening opening = {.params = params, .why = why, .why_nbytes = why_nbytes};

    return objects_open(url, &opening, memory_p, error_p);
}

int nxr_objects_open_directory(const char *path, const struct nixl_directory_params *params,
                               struct nxr_memory *memory_p, char *why, size_t why_nbytes,
                               int *error_p)
{
    bool is_read_only = (params->flags & NIXL_DIRECTORY_READ_ONLY) != 0;
    const struct nixl_object_params table = {.flags = is_read_only ? NIXL_OBJECT_READ_ONLY : 0,
                                             .access = params->access,
                                             .nobjects = params->nobjects,
                                             .object_nbytes = params->object_nbytes,
                                             .keys = params->keys};
    struct set_opening opening = {
        .params = &table, .directory = params, .why = why, .why_nbytes = why_nbytes};

    return objects_open(path, &opening, memory_p, error_p);
}

void nxr_objects_release(struct nxr_memory *memory)
{
    struct nxr_object_set *set = nxr_object_set_of(memory->range);

    nxr_object_uploads_stop(set);
    set_free(set);
}
