/* SPDX-License-Identifier: Apache-2.0 */
/* Records of waits in words. No state. */
#include "config.h"

#include "util/wait_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MOST_LISTED 4 /* in one line */

/* Text that grows, and is cut at the end of its room. */
struct text {
    char *at;
    size_t nbytes, used;
};

static void wait_text_add(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void wait_text_add(struct text *text, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text->at + text->used, text->nbytes - text->used, format, args);
    va_end(args);
    text->used += n > 0 ? (size_t)n : 0;
    text->used = text->used < text->nbytes ? text->used : text->nbytes - 1;
}

static void add_peer(struct text *text, int peer, int size)
{
    if (peer < 0) {
        wait_text_add(text, "any rank");
    } else {
        wait_text_add(text, peer < size ? "rank %d" : "the attached process %d", peer);
    }
}

/* What cannot be printed would disturb a terminal. */
static void make_printable(char *text, size_t nbytes)
{
    text[nbytes - 1] = '\0';
    for (; *text != '\0'; text++) {
        *text = *text >= ' ' && *text <= '~' ? *text : '?';
    }
}

struct nxr_wait_record nxr_wait_checked(const struct nxr_wait_record *record)
{
    struct nxr_wait_record checked = *record;

    checked.kind = checked.kind < NXR_WAIT_N_KINDS ? checked.kind : NXR_WAIT_NONE;
    checked.peer = checked.peer >= -1 ? checked.peer : -1;
    make_printable(checked.call, sizeof(checked.call));
    make_printable(checked.object, sizeof(checked.object));
    return checked;
}

/* ---- waits ----------------------------------------------------------------------------------- */

static void add_note(struct text *text, const struct nxr_wait_record *record, int size)
{
    if (record->values[1] == UINT64_MAX) {
        wait_text_add(text, " for tag %" PRIu64 " from ", record->values[0]);
    } else if (record->values[1] == 0) {
        wait_text_add(text, " for any notification from ");
    } else {
        wait_text_add(text, " for tag %#" PRIx64 " (mask %#" PRIx64 ") from ", record->values[0],
                      record->values[1]);
    }
    add_peer(text, record->peer, size);
}

static void add_number(struct text *text, uint64_t number, bool is_signed)
{
    if (is_signed) {
        wait_text_add(text, "%" PRId64, (int64_t)number);
    } else {
        wait_text_add(text, "%" PRIu64, number);
    }
}

/* In the order of enum nixl_compare. */
static const char *const compare_words[] = {"is ",         "is not ",   "is below ",
                                            "is at most ", "is above ", "is at least "};

static void add_signal(struct text *text, const struct nxr_wait_record *record, int size)
{
    uint64_t compare = record->values[NXR_WAIT_SIGNAL_COMPARE] & 255;
    bool is_signed = (record->values[NXR_WAIT_SIGNAL_COMPARE] & 256) != 0;
    uint64_t n_words = record->values[NXR_WAIT_SIGNAL_N_WORDS];

    if (record->object[0] != '\0') {
        wait_text_add(text, " until the word at offset %" PRIu64 " of region '%s' ",
                      record->values[NXR_WAIT_SIGNAL_PLACE], record->object);
    } else {
        wait_text_add(text, " until the word at %#" PRIx64 " ",
                      record->values[NXR_WAIT_SIGNAL_PLACE]);
    }
    wait_text_add(text, "%s",
                  compare < sizeof(compare_words) / sizeof(compare_words[0])
                      ? compare_words[compare]
                      : "compares true with ");
    add_number(text, record->values[NXR_WAIT_SIGNAL_WANTED], is_signed);
    wait_text_add(text, " (it is ");
    add_number(text, record->values[NXR_WAIT_SIGNAL_SEEN], is_signed);
    wait_text_add(text, ")");
    if (n_words > 1) {
        wait_text_add(text, ", or one of %" PRIu64 " other words does", n_words - 1);
    }
    if (record->peer >= 0) {
        wait_text_add(text, ", by ");
        add_peer(text, record->peer, size);
    }
}

static void add_channel(struct text *text, const struct nxr_wait_record *record, int size)
{
    if (record->kind == NXR_WAIT_CHANNEL_ROOM) {
        wait_text_add(text,
                      " for a free slot of channel '%s', all %" PRIu64 " of which are full, at ",
                      record->object, record->values[0]);
    } else {
        wait_text_add(text, " for an item of channel '%s' from ", record->object);
    }
    add_peer(text, record->peer, size);
}

static void add_request(struct text *text, const struct nxr_wait_record *record, int size)
{
    if (strcmp(record->object, record->call) == 0) {
        wait_text_add(text, " for its end");
    } else {
        wait_text_add(text, " for the end of its %s", record->object);
    }
    if (record->peer >= 0) {
        wait_text_add(text, " with ");
        add_peer(text, record->peer, size);
    }
}

static void add_team(struct text *text, const struct nxr_wait_record *record, int size)
{
    if (record->peer < 0) {
        wait_text_add(text, " for other members of the team");
    } else {
        wait_text_add(text, " for ");
        add_peer(text, record->peer, size);
    }
}

static void add_requests(struct text *text, const struct nxr_wait_record *record, int size)
{
    (void)size;
    wait_text_add(text, " for the end of one of %" PRIu64 " requests", record->values[0]);
}

