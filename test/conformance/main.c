/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk: reads how it is wanted, runs every guarantee, prints TAP. A line names the operation
 * and the guarantee; test/matrix.sh makes a table of them.
 *
 *     conformance [single] [registered] [extents] [forbidden] [method=METHOD] [transport=NAME]
 *                 [segment=KIND] [local=KIND] [mapped] [direct] [scale=TENTHS] [without=NAME...]
 *                 [NAME...]
 *
 * single      NIXL_THREAD_SINGLE; what needs threads is left out
 * registered  segments are registered memory
 * extents     ... and regions of one extent each
 * forbidden   not dumpable, so that the kernel refuses process_vm_* without CAP_SYS_PTRACE
 * method=M    other ranks' segments must be reached in this way: memcpy, process_vm or bounce
 * transport=T ... by this transport, if their ranks are on this host: shm if not given
 * segment=K   segments are memory of that kind: host, vulkan, cuda, file, or object: files of a
 *             directory, written in place
 * local=K     so is local memory, where guarantees make it of any kind but file and object; beside
 *             segments of host memory only guarantees that make it are run
 * mapped      the processor reads and writes segments of that kind; else only guarantees that do
 *             not look at them with it are run
 * direct      files are read and written past the page cache
 * scale=N     stress loops run N tenths of their rounds
 * without=N   not this guarantee
 * NAME        only these guarantees
 */
#include "conformance.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

struct conf conf = {
    .scale = 10, .transport = "shm", .segment_kind = NIXL_MEM_HOST, .local_kind = NIXL_MEM_HOST};

static const struct guarantee *const tables[] = {
    conf_kinds,         conf_data,         conf_order,
    conf_notify,        conf_region,       conf_close,
    conf_request,       conf_atomic,       conf_signal,
    conf_event,         conf_xfer,         conf_xfer_data,
    conf_channel,       conf_reduction,    conf_collective,
    conf_team,          conf_later,        conf_pair,
    conf_grant,         conf_extended,     conf_kinds_collective,
    conf_kinds_channel, conf_job,          conf_access,
    conf_extents,       conf_extents_xfer, conf_prepared,
    conf_mixture,
};
#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

static const struct guarantee *current;
static const char *operation; /* that it is about */
static const char *scope;     /* " between kinds" where local memory is of the kind asked for */

/* Guarantees that are left out. */
static const char *left_out[8];
static int n_left_out;

/* ---- what guarantees use --------------------------------------------------------------------- */

struct segment conf_segment(const char *name, size_t nbytes)
{
    return conf_segment_with(name, nbytes, 0);
}

/* Registered memory: in one piece, or as a region of extents that has only one. */
static struct nixl_region *register_segment(const char *name, void *addr, size_t nbytes,
                                            const struct nixl_mem_params *params)
{
    const struct nixl_extent extent = {addr, nbytes};
    struct nixl_region *region;

    if (conf.is_in_extents) {
        MPT_OK(nixl_region_register_extents(name, &extent, 1, params, &region));
        MPT_TRUE(nixl_region_addr(region) == NULL);
    } else {
        MPT_OK(nixl_region_register(name, addr, nbytes, params, &region));
        MPT_TRUE(nixl_region_addr(region) == addr);
    }
    return region;
}

struct segment conf_segment_with(const char *name, size_t nbytes, uint32_t access)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct segment segment = {.nbytes = nbytes};

    if (conf.segment_kind == NIXL_MEM_FILE) {
        return conf_file_segment(name, nbytes, access);
    }
    if (conf.segment_kind == NIXL_MEM_OBJECT) {
        return conf_directory_segment(name, nbytes, access);
    }
    params.access = access;
    if (conf.is_registered) {
        MPT_EQ(posix_memalign(&segment.own, 64, nbytes), 0);
        memset(segment.own, 0, nbytes);
        segment.region = register_segment(name, segment.own, nbytes, &params);
        segment.addr = segment.own;
    } else {
        params.kind = conf.segment_kind;
        MPT_OK(nixl_region_alloc(name, nbytes, &params, &segment.region));
        segment.addr = nixl_region_addr(segment.region);
        MPT_TRUE(segment.addr != NULL);
    }
    segment.bytes = conf.is_mapped ? (unsigned char *)segment.addr : NULL;
    MPT_EQ(nixl_region_nbytes(segment.region), nbytes);
    return segment;
}

