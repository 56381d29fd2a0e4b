/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch: a thread that sleeps in the driver for batches that are no longer polled, and wakes
 * this process when one has ended. It is started for the first such batch, and runs until the last
 * finalize.
 *
 * Lock: vulkan_watch_lock guards the list. The thread releases it while it waits for a batch's
 * fence, and marks the batch for that time. The batch's owner waits until the mark is gone before
 * it reuses the batch. By then the batch has ended, so that wait is short.
 */
#include "config.h"

#include "memory/vulkan/vulkan.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/thread.h"

#include <string.h>

#define STACK_NBYTES (256u << 10)

/*
 * One of several waits: how late the watch may notice a batch that was added later and ended first.
 */
#define WAIT_NS (1 * NXR_MS)

static pthread_mutex_t vulkan_watch_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t vulkan_watch_has_changed = PTHREAD_COND_INITIALIZER;
static struct nxr_list watched = {&watched, &watched}; /* oldest first */
static pthread_t vulkan_watch_thread;
static bool is_running, must_stop;

/* Wait a while for the oldest. Caller holds the lock, which is released meanwhile. Has it ended? */
static bool vulkan_watch_look_at(struct nxr_vulkan_batch *batch)
{
    VkResult result;

    batch->is_looked_at = true;
    pthread_mutex_unlock(&vulkan_watch_lock);
    result = nxr_vk.WaitForFences(batch->device->device, 1, &batch->fence, VK_TRUE, WAIT_NS);
    pthread_mutex_lock(&vulkan_watch_lock);
    batch->is_looked_at = false;
    pthread_cond_broadcast(&vulkan_watch_has_changed);
    return result != VK_TIMEOUT;
}

static void *vulkan_watch_watch(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&vulkan_watch_lock);
    while (!must_stop) {
        struct nxr_list *link = watched.next;

        if (nxr_list_is_empty(&watched)) {
            pthread_cond_wait(&vulkan_watch_has_changed, &vulkan_watch_lock);
            continue;
        }
        nxr_list_remove(link);
        if (vulkan_watch_look_at(nxr_list_entry(link, struct nxr_vulkan_batch, watch_link))) {
            pthread_mutex_unlock(&vulkan_watch_lock);
            nxr_device_ended();
            pthread_mutex_lock(&vulkan_watch_lock);
        } else {
            nxr_list_append(&watched, link);
        }
    }
    pthread_mutex_unlock(&vulkan_watch_lock);
    return NULL;
}

void nxr_vulkan_watch(struct nxr_vulkan_batch *batch)
{
    int error = 0;

    pthread_mutex_lock(&vulkan_watch_lock);
    if (!is_running) {
        must_stop = false;
        error = nxr_thread_start(&vulkan_watch_thread, STACK_NBYTES, vulkan_watch_watch, NULL);
        is_running = error == 0;
    }
    batch->is_armed = true;
    nxr_list_append(&watched, &batch->watch_link);
    pthread_cond_broadcast(&vulkan_watch_has_changed);
    pthread_mutex_unlock(&vulkan_watch_lock);
    if (error != 0) {
        /* Without a watch thread, wait for the copy here: late, but no thread sleeps forever. */
        nxr_warn(MEMORY, "vulkan: cannot start the thread that watches copies: %s",
                 strerror(error));
        nxr_vulkan_batch_wait(batch);
        nxr_vulkan_unwatch(batch);
        nxr_device_ended();
    }
}

void nxr_vulkan_unwatch(struct nxr_vulkan_batch *batch)
{
    pthread_mutex_lock(&vulkan_watch_lock);
    while (batch->is_looked_at) {
        pthread_cond_wait(&vulkan_watch_has_changed, &vulkan_watch_lock);
    }
    nxr_list_remove(&batch->watch_link);
    pthread_mutex_unlock(&vulkan_watch_lock);
}

void nxr_vulkan_watch_stop(void)
{
    bool was_running;

    pthread_mutex_lock(&vulkan_watch_lock);
    was_running = is_running;
    must_stop = true;
    is_running = false;
    pthread_cond_broadcast(&vulkan_watch_has_changed);
    pthread_mutex_unlock(&vulkan_watch_lock);
    if (was_running) {
        pthread_join(vulkan_watch_thread, NULL);
    }
}
