/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: a number that grows with each record, and the one that was reached. A wait means the
 * record that was the last one when it was queued. Under the lock.
 */
#include "test/cuda/fake.h"
#include "test/cuda/functions.h"

#include <stdlib.h>

struct fake_event {
    struct fake_context *context;
    uint64_t recorded, reached;
    int n_queued; /* records and waits that have not had their turn */
    bool is_destroyed;
};

static void event_drop(struct fake_event *event)
{
    if (event->is_destroyed && event->n_queued == 0) {
        free(event);
    }
}

void fake_event_done(struct fake_event *event, uint64_t number)
{
    pthread_mutex_lock(&fake_lock);
    event->reached = number;
    --event->n_queued;
    pthread_cond_broadcast(&fake_changed);
    event_drop(event);
    pthread_mutex_unlock(&fake_lock);
}

void fake_event_await(struct fake_event *event, uint64_t number)
{
    pthread_mutex_lock(&fake_lock);
    while (event->reached < number) {
        pthread_cond_wait(&fake_changed, &fake_lock);
    }
    --event->n_queued;
    event_drop(event);
    pthread_mutex_unlock(&fake_lock);
}

FAKE_API int cuEventCreate(struct fake_event **event_p, unsigned flags)
{
    struct fake_event *event;

    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    if ((flags & 4) != 0) {
        return CU_NOT_SUPPORTED; /* events between processes: the library uses none */
    }
    event = calloc(1, sizeof(*event));
    if (event == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    event->context = fake_current();
    *event_p = event;
    return CU_OK;
}

FAKE_API int cuEventDestroy_v2(struct fake_event *event)
{
    ENTER();
    pthread_mutex_lock(&fake_lock);
    if (event->is_destroyed) {
        fake_misuse("cuEventDestroy(): twice");
    }
    event->is_destroyed = true;
    event_drop(event);
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

FAKE_API int cuEventRecord(struct fake_event *event, struct fake_stream *stream)
{
    struct fake_work work = {.kind = FAKE_RECORD, .event = event};
    int result;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_find(stream);
    if (stream == NULL) {
        result = CU_INVALID_CONTEXT;
    } else if (event->is_destroyed || stream->context != event->context) {
        fake_misuse("cuEventRecord(): the event is of another context than the stream, or gone");
    } else {
        work.value = event->recorded + 1;
        result = fake_stream_add(stream, &work);
        if (result == CU_OK) {
            ++event->recorded;
            ++event->n_queued;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API int cuEventQuery(struct fake_event *event)
{
    int result;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    if (event->is_destroyed) {
        fake_misuse("cuEventQuery(): the event was destroyed");
    }
    result = event->reached == event->recorded ? CU_OK : CU_NOT_READY;
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API int cuEventSynchronize(struct fake_event *event)
{
    ENTER();
    pthread_mutex_lock(&fake_lock);
    while (event->reached < event->recorded) {
        pthread_cond_wait(&fake_changed, &fake_lock);
    }
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

FAKE_API int cuStreamWaitEvent(struct fake_stream *stream, struct fake_event *event, unsigned flags)
{
    struct fake_work work = {.kind = FAKE_WAIT_EVENT, .event = event};
    int result;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_find(stream);
    if (stream == NULL || flags != 0) {
        result = stream == NULL ? CU_INVALID_CONTEXT : CU_INVALID_VALUE;
    } else {
        work.value = event->recorded;
        result = fake_stream_add(stream, &work);
        event->n_queued += result == CU_OK;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}
