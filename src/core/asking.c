/* SPDX-License-Identifier: Apache-2.0 */
/* The questions that threads wait for. Lock: asking_lock, with leaf locks of wake() inside it. */
#include "config.h"

#include "core/asking.h"
#include "core/job.h"
#include "util/status.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t asking_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list asked = {&asked, &asked}; /* asking_lock */

void nxr_asking_begin(struct nxr_asking *asking, void (*wake)(struct nxr_asking *asking))
{
    asking->thread = (pid_t)syscall(SYS_gettid);
    asking->wake = wake;
    atomic_init(&asking->is_canceled, false);
    pthread_mutex_lock(&asking_lock);
    nxr_list_append(&asked, &asking->link);
    pthread_mutex_unlock(&asking_lock);
}

void nxr_asking_end(struct nxr_asking *asking)
{
    pthread_mutex_lock(&asking_lock);
    nxr_list_remove(&asking->link);
    pthread_mutex_unlock(&asking_lock);
}

int nixl_question_cancel(int64_t thread)
{
    static const char operation[] = "nixl_question_cancel";
    int status = nxr_check_ready(operation);
    struct nxr_list *link, *after;
    bool is_found = false;

    if (status != NIXL_OK) {
        return status;
    }
    if (thread < 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "thread is %lld; allowed: what gettid() gives a thread, or 0: all",
                        (long long)thread);
    }
    pthread_mutex_lock(&asking_lock);
    nxr_list_for_each (link, after, &asked) {
        struct nxr_asking *asking = nxr_list_entry(link, struct nxr_asking, link);

        if (thread == 0 || asking->thread == thread) {
            is_found = true;
            atomic_store_explicit(&asking->is_canceled, true, memory_order_release);
            asking->wake(asking);
        }
    }
    pthread_mutex_unlock(&asking_lock);
    return is_found ? NIXL_OK : NIXL_INPROGRESS;
}
