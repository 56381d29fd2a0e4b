/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of the relay in a binary heap by time and number. No lock: one thread.
 */
#include "test/net/relay_queue.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FRAME_MOST_NBYTES = 65536 };

struct relay_frame *relay_frame_read(int fd)
{
    static unsigned char bytes[FRAME_MOST_NBYTES];
    ssize_t n = read(fd, bytes, sizeof(bytes));
    struct relay_frame *frame;

    if (n <= 0) {
        return NULL;
    }
    frame = malloc(sizeof(*frame) + (size_t)n);
    if (frame != NULL) {
        memcpy(frame->bytes, bytes, (size_t)n);
        frame->nbytes = (size_t)n;
    }
    return frame;
}

static bool is_before(const struct relay_frame *a, const struct relay_frame *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

bool relay_queue_add(struct relay_queue *queue, struct relay_frame *frame)
{
    size_t at = queue->n_frames;

    if (queue->frames == NULL) {
        queue->frames = calloc(RELAY_FRAMES_MOST, sizeof(struct relay_frame *));
    }
    if (queue->frames == NULL || at == RELAY_FRAMES_MOST) {
        return false;
    }
    frame->number = queue->n_added++;
    queue->n_frames++;
    for (; at > 0 && is_before(frame, queue->frames[(at - 1) / 2]); at = (at - 1) / 2) {
        queue->frames[at] = queue->frames[(at - 1) / 2];
    }
    queue->frames[at] = frame;
    return true;
}

int64_t relay_queue_due_ns(const struct relay_queue *queue)
{
    return queue->n_frames > 0 ? queue->frames[0]->due_ns : INT64_MAX;
}

struct relay_frame *relay_queue_take(struct relay_queue *queue, int64_t now_ns)
{
    struct relay_frame *first, *last;
    size_t at = 0, child;

    if (relay_queue_due_ns(queue) > now_ns) {
        return NULL;
    }
    first = queue->frames[0];
    last = queue->frames[--queue->n_frames];
    while ((child = 2 * at + 1) < queue->n_frames) {
        if (child + 1 < queue->n_frames &&
            is_before(queue->frames[child + 1], queue->frames[child])) {
            child++;
        }
        if (!is_before(queue->frames[child], last)) {
            break;
        }
        queue->frames[at] = queue->frames[child];
        at = child;
    }
    queue->frames[at] = last;
    return first;
}

size_t relay_queue_clear(struct relay_queue *queue)
{
    size_t n_frames = queue->n_frames;

    for (size_t i = 0; i < n_frames; i++) {
        free(queue->frames[i]);
    }
    queue->n_frames = 0;
    return n_frames;
}