void conf_drop(struct segment *segment)
{
    MPT_OK(nixl_region_close(segment->region, MPT_PATIENCE));
    if (conf.segment_kind == NIXL_MEM_FILE) {
        conf_file_unmap(segment);
    } else if (conf.segment_kind == NIXL_MEM_OBJECT) {
        conf_directory_remove(segment);
    }
    free(segment->own);
    *segment = (struct segment){0};
}

void conf_end(struct segment *segment)
{
    MPT_OK(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE));
    mpt_barrier();
    conf_drop(segment);
}

void conf_tell(int rank, uint64_t tag)
{
    MPT_OK(nixl_notify(rank, tag, NULL, 0, MPT_PATIENCE));
}

void conf_hear(int rank, uint64_t tag)
{
    static _Thread_local struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(rank, tag, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_EQ(note.rank, rank);
}

void conf_forget_late_puts(int rank)
{
    int status = nixl_flush(rank, MPT_PATIENCE);

    if (status != NIXL_E_STALE || mpt_scope(rank) != NIXL_SCOPE_REMOTE) {
        MPT_OK(status);
    }
}

void conf_spin(const volatile uint64_t *word, uint64_t value)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;

    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
        sched_yield();
        if (mpt_now_ns() > end_ns) {
            mpt_fail(__FILE__, __LINE__, "own word is still %" PRIu64 ", expected %" PRIu64, *word,
                     value);
        }
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void tell_failure(const char *file, int line, const char *text)
{
    printf("not ok %s%s: %s - rank %d: %s:%d: %s\n", current != NULL ? operation : "job",
           current != NULL ? scope : "", current != NULL ? current->name : "start", conf.rank, file,
           line, text);
}

/* Guarantees of these tables do not look at segments with the processor. */
static bool is_blind(const struct guarantee *table)
{
    return table == conf_kinds || table == conf_kinds_collective || table == conf_kinds_channel ||
           table == conf_xfer || table == conf_xfer_data || table == conf_event ||
           table == conf_job || table == conf_access;
}

/*
 * Guarantees of these tables move data from and into local memory of the kind that is asked for, or
 * of every kind. The others are about host memory whatever the kind, so that the walk over host
 * memory has seen them.
 */
static bool is_of_local(const struct guarantee *table)
{
    return table == conf_kinds || table == conf_kinds_collective || table == conf_kinds_channel ||
           table == conf_xfer || table == conf_xfer_data || table == conf_job;
}

static bool is_storage(enum nixl_mem_kind kind)
{
    return kind == NIXL_MEM_FILE || kind == NIXL_MEM_OBJECT;
}

/* Guarantees of these tables hold for storage, too: no word changes, and no pointer is needed. */
static bool is_of_storage(const struct guarantee *table)
{
    return table == conf_kinds || table == conf_data || table == conf_order ||
           table == conf_request || table == conf_close || table == conf_event ||
           table == conf_xfer || table == conf_xfer_data || table == conf_grant ||
           table == conf_pair;
}

static bool is_wanted(const struct guarantee *table, const struct guarantee *guarantee,
                      char **names)
{
    if (guarantee->run == NULL || (!conf.is_mapped && !is_blind(table)) ||
        ((guarantee->needs & CONF_THREADS) && conf.is_single) ||
        ((guarantee->needs & CONF_PEERS) && conf.size < 2) ||
        ((guarantee->needs & CONF_HOST) && conf.segment_kind != NIXL_MEM_HOST) ||
        (conf.segment_kind == NIXL_MEM_HOST && conf.local_kind != NIXL_MEM_HOST &&
         !is_of_local(table)) ||
        (is_storage(conf.segment_kind) &&
         (!is_of_storage(table) || (guarantee->needs & CONF_WORDS)))) {
        return false;
    }
    for (int i = 0; i < n_left_out; i++) {
        if (strcmp(left_out[i], guarantee->name) == 0) {
            return false;
        }
    }
    for (char **name = names; *name != NULL; name++) {
        if (strcmp(*name, guarantee->name) == 0) {
            return true;
        }
    }
    return *names == NULL;
}

static void walk(char **names)
{
    int n_wanted = 0;

    for (size_t i = 0; i < N_TABLES; i++) {
        for (const struct guarantee *guarantee = tables[i]; guarantee->name != NULL; guarantee++) {
            n_wanted += is_wanted(tables[i], guarantee, names);
        }
    }
    if (conf.rank == 0) {
        printf("1..%d\n", n_wanted);
    }
    for (size_t i = 0; i < N_TABLES; i++) {
        MPT_TRUE(tables[i]->run == NULL); /* an operation */
        scope =
            tables[i] == conf_kinds || tables[i] == conf_kinds_collective ? " between kinds" : "";
        for (current = tables[i]; current->name != NULL; current++) {
            int64_t start_ns = mpt_now_ns();

            operation = current->run == NULL ? current->name : operation;
            if (!is_wanted(tables[i], current, names)) {
                continue;
            }
            current->run();
            mpt_barrier();
            if (conf.rank == 0) {
                printf("ok %s%s: %s (%.0f ms)\n", operation, scope, current->name,
                       (double)(mpt_now_ns() - start_ns) / 1e6);
            }
        }
    }
    current = NULL;
}

static enum nixl_mem_kind kind_named(const char *name)
{
    static const struct {
        const char *name;
        enum nixl_mem_kind kind;
    } kinds[] = {{"host", NIXL_MEM_HOST},
                 {"vulkan", NIXL_MEM_VULKAN},
                 {"cuda", NIXL_MEM_CUDA},
                 {"file", NIXL_MEM_FILE},
                 {"object", NIXL_MEM_OBJECT}};
    size_t i = 0;

    while (i < sizeof(kinds) / sizeof(kinds[0]) && strcmp(name, kinds[i].name) != 0) {
        i++;
    }
    MPT_LT(i, sizeof(kinds) / sizeof(kinds[0]));
    return kinds[i].kind;
}

/* Is there a device for that kind? All ranks find the same, or the first guarantee fails. */
static bool is_kind_there(enum nixl_mem_kind kind)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_region *region;
    int status;

    if (is_storage(kind)) {
        return true;
    }
    params.kind = kind;
    status = nixl_region_alloc("kind", 4096, &params, &region);
    if (status == NIXL_E_NO_DEVICE) {
        return false;
    }
    MPT_OK(status);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    return true;
}