static void add_region(struct text *text, const struct nxr_wait_record *record, int size)
{
    wait_text_add(text, " for region '%s' of ", record->object);
    add_peer(text, record->peer, size);
}

static void add_attach(struct text *text, const struct nxr_wait_record *record, int size)
{
    if (record->object[0] != '\0') {
        wait_text_add(text, " for '%s' to be published", record->object);
    } else {
        wait_text_add(text, " for an answer of ");
        add_peer(text, record->peer, size);
    }
}

/* What each kind of wait is for: a text, the peer behind it, or a function. */
static const struct {
    const char *words;
    bool names_peer;
    void (*add)(struct text *text, const struct nxr_wait_record *record, int size);
} forms[NXR_WAIT_N_KINDS] = {
    [NXR_WAIT_NONE] = {.words = " for something"},
    [NXR_WAIT_START] = {.words = " until all ranks have called nixl_init"},
    [NXR_WAIT_FINALIZE] = {.words = " until all ranks have called nixl_finalize"},
    [NXR_WAIT_NOTE] = {.add = add_note},
    [NXR_WAIT_NOTE_ROOM] = {" for room in the queue of notifications to ", true, NULL},
    [NXR_WAIT_SIGNAL] = {.add = add_signal},
    [NXR_WAIT_CONNECTION] = {" for a connection to ", true, NULL},
    [NXR_WAIT_REGION] = {.add = add_region},
    [NXR_WAIT_REGION_FREE] = {.words = " until other hosts have let go of its region"},
    [NXR_WAIT_REQUEST] = {.add = add_request},
    [NXR_WAIT_REQUESTS] = {.add = add_requests},
    [NXR_WAIT_FLUSH] = {" for the end of its operations on ", true, NULL},
    [NXR_WAIT_TEAM] = {.add = add_team},
    [NXR_WAIT_TEAM_IDLE] = {.words = " for the collectives that it has started"},
    [NXR_WAIT_CHANNEL_ROOM] = {.add = add_channel},
    [NXR_WAIT_CHANNEL_ITEM] = {.add = add_channel},
    [NXR_WAIT_EVENT] = {.words = " for an event"},
    [NXR_WAIT_QUEUE] = {.words = " for an entry of a completion queue"},
    [NXR_WAIT_ANSWER] = {" for an answer of ", true, NULL},
    [NXR_WAIT_ATTACH] = {.add = add_attach},
    [NXR_WAIT_GRANT] = {.words = " until the reader of its grant has ended"},
    [NXR_WAIT_DEVICE] = {.words = " for a copy by a device"},
};

static void add_what(struct text *text, const struct nxr_wait_record *record, int size)
{
    const uint32_t kind = record->kind < NXR_WAIT_N_KINDS ? record->kind : NXR_WAIT_NONE;

    if (forms[kind].add != NULL) {
        forms[kind].add(text, record, size);
        return;
    }
    wait_text_add(text, "%s", forms[kind].words);
    if (forms[kind].names_peer) {
        add_peer(text, record->peer, size);
    }
}

const char *nxr_wait_text(const struct nxr_wait_record *record, int size,
                          char text[NXR_WAIT_TEXT_NBYTES])
{
    struct text made = {text, NXR_WAIT_TEXT_NBYTES, 0};

    wait_text_add(&made, record->call[0] != '\0' ? "waits in %s" : "waits%s", record->call);
    add_what(&made, record, size);
    return text;
}

/* ---- what is queued and under way ------------------------------------------------------------ */

const char *nxr_wait_notes_text(const struct nxr_wait_notes *notes, int size,
                                char text[NXR_WAIT_TEXT_NBYTES])
{
    struct text made = {text, NXR_WAIT_TEXT_NBYTES, 0};
    uint32_t n = notes->n_listed < NXR_OBSERVE_N_NOTES ? notes->n_listed : NXR_OBSERVE_N_NOTES;

    n = n < MOST_LISTED ? n : MOST_LISTED;
    text[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        wait_text_add(&made, "%stag %" PRIu64 " from ", i > 0 ? "; " : "", notes->listed[i].tag);
        add_peer(&made, notes->listed[i].rank, size);
        wait_text_add(&made, ", %" PRIu32 " bytes", notes->listed[i].nbytes);
    }
    if (notes->n > n) {
        wait_text_add(&made, "; and %" PRIu64 " more", notes->n - n);
    }
    return text;
}

const char *nxr_wait_flights_text(const struct nxr_wait_flights *flights, int size,
                                  char text[NXR_WAIT_TEXT_NBYTES])
{
    struct text made = {text, NXR_WAIT_TEXT_NBYTES, 0};
    uint32_t n =
        flights->n_listed < NXR_OBSERVE_N_FLIGHTS ? flights->n_listed : NXR_OBSERVE_N_FLIGHTS;
    uint64_t n_told = 0;

    n = n < MOST_LISTED ? n : MOST_LISTED;
    text[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        wait_text_add(&made, "%s%" PRIu32 " with ", i > 0 ? ", " : "", flights->listed[i].n);
        add_peer(&made, flights->listed[i].rank, size);
        n_told += flights->listed[i].n;
    }
    if (flights->n > n_told) {
        wait_text_add(&made, ", %" PRIu64 " with others", flights->n - n_told);
    }
    return text;
}
