/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk: reads how it is wanted, runs every guarantee, prints TAP.
 *
 *     conformance [single] [registered] [forbidden] [method=METHOD] [scale=TENTHS] [NAME...]
 *
 * single      NIXL_THREAD_SINGLE; what needs threads is left out
 * registered  parts are registered memory
 * forbidden   not dumpable, so that the kernel refuses process_vm_* without CAP_SYS_PTRACE
 * method=M    other ranks' parts must be reached in this way: memcpy, process_vm or bounce
 * scale=N     stress loops run N tenths of their rounds
 * NAME        only these guarantees
 */
#include "conformance.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

struct conf conf = {.scale = 10};

static const struct guarantee *const tables[] = {
    conf_data,    conf_order,  conf_notify, conf_region, conf_close,
    conf_request, conf_atomic, conf_signal, conf_event,  conf_job,
};
#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

static const struct guarantee *current;

/* ---- what guarantees use --------------------------------------------------------------------- */

struct part conf_part(const char *name, size_t nbytes)
{
    struct part part = {.nbytes = nbytes};

    if (conf.is_registered) {
        MPT_EQ(posix_memalign(&part.own, 64, nbytes), 0);
        memset(part.own, 0, nbytes);
        MPT_OK(nixl_region_register(name, part.own, nbytes, NULL, &part.region));
        MPT_TRUE(nixl_region_addr(part.region) == part.own);
    } else {
        MPT_OK(nixl_region_alloc(name, nbytes, NULL, &part.region));
    }
    part.bytes = nixl_region_addr(part.region);
    MPT_TRUE(part.bytes != NULL);
    MPT_EQ(nixl_region_nbytes(part.region), nbytes);
    return part;
}

void conf_drop(struct part *part)
{
    MPT_OK(nixl_region_close(part->region, MPT_PATIENCE));
    free(part->own);
    *part = (struct part){0};
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
    printf("not ok %s - rank %d: %s:%d: %s\n", current != NULL ? current->name : "start", conf.rank,
           file, line, text);
}

static bool is_wanted(const struct guarantee *guarantee, char **names)
{
    if (((guarantee->needs & CONF_THREADS) && conf.is_single) ||
        ((guarantee->needs & CONF_PEERS) && conf.size < 2)) {
        return false;
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
            n_wanted += is_wanted(guarantee, names);
        }
    }
    if (conf.rank == 0) {
        printf("1..%d\n", n_wanted);
    }
    for (size_t i = 0; i < N_TABLES; i++) {
        for (current = tables[i]; current->name != NULL; current++) {
            int64_t start_ns = mpt_now_ns();

            if (!is_wanted(current, names)) {
                continue;
            }
            current->run();
            mpt_barrier();
            if (conf.rank == 0) {
                printf("ok %s (%.0f ms)\n", current->name, (double)(mpt_now_ns() - start_ns) / 1e6);
            }
        }
    }
    current = NULL;
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
        } else if (strcmp(argv[i], "forbidden") == 0) {
            MPT_EQ(prctl(PR_SET_DUMPABLE, 0), 0);
        } else if (strncmp(argv[i], "method=", 7) == 0) {
            conf.method = argv[i] + 7;
        } else if (strncmp(argv[i], "scale=", 6) == 0) {
            conf.scale = (unsigned)atoi(argv[i] + 6);
        } else {
            break;
        }
    }
    conf_note_signals();
    params.thread_level = conf.is_single ? NIXL_THREAD_SINGLE : NIXL_THREAD_MULTIPLE;
    MPT_OK(nixl_init(&params));
    conf.rank = nixl_rank();
    conf.size = nixl_size();
    conf.next = (conf.rank + 1) % conf.size;
    conf.prev = (conf.rank + conf.size - 1) % conf.size;
    conf.partner = (conf.rank ^ 1) < conf.size ? conf.rank ^ 1 : -1;
    walk(argv + i);
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