int main(int argc, char **argv)
{
    struct nixl_init_params params = NIXL_INIT_PARAMS_INIT;
    int i = 1;

    mpt_start();
    mpt_on_fail = tell_failure;
    for (; i < argc; i++) {
        if (strcmp(argv[i], "single") == 0) {
            conf.is_single = true;
        } else if (strcmp(argv[i], "registered") == 0) {
            conf.is_registered = true;
        } else if (strcmp(argv[i], "extents") == 0) {
            conf.is_in_extents = true;
        } else if (strcmp(argv[i], "forbidden") == 0) {
            MPT_EQ(prctl(PR_SET_DUMPABLE, 0), 0);
        } else if (strncmp(argv[i], "method=", 7) == 0) {
            conf.method = argv[i] + 7;
        } else if (strncmp(argv[i], "transport=", 10) == 0) {
            conf.transport = argv[i] + 10;
        } else if (strcmp(argv[i], "mapped") == 0) {
            conf.is_mapped = true;
        } else if (strcmp(argv[i], "direct") == 0) {
            conf.is_direct = true;
        } else if (strncmp(argv[i], "segment=", 8) == 0) {
            conf.segment_kind = kind_named(argv[i] + 8);
        } else if (strncmp(argv[i], "local=", 6) == 0) {
            conf.local_kind = kind_named(argv[i] + 6);
        } else if (strncmp(argv[i], "without=", 8) == 0) {
            MPT_LT(n_left_out, (int)(sizeof(left_out) / sizeof(left_out[0])));
            left_out[n_left_out++] = argv[i] + 8;
        } else if (strncmp(argv[i], "scale=", 6) == 0) {
            conf.scale = (unsigned)atoi(argv[i] + 6);
        } else {
            break;
        }
    }
    conf_note_signals();
    conf.is_mapped |= conf.segment_kind == NIXL_MEM_HOST;
    params.thread_level = conf.is_single ? NIXL_THREAD_SINGLE : NIXL_THREAD_MULTIPLE;
    MPT_OK(nixl_init(&params));
    conf.rank = nixl_rank();
    conf.size = nixl_size();
    conf.next = (conf.rank + 1) % conf.size;
    conf.prev = (conf.rank + conf.size - 1) % conf.size;
    conf.partner = (conf.rank ^ 1) < conf.size ? conf.rank ^ 1 : -1;
    if (is_kind_there(conf.segment_kind) && is_kind_there(conf.local_kind)) {
        walk(argv + i);
    } else if (conf.rank == 0) {
        printf("1..0 # SKIP %s\n", nixl_last_error()->text);
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
