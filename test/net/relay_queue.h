/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on their way through the relay: a heap, the one that is due next on top. Frames that are
 * due at the same moment keep their order.
 */
#ifndef NXR_TEST_NET_RELAY_QUEUE_H
#define NXR_TEST_NET_RELAY_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RELAY_FRAMES_MOST = 16384 };

struct relay_frame {
    int64_t due_ns;
    uint64_t number; /* set by relay_queue_add() */
    int to;          /* the relay's: which device */
    size_t nbytes;
    unsigned char bytes[];
};

/* All zero is empty. Whoever made it frees `frames` at the end. */
struct relay_queue {
    struct relay_frame **frames;
    size_t n_frames;
    uint64_t n_added;
};

/* Read one frame from a non-blocking device; NULL where none waits. The caller frees it. */
struct relay_frame *relay_frame_read(int fd);

/* Give a frame to the queue; false, and the frame stays the caller's, where the queue is full. */
bool relay_queue_add(struct relay_queue *queue, struct relay_frame *frame);

/* When the next frame is due; INT64_MAX where there is none. */
int64_t relay_queue_due_ns(const struct relay_queue *queue);

/* Take the next frame if it is due; else NULL. */
struct relay_frame *relay_queue_take(struct relay_queue *queue, int64_t now_ns);

/* Free all frames. Returns how many there were. */
size_t relay_queue_clear(struct relay_queue *queue);

#endif
