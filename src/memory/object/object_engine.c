/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines for objects: that of S3, which is loaded, and that of directories. Each is started
 * with its first region; both are stopped by the last finalize. Lock: object_engine_lock.
 */
#include "config.h"

#include "memory/file/engine.h"
#include "memory/object/kind.h"
#include "memory/object/object.h"
#include "util/log.h"
#include "util/module.h"

#include <stdio.h>

static pthread_mutex_t object_engine_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct nxr_object_engine *_Atomic object_engine; /* of S3 */
static atomic_bool has_directory_engine;

/* Caller holds the lock. */
static int object_engine_load(char *why, size_t why_nbytes)
{
    const struct nxr_object_engine *engine;
    char reason[200];
    void *library;
    int status;

    engine = nxr_module_load("s3", NXR_OBJECT_SYMBOL, &library, reason, sizeof(reason));
    if (engine != NULL && engine->abi != NXR_OBJECT_ABI) {
        nxr_module_is_of_other_version("s3", reason, sizeof(reason));
        engine = NULL;
    }
    if (engine == NULL) {
        snprintf(
            why, why_nbytes,
            "objects need the module for S3, which is built with libcurl 7.87 or newer: %.150s",
            reason);
        return NIXL_E_UNSUPPORTED;
    }
    status = engine->start(why, why_nbytes);
    if (status == NIXL_OK) {
        nxr_info(MEMORY, "objects are read and written by %s: %s", engine->name,
                 engine->libraries());
        atomic_store(&object_engine, engine);
    }
    return status;
}

int nxr_object_engine_start(char *why, size_t why_nbytes)
{
    int status = NIXL_OK;

    pthread_mutex_lock(&object_engine_lock);
    if (atomic_load(&object_engine) == NULL) {
        status = object_engine_load(why, why_nbytes);
    }
    pthread_mutex_unlock(&object_engine_lock);
    return status;
}

int nxr_objects_start_directory(char *why, size_t why_nbytes)
{
    int status = nxr_file_engine_start(why, why_nbytes);

    if (status != NIXL_OK) {
        return status;
    }

    pthread_mutex_lock(&object_engine_lock);
    if (!atomic_load(&has_directory_engine)) {
        status = nxr_object_directory.start(why, why_nbytes);
        atomic_store(&has_directory_engine, status == NIXL_OK);
    }
    pthread_mutex_unlock(&object_engine_lock);
    return status;
}

void nxr_object_engine_stop(void)
{
    const struct nxr_object_engine *engine;

    pthread_mutex_lock(&object_engine_lock);
    engine = atomic_exchange(&object_engine, NULL);
    if (engine != NULL) {
        engine->stop();
    }
    if (atomic_exchange(&has_directory_engine, false)) {
        nxr_object_directory.stop();
    }
    pthread_mutex_unlock(&object_engine_lock);
}

const struct nxr_object_engine *nxr_object_engine_now(bool is_directory)
{
    return is_directory ? &nxr_object_directory
                        : atomic_load_explicit(&object_engine, memory_order_acquire);
}
