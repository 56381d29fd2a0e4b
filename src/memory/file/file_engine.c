/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage engine of the process: which one, and why. It is started with the first file and
 * stopped by the last finalize. Locks: engine_lock; armed_lock for arming it, in which the engine's
 * own is taken, inside of that of copy.c.
 */
#include "config.h"

#include "core/service.h"
#include "memory/file/engine.h"
#include "util/env.h"
#include "util/log.h"
#include "util/module.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct nxr_storage_engine *_Atomic file_engine;
static struct nxr_storage_core file_engine_core;
static char why_not_uring[200]; /* constant once the engine is started */
static pthread_mutex_t armed_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned n_armed_copies;

static int uring_start(const struct nxr_storage_engine **engine_p, char *why, size_t why_nbytes)
{
    const struct nxr_storage_engine *engine;
    void *library;

    if (strcmp(nxr_env.storage, "threads") == 0) {
        snprintf(why, why_nbytes, "NIXLRUN_STORAGE is threads");
        return NIXL_E_UNSUPPORTED;
    }
    engine = nxr_module_load("uring", "nxr_storage_uring", &library, why, why_nbytes);
    if (engine == NULL) {
        return NIXL_E_UNSUPPORTED;
    }
    if (engine->abi != NXR_STORAGE_ABI) {
        nxr_module_is_of_other_version("uring", why, why_nbytes);
        return NIXL_E_UNSUPPORTED;
    }
    *engine_p = engine;
    return engine->start(&file_engine_core, why, why_nbytes);
}

/* Caller holds the lock. */
static int engine_choose(char *why, size_t why_nbytes)
{
    const struct nxr_storage_engine *engine = NULL;
    int status;

    file_engine_core.wake_fd = nxr_service_kick_fd();
    file_engine_core.wake = nxr_device_ended;
    why_not_uring[0] = '\0';
    status = uring_start(&engine, why_not_uring, sizeof(why_not_uring));
    if (status != NIXL_OK && strcmp(nxr_env.storage, "io_uring") == 0) {
        snprintf(why, why_nbytes, "NIXLRUN_STORAGE is io_uring: %.150s", why_not_uring);
        return NIXL_E_NO_DEVICE;
    }
    if (status != NIXL_OK) {
        engine = &nxr_storage_threads;
        status = engine->start(&file_engine_core, why, why_nbytes);
    }
    if (status != NIXL_OK) {
        return NIXL_E_NO_DEVICE;
    }
    nxr_info(MEMORY, "files are read and written by %s%s%s", engine->name,
             why_not_uring[0] != '\0' ? ": " : "", why_not_uring);
    atomic_store(&file_engine, engine);
    return NIXL_OK;
}

int nxr_file_engine_start(char *why, size_t why_nbytes)
{
    int status = NIXL_OK;

    pthread_mutex_lock(&engine_lock);
    if (atomic_load(&file_engine) == NULL) {
        status = engine_choose(why, why_nbytes);
    }
    pthread_mutex_unlock(&engine_lock);
    return status;
}

void nxr_file_engine_stop(void)
{
    const struct nxr_storage_engine *engine;

    pthread_mutex_lock(&engine_lock);
    engine = atomic_exchange(&file_engine, NULL);
    if (engine != NULL) {
        engine->stop();
    }
    pthread_mutex_unlock(&engine_lock);
}

const struct nxr_storage_engine *nxr_file_engine(const char **why_p)
{
    if (why_p != NULL) {
        *why_p = why_not_uring;
    }
    return atomic_load_explicit(&file_engine, memory_order_acquire);
}

/* ---- what the kinds have in common ----------------------------------------------------------- */

void nxr_file_engine_go(void)
{
    const struct nxr_storage_engine *engine = nxr_file_engine(NULL);

    if (engine != NULL) {
        engine->submit(NULL, false);
    }
}

void nxr_file_engine_poll(void)
{
    const struct nxr_storage_engine *engine = nxr_file_engine(NULL);

    if (engine != NULL) {
        (void)engine->poll();
    }
}

bool nxr_file_engine_sleep(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns)
{
    const struct nxr_storage_engine *engine = nxr_file_engine(NULL);

    return engine != NULL && engine->sleep != NULL && engine->sleep(word, value, timeout_ns);
}

void nxr_file_engine_arm(void)
{
    pthread_mutex_lock(&armed_lock);
    n_armed_copies++;
    nxr_file_engine(NULL)->arm();
    pthread_mutex_unlock(&armed_lock);
}

void nxr_file_engine_disarm(void)
{
    pthread_mutex_lock(&armed_lock);
    if (--n_armed_copies == 0) {
        nxr_file_engine(NULL)->disarm();
    }
    pthread_mutex_unlock(&armed_lock);
}
