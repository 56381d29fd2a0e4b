/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of devices that have ended, and who finds out. The device is made up. Linked with
 * --wrap=pthread_mutex_lock.
 */
#include "core/subsystem.h"
#include "memory/device.h"
#include "memory/memory.h"

#include "test/unit/unit.h"

#include <pthread.h>
#include <sched.h>

TestSuite(device_copy, .timeout = 60);

static struct nxr_device_copy first, last;
static atomic_bool first_has_ended, is_serving;
static atomic_int n_ended;
static atomic_bool has_served; /* or it waits for the lock */
static __thread bool is_service;
static pthread_t service;

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    if (is_service) {
        atomic_store(&has_served, true);
    }
    return __real_pthread_mutex_lock(lock);
}

/* The service thread has been kicked, and sleeps after this round. */
static void *serve(void *arg)
{
    is_service = true;
    nxr_device_subsystem.serve();
    atomic_store(&has_served, true);
    return arg;
}

/* The first one ends when it has been asked already, while the last one is asked. */
static int device_test(struct nxr_device_copy *copy)
{
    if (copy == &last && !atomic_exchange(&is_serving, true)) {
        atomic_store(&first_has_ended, true);
        cr_assert_eq(pthread_create(&service, NULL, serve, NULL), 0);
        while (!atomic_load(&has_served)) {
            sched_yield();
        }
    }
    return copy == &first && atomic_load(&first_has_ended) ? NIXL_OK : NIXL_INPROGRESS;
}

static int device_start(struct nxr_device_copy *copy)
{
    (void)copy;
    return NIXL_INPROGRESS;
}

static void device_arm(struct nxr_device_copy *copy)
{
    (void)copy;
}

static void ended(struct nxr_device_copy *copy, int status)
{
    cr_expect(copy == &first);
    cr_expect_eq(status, NIXL_OK);
    atomic_fetch_add(&n_ended, 1);
}

Test(device_copy, the_service_thread_looks_though_another_one_does)
{
    static const struct nxr_memory_kind kind = {.kind = NIXL_MEM_CUDA,
                                                .copy_start = device_start,
                                                .copy_test = device_test,
                                                .copy_arm = device_arm};
    static const struct nxr_range range = {.kind = &kind};

    first = last = (struct nxr_device_copy){.src = &range, .ended = ended};
    cr_assert_eq(nxr_device_copy_begin(&first), NIXL_INPROGRESS);
    cr_assert_eq(nxr_device_copy_begin(&last), NIXL_INPROGRESS);
    nxr_device_arm();
    cr_expect_eq(nxr_device_progress(), 0);
    cr_assert_eq(pthread_join(service, NULL), 0);
    cr_expect_eq(atomic_load(&n_ended), 1, "no other thread ends it");
}
