/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding Perfetto's messages. A message is a row of fields, each a number << 3 | wire type and
 * its value; a message within another one is written into a buffer of its own first, because its
 * size stands before it. No state.
 */
#include "config.h"

#include "launcher/perfetto.h"
#include "launcher/xalloc.h"

#include <string.h>

/* Fields, by the names that Perfetto's .proto files give them. */
enum {
    TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_TRACK_DESCRIPTOR = 60,
    DESCRIPTOR_UUID = 1,
    DESCRIPTOR_NAME = 2,
    DESCRIPTOR_PROCESS = 3,
    DESCRIPTOR_THREAD = 4,
    DESCRIPTOR_PARENT_UUID = 5,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_NAME = 5,
    EVENT_CATEGORY_IIDS = 3,
    EVENT_DEBUG_ANNOTATIONS = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK_UUID = 11,
    EVENT_FLOW_IDS = 47,
    EVENT_TERMINATING_FLOW_IDS = 48,
    ANNOTATION_NAME_IID = 1,
    ANNOTATION_INT = 4,
    ANNOTATION_STRING = 6,
    INTERNED_CATEGORIES = 1,
    INTERNED_EVENTS = 2,
    INTERNED_KEYS = 3,
    INTERNED_IID = 1,
    INTERNED_NAME = 2,
};

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

/* All packets are of one sequence, whose names are valid from its first packet on. */
#define SEQUENCE         1
#define SEQUENCE_CLEARED 1 /* flags */
#define SEQUENCE_NEEDED  2

/* ---- fields ---------------------------------------------------------------------------------- */

static void put_bytes(struct perfetto_buffer *buffer, const void *bytes, size_t nbytes)
{
    if (buffer->room - buffer->nbytes < nbytes) {
        buffer->room = 2 * buffer->room + nbytes + 64;
        buffer->bytes = x_array(buffer->bytes, buffer->room, 1);
    }
    memcpy(buffer->bytes + buffer->nbytes, bytes, nbytes);
    buffer->nbytes += nbytes;
}

static void put_varint(struct perfetto_buffer *buffer, uint64_t value)
{
    unsigned char bytes[10];
    size_t n = 0;

    do {
        bytes[n++] = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value != 0);
    put_bytes(buffer, bytes, n);
}

static void put_value(struct perfetto_buffer *buffer, unsigned field, uint64_t value)
{
    put_varint(buffer, field << 3 | WIRE_VARINT);
    put_varint(buffer, value);
}

/* Little-endian. */
static void put_fixed(struct perfetto_buffer *buffer, unsigned field, uint64_t value)
{
    unsigned char bytes[8];

    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i));
    }
    put_varint(buffer, field << 3 | WIRE_FIXED64);
    put_bytes(buffer, bytes, sizeof(bytes));
}

static void put_field(struct perfetto_buffer *buffer, unsigned field, const void *bytes,
                      size_t nbytes)
{
    put_varint(buffer, field << 3 | WIRE_BYTES);
    put_varint(buffer, nbytes);
    put_bytes(buffer, bytes, nbytes);
}

static void put_text(struct perfetto_buffer *buffer, unsigned field, const char *text)
{
    put_field(buffer, field, text, strlen(text));
}

/* A message within another one; its buffer is empty again. */
static void put_message(struct perfetto_buffer *buffer, unsigned field,
                        struct perfetto_buffer *message)
{
    put_field(buffer, field, message->bytes, message->nbytes);
    message->nbytes = 0;
}

/* ---- packets --------------------------------------------------------------------------------- */

/* Write the packet that holds the message. */
static void write_packet(struct perfetto *trace, unsigned field)
{
    struct perfetto_buffer *packet = &trace->packet;
    size_t nbytes;

    put_value(packet, PACKET_SEQUENCE_ID, SEQUENCE);
    put_value(packet, PACKET_SEQUENCE_FLAGS, trace->has_begun ? SEQUENCE_NEEDED : SEQUENCE_CLEARED);
    if (trace->interned.nbytes > 0) {
        put_message(packet, PACKET_INTERNED_DATA, &trace->interned);
    }
    put_message(packet, field, &trace->message);
    trace->has_begun = true;
    put_varint(&trace->part, TRACE_PACKET << 3 | WIRE_BYTES);
    put_varint(&trace->part, packet->nbytes);
    nbytes = fwrite(trace->part.bytes, 1, trace->part.nbytes, trace->out);
    nbytes += fwrite(packet->bytes, 1, packet->nbytes, trace->out); /* errors stay in the stream */
    (void)nbytes;
    trace->part.nbytes = packet->nbytes = 0;
}

