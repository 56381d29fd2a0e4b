/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory kind of files: its table, and what does not open or copy. Files of this rank alone are
 * memory here; those of peers are read here at most. Lock: file_failure_lock, a leaf.
 */
#include "config.h"

#include "memory/file/file.h"
#include "memory/file/file_gpu.h"
#include "memory/file/kind.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t file_failure_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_storage_why file_last; /* of all files */

void nxr_file_fail(struct nxr_file *file, int error, const char *what, uint64_t nbytes,
                   uint64_t offset)
{
    char text[NXR_STORAGE_WHY_NBYTES], number[64] = "";

    if (nbytes > 0) {
        snprintf(number, sizeof(number), " of %llu bytes at %llu", (unsigned long long)nbytes,
                 (unsigned long long)offset);
    }
    snprintf(text, sizeof(text), "%.120s: %s%s: %s", file->path, what, number,
             error == ENODATA ? "the file ends before that: it was truncated"
             : error == EFBIG ? "beyond the file size limit (ulimit -f) or what the file system "
                                "can hold"
                              : strerror(error));
    pthread_mutex_lock(&file_failure_lock);
    file_last.error = error;
    memcpy(file_last.text, text, sizeof(text));
    file->why = file_last;
    pthread_mutex_unlock(&file_failure_lock);
}

static void file_why(const struct nxr_range *range, struct nxr_storage_why *why)
{
    pthread_mutex_lock(&file_failure_lock);
    *why = range != NULL ? nxr_file_of(range)->why : file_last;
    pthread_mutex_unlock(&file_failure_lock);
}

static int file_start(char *why, size_t why_nbytes)
{
    return nxr_file_engine_start(why, why_nbytes);
}

static void file_stop(void)
{
    nxr_file_gpu_stop();
    nxr_file_engine_stop();
}

static int file_alloc(size_t nbytes, const struct nixl_mem_params *params,
                      struct nxr_memory *memory_p, char *why, size_t why_nbytes)
{
    (void)nbytes;
    (void)params;
    (void)memory_p;
    snprintf(why, why_nbytes, "a file is opened by nixl_region_open_file()");
    return NIXL_E_INVALID_ARG;
}

static int file_adopt(void *addr, size_t nbytes, const struct nixl_mem_params *params,
                      struct nxr_memory *memory_p, char *why, size_t why_nbytes)
{
    (void)addr;
    return file_alloc(nbytes, params, memory_p, why, why_nbytes);
}

static void file_release(struct nxr_memory *memory)
{
    nxr_file_close(nxr_file_of(memory->range));
}

static void file_discard(struct nxr_memory *memory)
{
    nxr_file_discard(nxr_file_of(memory->range));
}

static bool file_owns(const void *addr)
{
    const struct nxr_range *range = nxr_range_find(addr);

    return range != NULL && range->kind == &nxr_memory_file;
}

static void file_pin(void *addr, size_t nbytes)
{
    const struct nxr_storage_engine *engine = nxr_file_engine(NULL);

    if (engine != NULL) {
        engine->pin(addr, nbytes);
    }
}

static void file_unpin(void *addr)
{
    const struct nxr_storage_engine *engine = nxr_file_engine(NULL);

    if (engine != NULL) {
        engine->unpin(addr);
    }
}

static struct nxr_copy_rate file_expect(const struct nxr_range *range, bool is_with_host)
{
    (void)range;
    (void)is_with_host;
    return (struct nxr_copy_rate){0};
}

static const char *file_pci(const struct nxr_range *range)
{
    (void)range;
    return "";
}

const struct nxr_memory_kind nxr_memory_file = {
    .kind = NIXL_MEM_FILE,
    .name = "file",
    .is_storage = true,
    .start = file_start,
    .stop = file_stop,
    .alloc = file_alloc,
    .adopt = file_adopt,
    .release = file_release,
    .discard = file_discard,
    .owns = file_owns,
    .import = nxr_file_import,
    .unimport = nxr_file_unimport,
    .copy_start = nxr_file_copy_start,
    .copy_test = nxr_file_copy_test,
    .copy_go = nxr_file_engine_go,
    .copy_poll = nxr_file_engine_poll,
    .copy_sleep = nxr_file_engine_sleep,
    .copy_arm = nxr_file_copy_arm,
    .pin = file_pin,
    .unpin = file_unpin,
    .expect = file_expect,
    .pci = file_pci,
    .stage_begin = nxr_file_stage_begin,
    .stage_end = nxr_file_stage_end,
    .how = nxr_file_how,
    .why = file_why,
};
