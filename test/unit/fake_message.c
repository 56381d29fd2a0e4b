/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the made-up job, made of records, and the records of those that it has sent. */
#include "fake_net.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- what comes ------------------------------------------------------------------------------ */

/* Returns where the next record would be. */
static size_t put_record(unsigned char *bytes, size_t at, enum nxr_net_type type, const void *body,
                         size_t body_nbytes)
{
    struct nxr_net_record record = {.type = (uint16_t)type, .nbytes = (uint32_t)body_nbytes};

    memcpy(bytes + at, &record, sizeof(record));
    if (body_nbytes > 0) {
        memcpy(bytes + at + sizeof(record), body, body_nbytes);
    }
    return at + sizeof(record) + nxr_net_padded(body_nbytes);
}

static size_t put_message(int rank, unsigned char *bytes, enum nxr_net_type type, const void *body,
                          size_t body_nbytes)
{
    struct nxr_net_head head = {.magic = NXR_NET_MAGIC,
                                .version = NXR_NET_VERSION,
                                .from = {FAKE_JOB, rank, FAKE_INCARNATION},
                                .token = nxr_net_own_token()};

    if (fake.sender != NULL) {
        head.from = *fake.sender;
    }
    memcpy(bytes, &head, sizeof(head));
    return put_record(bytes, sizeof(head), type, body, body_nbytes);
}

void fake_coming(int rank, enum nxr_net_type type, const void *body, size_t body_nbytes,
                 const void *payload, size_t payload_nbytes)
{
    struct fake_message *coming = calloc(1, sizeof(*coming) + FAKE_MESSAGE_NBYTES + 8);
    unsigned char whole[FAKE_MESSAGE_NBYTES * 3 / 4];

    fake_must(coming != NULL && body_nbytes + payload_nbytes <= sizeof(whole));
    if (body_nbytes > 0) {
        memcpy(whole, body, body_nbytes);
    }
    if (payload_nbytes > 0) {
        memcpy(whole + body_nbytes, payload, payload_nbytes);
    }
    coming->nbytes = put_message(rank, coming->bytes, type, whole, body_nbytes + payload_nbytes);
    nxr_list_append(&fake.coming, &coming->link);
}

void fake_receive(int rank, enum nxr_net_type type, const void *body, size_t body_nbytes,
                  const void *payload, size_t payload_nbytes)
{
    fake_coming(rank, type, body, body_nbytes, payload, payload_nbytes);
    fake_round();
}

void fake_control_coming(int rank, const union nxr_wire_message *message)
{
    fake_coming(rank, NXR_NET_CONTROL, message, message->header.nbytes, NULL, 0);
}

/* Bulk behind a header is announced. */
static void *announce(const unsigned char *header, size_t header_nbytes, size_t nbytes)
{
    struct fake_landing *landing = malloc(sizeof(*landing));
    void *addr;

    fake_must(landing != NULL);
    net_lock();
    addr = nxr_net_incoming(header, header_nbytes, nbytes, &landing->cookie);
    if (addr != NULL) {
        nxr_list_append(&fake.landings, &landing->link);
    } else {
        free(landing);
    }
    net_unlock();
    fake_round();
    return addr;
}

void *fake_bulk(int rank, enum nxr_net_type type, const void *body, size_t body_nbytes,
                size_t nbytes)
{
    _Alignas(8) unsigned char header[NXR_NET_HEADER_NBYTES];

    return announce(header, put_message(rank, header, type, body, body_nbytes), nbytes);
}

void *fake_bulk_and_flush(int rank, const struct nxr_net_put *put, uint64_t flush, size_t nbytes)
{
    _Alignas(8) unsigned char header[NXR_NET_HEADER_NBYTES];
    size_t at = put_message(rank, header, NXR_NET_BULK_PUT, put, sizeof(*put));

    return announce(header, put_record(header, at, NXR_NET_FLUSH, &flush, sizeof(flush)), nbytes);
}

/* ---- what was sent --------------------------------------------------------------------------- */

/* Count the records of a type up to one of them; its body, or NULL. */
static const void *find(enum nxr_net_type type, unsigned index, unsigned *n_p)
{
    struct nxr_list *link, *after;

    *n_p = 0;
    nxr_list_for_each (link, after, &fake.sent) {
        const struct fake_sent *sent = nxr_list_entry(link, struct fake_sent, link);
        size_t at = sizeof(struct nxr_net_head);
        const struct nxr_net_record *record;
        const char *why;

        while ((record = nxr_net_next_record(sent->bytes, sent->nbytes, &at, &why)) != NULL) {
            if (record->type == type && (*n_p)++ == index) {
                return nxr_net_body(record);
            }
        }
        fake_must(why == NULL);
    }
    return NULL;
}

unsigned fake_n_sent(enum nxr_net_type type)
{
    unsigned n;

    find(type, UINT_MAX, &n);
    return n;
}

unsigned fake_n_controls_sent(enum nxr_wire_type type)
{
    const struct nxr_wire_header *header;
    unsigned n = 0;

    for (unsigned i = 0; (header = fake_nth(NXR_NET_CONTROL, i)) != NULL; i++) {
        n += header->type == type;
    }
    return n;
}

const void *fake_nth(enum nxr_net_type type, unsigned index)
{
    unsigned n;

    return find(type, index, &n);
}

const void *fake_last(enum nxr_net_type type)
{
    return fake_nth(type, fake_n_sent(type) - 1);
}

unsigned fake_n_messages(void)
{
    return fake_length(&fake.sent);
}

void fake_forget_sent(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&fake.sent)) != NULL) {
        free(nxr_list_entry(link, struct fake_sent, link));
    }
}
