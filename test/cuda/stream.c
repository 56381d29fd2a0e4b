/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: a queue and a thread each, so that a call that returns has done nothing yet. Work of one
 * stream ends in its order; streams do not wait for each other, also not for the default one.
 */
#define _GNU_SOURCE
#include "test/cuda/fake.h"
#include "test/cuda/functions.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PIECE_NBYTES ((size_t)1 << 20)
#define POLL_NS      20000

static struct fake_stream *streams;

int fake_pid(void)
{
    return getpid();
}

static void pause_for(long ns)
{
    struct timespec time = {ns / 1000000000, ns % 1000000000};

    nanosleep(&time, NULL);
}

/*
 * Long copies in pieces, so that something can happen in the middle of one; late ones, so that who
 * reads the destination or changes the source without waiting is found out.
 */
static void copy(char *dst, const char *src, size_t nbytes)
{
    for (size_t done = 0; done < nbytes; done += PIECE_NBYTES) {
        size_t piece = nbytes - done < PIECE_NBYTES ? nbytes - done : PIECE_NBYTES;

        if (fake_settings.delay_us > 0) {
            pause_for(fake_settings.delay_us * 1000);
        }
        memmove(dst + done, src + done, piece);
    }
}

static bool is_reached(const struct fake_work *work)
{
    uint64_t now, value = work->value;
    int64_t distance;

    if (work->nbytes == 4) {
        now = atomic_load((_Atomic uint32_t *)(void *)work->dst);
        distance = (int32_t)((uint32_t)now - (uint32_t)value);
    } else {
        now = atomic_load((_Atomic uint64_t *)(void *)work->dst);
        distance = (int64_t)(now - value);
    }
    switch (work->flags & 3) {
    case CU_WAIT_GEQ:
        return distance >= 0;
    case CU_WAIT_EQ:
        return distance == 0;
    case CU_WAIT_AND:
        return (now & value) != 0;
    default:
        return ~(now | value) != 0;
    }
}

static void write_word(const struct fake_work *work)
{
    if (work->nbytes == 4) {
        atomic_store((_Atomic uint32_t *)(void *)work->dst, (uint32_t)work->value);
    } else {
        atomic_store((_Atomic uint64_t *)(void *)work->dst, work->value);
    }
}

/* Without the lock. */
static void work_do(const struct fake_work *work)
{
    switch (work->kind) {
    case FAKE_COPY:
        copy(work->dst, work->src, work->nbytes);
        break;
    case FAKE_FILL:
        memset(work->dst, (int)work->value, work->nbytes);
        break;
    case FAKE_CALL:
        fake_is_host_func = true;
        work->function(work->data);
        fake_is_host_func = false;
        break;
    case FAKE_WRITE_WORD:
        write_word(work);
        break;
    case FAKE_WAIT_WORD:
        while (!is_reached(work)) {
            pause_for(POLL_NS);
        }
        break;
    case FAKE_RECORD:
        fake_event_done(work->event, work->value);
        break;
    case FAKE_WAIT_EVENT:
        fake_event_await(work->event, work->value);
        break;
    case FAKE_FREE:
        pthread_mutex_lock(&fake_lock);
        fake_range_wait(work->data);
        fake_pool_free(work->data);
        pthread_mutex_unlock(&fake_lock);
        break;
    case FAKE_KERNEL:
        pause_for(fake_settings.delay_us * 1000);
        fake_kernel_run(work);
        break;
    }
}

