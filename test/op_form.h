/* SPDX-License-Identifier: Apache-2.0 */
/* The extended form as tests use it: one struct for each thing that it can ask for. */
#ifndef TEST_OP_FORM_H
#define TEST_OP_FORM_H

#include <nixlrun.h>

static inline struct nixl_op op_note(uint64_t tag, const void *msg, size_t msg_nbytes)
{
    struct nixl_op op = NIXL_OP_INIT;

    op.flags = NIXL_OP_NOTE;
    op.tag = tag;
    op.msg = msg;
    op.msg_nbytes = msg_nbytes;
    return op;
}

static inline struct nixl_op op_signal(struct nixl_region *region, uint64_t offset,
                                       enum nixl_signal_op signal_op, uint64_t value)
{
    struct nixl_op op = NIXL_OP_INIT;

    op.flags = NIXL_OP_SIGNAL;
    op.signal_region = region;
    op.signal_offset = offset;
    op.signal_op = signal_op;
    op.signal_value = value;
    return op;
}

static inline struct nixl_op op_own_signal(uint64_t *signal, enum nixl_signal_op signal_op,
                                           uint64_t value)
{
    struct nixl_op op = NIXL_OP_INIT;

    op.flags = NIXL_OP_SIGNAL;
    op.signal = signal;
    op.signal_op = signal_op;
    op.signal_value = value;
    return op;
}

static inline struct nixl_op op_grant(const char *token)
{
    struct nixl_op op = NIXL_OP_INIT;

    op.flags = NIXL_OP_GRANT;
    op.grant = token;
    return op;
}

static inline struct nixl_op op_stream(void *stream)
{
    struct nixl_op op = NIXL_OP_INIT;

    op.flags = NIXL_OP_STREAM;
    op.stream = stream;
    return op;
}

static inline struct nixl_op op_stream_note(void *stream, uint64_t tag, const void *msg,
                                            size_t msg_nbytes)
{
    struct nixl_op op = op_note(tag, msg, msg_nbytes);

    op.flags |= NIXL_OP_STREAM;
    op.stream = stream;
    return op;
}

#endif
