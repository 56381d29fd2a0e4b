/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory kind of objects: its table, and what does not open, copy or put. Lock:
 * object_failure_lock, a leaf.
 */
#include "config.h"

#include "memory/file/engine.h"
#include "memory/object/kind.h"
#include "memory/object/object.h"

#include <stdio.h>
#include <string.h>

static pthread_mutex_t object_failure_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_storage_why object_last; /* of all sets */

void nxr_object_fail(struct nxr_object_set *set, const char *what, const char *key, int error,
                     const char *why)
{
    char text[NXR_STORAGE_WHY_NBYTES], whole[512];

    snprintf(whole, sizeof(whole), "%.80s: object '%.60s': %.40s: %.199s", set->label, key, what,
             why);
    snprintf(text, sizeof(text), "%.255s", whole);
    pthread_mutex_lock(&object_failure_lock);
    object_last.error = error;
    memcpy(object_last.text, text, sizeof(text));
    set->why = object_last;
    pthread_mutex_unlock(&object_failure_lock);
}

static void object_why(const struct nxr_range *range, struct nxr_storage_why *why)
{
    pthread_mutex_lock(&object_failure_lock);
    *why = range != NULL ? nxr_object_set_of(range)->why : object_last;
    pthread_mutex_unlock(&object_failure_lock);
}

static int object_alloc(size_t nbytes, const struct nixl_mem_params *params,
                        struct nxr_memory *memory_p, char *why, size_t why_nbytes)
{
    (void)nbytes;
    (void)params;
    (void)memory_p;
    snprintf(why, why_nbytes, "objects are opened by nixl_region_open_object()");
    return NIXL_E_INVALID_ARG;
}

static int object_adopt(void *addr, size_t nbytes, const struct nixl_mem_params *params,
                        struct nxr_memory *memory_p, char *why, size_t why_nbytes)
{
    (void)addr;
    return object_alloc(nbytes, params, memory_p, why, why_nbytes);
}

static bool object_owns(const void *addr)
{
    const struct nxr_range *range = nxr_range_find(addr);

    return range != NULL && range->kind == &nxr_memory_object;
}

static int object_import(struct nxr_segment *segment, int fd)
{
    (void)fd;
    snprintf(segment->note, sizeof(segment->note), "its owner talks to the store");
    return NIXL_E_UNSUPPORTED;
}

static void object_unimport(struct nxr_segment *segment)
{
    (void)segment;
}

static void object_pin(void *addr, size_t nbytes)
{
    (void)addr;
    (void)nbytes;
}

static void object_unpin(void *addr)
{
    (void)addr;
}

static struct nxr_copy_rate object_expect(const struct nxr_range *range, bool is_with_host)
{
    (void)range;
    (void)is_with_host;
    return (struct nxr_copy_rate){0};
}

static const char *object_pci(const struct nxr_range *range)
{
    (void)range;
    return "";
}

const struct nxr_memory_kind nxr_memory_object = {
    .kind = NIXL_MEM_OBJECT,
    .name = "object",
    .is_storage = true,
    .start = nxr_object_engine_start,
    .stop = nxr_object_engine_stop,
    .alloc = object_alloc,
    .adopt = object_adopt,
    .release = nxr_objects_release,
    .owns = object_owns,
    .import = object_import,
    .unimport = object_unimport,
    .copy_start = nxr_object_copy_start,
    .copy_test = nxr_object_copy_test,
    .copy_poll = nxr_file_engine_poll,
    .copy_arm = nxr_object_copy_arm,
    .copy_cancel = nxr_object_copy_cancel,
    .pin = object_pin,
    .unpin = object_unpin,
    .expect = object_expect,
    .pci = object_pci,
    .why = object_why,
};
