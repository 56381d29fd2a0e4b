/* SPDX-License-Identifier: Apache-2.0 */
/* What the PMIx clients of the launcher's tests share. A failed check ends the job with code 99. */
#ifndef TEST_LAUNCHER_PMIX_CLIENT_H
#define TEST_LAUNCHER_PMIX_CLIENT_H

#include <pmix.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pmix_proc_t self;
static pmix_proc_t everybody;
static uint32_t job_size;

#define CHECK(_condition)                                                                          \
    do {                                                                                           \
        if (!(_condition)) {                                                                       \
            fprintf(stderr, "%s:%d: rank %u: %s\n", __FILE__, __LINE__, self.rank, #_condition);   \
            PMIx_Abort(99, "a check failed", NULL, 0);                                             \
            _exit(99);                                                                             \
        }                                                                                          \
    } while (0)

/* The call must give this status; its text is shown if not. */
#define CHECK_STATUS(_call, _wanted)                                                               \
    do {                                                                                           \
        pmix_status_t got_ = (_call);                                                              \
        if (got_ != (_wanted)) {                                                                   \
            fprintf(stderr, "%s gave %s\n", #_call, PMIx_Error_string(got_));                      \
        }                                                                                          \
        CHECK(got_ == (_wanted));                                                                  \
    } while (0)
#define CHECK_OK(_call) CHECK_STATUS(_call, PMIX_SUCCESS)

static inline int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000ll + now.tv_nsec / 1000;
}

static inline void client_init(void)
{
    pmix_value_t *value;

    CHECK_OK(PMIx_Init(&self, NULL, 0));
    PMIX_LOAD_PROCID(&everybody, self.nspace, PMIX_RANK_WILDCARD);
    CHECK_OK(PMIx_Get(&everybody, PMIX_JOB_SIZE, NULL, 0, &value));
    job_size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
}

static inline void fence(void)
{
    CHECK_OK(PMIx_Fence(&everybody, 1, NULL, 0));
}

/* Something that one thread waits for and another reports. */
struct signal {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int count;
};
#define SIGNAL_INIT                                                                                \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0                                     \
    }

static inline void signal_tell(struct signal *signal)
{
    pthread_mutex_lock(&signal->lock);
    signal->count++;
    pthread_cond_broadcast(&signal->changed);
    pthread_mutex_unlock(&signal->lock);
}

static inline void signal_wait(struct signal *signal, int count)
{
    pthread_mutex_lock(&signal->lock);
    while (signal->count < count) {
        pthread_cond_wait(&signal->changed, &signal->lock);
    }
    pthread_mutex_unlock(&signal->lock);
}

/* Run the service named by argv[1] between init and finalize. */
struct service {
    const char *name;
    void (*run)(int argc, char **argv);
};

static inline int client_main(int argc, char **argv, const struct service *services, size_t n)
{
    for (size_t i = 0; i < n && argc > 1; i++) {
        if (strcmp(argv[1], services[i].name) == 0) {
            client_init();
            services[i].run(argc, argv);
            CHECK_OK(PMIx_Finalize(NULL, 0));
            return 0;
        }
    }
    fprintf(stderr, "%s: no service '%s'\n", argv[0], argc > 1 ? argv[1] : "");
    return 2;
}

#endif