/* The number of a name; the first time it goes with the packet. */
static uint64_t intern(struct perfetto *trace, enum perfetto_names kind, const char *name)
{
    static const unsigned fields[PERFETTO_N_NAMES] = {INTERNED_CATEGORIES, INTERNED_EVENTS,
                                                      INTERNED_KEYS};
    size_t n = trace->names[kind].n, i = 0;

    while (i < n && strcmp(trace->names[kind].texts[i], name) != 0) {
        i++;
    }
    if (i == n) {
        trace->names[kind].texts =
            x_array(trace->names[kind].texts, n + 1, sizeof(*trace->names[kind].texts));
        trace->names[kind].texts[trace->names[kind].n++] = x_strdup(name);
        put_value(&trace->part, INTERNED_IID, n + 1);
        put_text(&trace->part, INTERNED_NAME, name);
        put_message(&trace->interned, fields[kind], &trace->part);
    }
    return i + 1;
}

void perfetto_open(struct perfetto *trace, FILE *out)
{
    *trace = (struct perfetto){.out = out};
}

void perfetto_close(struct perfetto *trace)
{
    for (int kind = 0; kind < PERFETTO_N_NAMES; kind++) {
        for (size_t i = 0; i < trace->names[kind].n; i++) {
            free(trace->names[kind].texts[i]);
        }
        free(trace->names[kind].texts);
    }
    free(trace->packet.bytes);
    free(trace->message.bytes);
    free(trace->part.bytes);
    free(trace->interned.bytes);
}

void perfetto_process(struct perfetto *trace, uint64_t track, int32_t pid, const char *name)
{
    put_value(&trace->part, PROCESS_PID, (uint64_t)(int64_t)pid);
    put_text(&trace->part, PROCESS_NAME, name);
    put_value(&trace->message, DESCRIPTOR_UUID, track);
    put_message(&trace->message, DESCRIPTOR_PROCESS, &trace->part);
    write_packet(trace, PACKET_TRACK_DESCRIPTOR);
}

void perfetto_thread(struct perfetto *trace, uint64_t track, int32_t pid, int32_t tid,
                     const char *name)
{
    put_value(&trace->part, THREAD_PID, (uint64_t)(int64_t)pid);
    put_value(&trace->part, THREAD_TID, (uint64_t)(int64_t)tid);
    put_text(&trace->part, THREAD_NAME, name);
    put_value(&trace->message, DESCRIPTOR_UUID, track);
    put_message(&trace->message, DESCRIPTOR_THREAD, &trace->part);
    write_packet(trace, PACKET_TRACK_DESCRIPTOR);
}

void perfetto_track(struct perfetto *trace, uint64_t track, uint64_t parent, const char *name)
{
    put_value(&trace->message, DESCRIPTOR_UUID, track);
    put_text(&trace->message, DESCRIPTOR_NAME, name);
    put_value(&trace->message, DESCRIPTOR_PARENT_UUID, parent);
    write_packet(trace, PACKET_TRACK_DESCRIPTOR);
}

static void put_annotation(struct perfetto *trace, const struct perfetto_note *note)
{
    uint64_t key = intern(trace, PERFETTO_KEYS, note->key);

    put_value(&trace->part, ANNOTATION_NAME_IID, key);
    if (note->text != NULL) {
        put_text(&trace->part, ANNOTATION_STRING, note->text);
    } else {
        put_value(&trace->part, ANNOTATION_INT, (uint64_t)note->number);
    }
    put_message(&trace->message, EVENT_DEBUG_ANNOTATIONS, &trace->part);
}

void perfetto_event(struct perfetto *trace, const struct perfetto_event *event)
{
    put_value(&trace->message, EVENT_TYPE, event->type);
    put_value(&trace->message, EVENT_TRACK_UUID, event->track);
    if (event->type != PERFETTO_END) {
        put_value(&trace->message, EVENT_CATEGORY_IIDS,
                  intern(trace, PERFETTO_CATEGORIES, event->category));
        put_value(&trace->message, EVENT_NAME_IID, intern(trace, PERFETTO_EVENTS, event->name));
    }
    if (event->flow != 0) {
        put_fixed(&trace->message, event->is_flow_end ? EVENT_TERMINATING_FLOW_IDS : EVENT_FLOW_IDS,
                  event->flow);
    }
    for (size_t i = 0; i < event->n_notes; i++) {
        put_annotation(trace, &event->notes[i]);
    }
    put_value(&trace->packet, PACKET_TIMESTAMP, (uint64_t)event->ns);
    write_packet(trace, PACKET_TRACK_EVENT);
}