static void *stream_main(void *arg)
{
    struct fake_stream *stream = arg;
    struct fake_work *work;

    pthread_mutex_lock(&fake_lock);
    while (stream->first != NULL || !stream->is_destroyed) {
        if (stream->first == NULL) {
            pthread_cond_wait(&stream->has_work, &fake_lock);
            continue;
        }
        work = stream->first;
        stream->first = work->next;
        if (stream->first == NULL) {
            stream->last_p = &stream->first;
        }
        stream->is_working = true;
        pthread_mutex_unlock(&fake_lock);
        work_do(work);
        pthread_mutex_lock(&fake_lock);
        stream->is_working = false;
        for (int i = 0; i < FAKE_WORK_RANGES; ++i) {
            if (work->ranges[i] != NULL) {
                --work->ranges[i]->n_uses;
            }
        }
        free(work);
        pthread_cond_broadcast(&fake_changed);
    }
    for (struct fake_stream **stream_p = &streams; *stream_p != NULL;
         stream_p = &(*stream_p)->next) {
        if (*stream_p == stream) {
            *stream_p = stream->next;
            break;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    free(stream);
    return NULL;
}

/* Under the lock. */
static struct fake_stream *stream_new(struct fake_context *context)
{
    struct fake_stream *stream = calloc(1, sizeof(*stream));

    if (stream == NULL) {
        return NULL;
    }
    stream->context = context;
    stream->last_p = &stream->first;
    pthread_cond_init(&stream->has_work, NULL);
    if (pthread_create(&stream->thread, NULL, stream_main, stream) != 0) {
        free(stream);
        return NULL;
    }
    pthread_detach(stream->thread);
    stream->next = streams;
    streams = stream;
    return stream;
}

struct fake_stream *fake_stream_find(struct fake_stream *stream)
{
    struct fake_context *context = fake_current();
    struct fake_stream **default_p;

    if (context == NULL) {
        return NULL;
    }
    if (stream == FAKE_STREAM_DEFAULT || stream == FAKE_STREAM_LEGACY ||
        stream == FAKE_STREAM_PER_THREAD) {
        default_p = stream == FAKE_STREAM_PER_THREAD ? &context->per_thread : &context->legacy;
        if (*default_p == NULL) {
            *default_p = stream_new(context);
        }
        return *default_p;
    }
    for (struct fake_stream *there = streams; there != NULL; there = there->next) {
        if (there == stream && !there->is_destroyed) {
            return there;
        }
    }
    fake_misuse("%p is no stream", (void *)stream);
}

int fake_stream_add(struct fake_stream *stream, const struct fake_work *work)
{
    struct fake_work *copied = malloc(sizeof(*copied));

    if (copied == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    *copied = *work;
    copied->next = NULL;
    for (int i = 0; i < FAKE_WORK_RANGES; ++i) {
        if (copied->ranges[i] != NULL) {
            ++copied->ranges[i]->n_uses;
        }
    }
    *stream->last_p = copied;
    stream->last_p = &copied->next;
    pthread_cond_signal(&stream->has_work);
    return CU_OK;
}

static bool is_idle(const struct fake_stream *stream)
{
    return stream->first == NULL && !stream->is_working;
}

/* Until what is queued now has ended: nobody else should add to it meanwhile. */
void fake_stream_drain(struct fake_stream *stream)
{
    while (!is_idle(stream)) {
        pthread_cond_wait(&fake_changed, &fake_lock);
    }
}

static bool is_context_idle(const struct fake_context *context)
{
    for (const struct fake_stream *stream = streams; stream != NULL; stream = stream->next) {
        if (stream->context == context && !is_idle(stream)) {
            return false;
        }
    }
    return true;
}

void fake_context_drain(struct fake_context *context)
{
    while (!is_context_idle(context)) {
        pthread_cond_wait(&fake_changed, &fake_lock);
    }
}

FAKE_API int cuStreamCreate(struct fake_stream **stream_p, unsigned flags)
{
    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    if (flags > 1) {
        return CU_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    *stream_p = stream_new(fake_current());
    pthread_mutex_unlock(&fake_lock);
    return *stream_p != NULL ? CU_OK : CU_OUT_OF_MEMORY;
}

FAKE_API int cuStreamCreateWithPriority(struct fake_stream **stream_p, unsigned flags, int priority)
{
    (void)priority;
    return cuStreamCreate(stream_p, flags);
}

FAKE_API int cuStreamDestroy_v2(struct fake_stream *stream)
{
    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    pthread_mutex_lock(&fake_lock);
    fake_stream_find(stream)->is_destroyed = true;
    pthread_cond_signal(&stream->has_work);
    pthread_mutex_unlock(&fake_lock);
    return CU_OK;
}

FAKE_API int cuStreamQuery(struct fake_stream *stream)
{
    int result = CU_INVALID_CONTEXT;

    ENTER();
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_find(stream);
    if (stream != NULL) {
        result = is_idle(stream) ? CU_OK : CU_NOT_READY;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API int cuStreamSynchronize(struct fake_stream *stream)
{
    ENTER();
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_find(stream);
    if (stream != NULL) {
        fake_stream_drain(stream);
    }
    pthread_mutex_unlock(&fake_lock);
    return stream != NULL ? CU_OK : CU_INVALID_CONTEXT;
}

FAKE_API int cuStreamGetCtx(struct fake_stream *stream, struct fake_context **context_p)
{
    ENTER();
    pthread_mutex_lock(&fake_lock);
    if (stream == FAKE_STREAM_DEFAULT || stream == FAKE_STREAM_LEGACY ||
        stream == FAKE_STREAM_PER_THREAD) {
        *context_p = fake_current();
    } else {
        *context_p = NULL;
        for (struct fake_stream *there = streams; there != NULL; there = there->next) {
            *context_p = there == stream && !there->is_destroyed ? there->context : *context_p;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return *context_p != NULL ? CU_OK : CU_INVALID_CONTEXT;
}

FAKE_API int cuStreamIsCapturing(struct fake_stream *stream, int *status_p)
{
    ENTER();
    (void)stream;
    *status_p = 0;
    return CU_OK;
}
