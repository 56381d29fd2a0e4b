/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format of messages from other hosts: one table says for each type how long its body is and
 * how its values are checked. No state.
 */
#include "config.h"

#include "net/wire.h"
#include "util/ring.h"

#include <string.h>

/* ---- values that are invalid, whatever regions there are ------------------------------------- */

static const char *wire_check_atomic(const void *body)
{
    return nxr_wire_check_atomic(&((const struct nxr_net_atomic *)body)->what);
}

static const char *wire_check_outcome(int32_t status)
{
    return status <= 0 ? NULL : "an impossible outcome";
}

static const char *wire_check_got(const void *body)
{
    return wire_check_outcome(((const struct nxr_net_got *)body)->status);
}

static const char *wire_check_staged(const void *body)
{
    return wire_check_outcome(((const struct nxr_net_staged *)body)->status);
}

static const char *wire_check_takes(const void *body)
{
    const struct nxr_net_takes *takes = body;

    return memchr(takes->network, '\0', sizeof(takes->network)) != NULL ? NULL
                                                                        : "an impossible network";
}

static const char *wire_check_refused(const void *body)
{
    return ((const struct nxr_net_refused *)body)->status < 0 ? NULL : "an impossible refusal";
}

/*
 * The size of the fixed part of each body, the most that may follow it, and the check of its
 * values; NULL: any value is valid.
 */
static const struct {
    size_t fixed_nbytes;
    size_t max_payload;
    const char *(*check)(const void *body);
} net_wire_formats[NXR_NET_N_TYPES] = {
    [NXR_NET_HELLO] = {0, sizeof(struct nxr_full_card), NULL},
    [NXR_NET_CONTROL] = {sizeof(struct nxr_wire_header), sizeof(union nxr_wire_message), NULL},
    [NXR_NET_CLOSED_ACK] = {sizeof(struct nxr_net_region), 0, NULL},
    [NXR_NET_PUT] = {sizeof(struct nxr_net_put), UINT32_MAX, NULL},
    [NXR_NET_BULK_PUT] = {sizeof(struct nxr_net_put), 0, NULL},
    [NXR_NET_REFUSED] = {sizeof(struct nxr_net_refused), 0, wire_check_refused},
    [NXR_NET_GET] = {sizeof(struct nxr_net_get), 0, NULL},
    [NXR_NET_GOT] = {sizeof(struct nxr_net_got), UINT32_MAX, wire_check_got},
    [NXR_NET_BULK_GOT] = {sizeof(struct nxr_net_got), 0, wire_check_got},
    [NXR_NET_NOTE] = {sizeof(struct nxr_net_note), NXR_RING_MAX_NBYTES, NULL},
    [NXR_NET_CREDIT] = {sizeof(struct nxr_net_stamp), 0, NULL},
    [NXR_NET_ATOMIC] = {sizeof(struct nxr_net_atomic), 0, wire_check_atomic},
    [NXR_NET_ATOMIC_DONE] = {sizeof(struct nxr_net_atomic_done), 0, NULL},
    [NXR_NET_FLUSH] = {sizeof(struct nxr_net_stamp), 0, NULL},
    [NXR_NET_FLUSHED] = {sizeof(struct nxr_net_stamp), 0, NULL},
    [NXR_NET_HEARD] = {sizeof(struct nxr_net_stamp), 0, NULL},
    [NXR_NET_PING] = {sizeof(struct nxr_net_stamp), 0, NULL},
    [NXR_NET_PONG] = {sizeof(struct nxr_net_stamp), 0, NULL},
    [NXR_NET_BYE] = {0, 0, NULL},
    [NXR_NET_STAGE] = {sizeof(struct nxr_net_stage), 0, NULL},
    [NXR_NET_STAGED] = {sizeof(struct nxr_net_staged), 0, wire_check_staged},
    [NXR_NET_TAKES] = {sizeof(struct nxr_net_takes), 0, wire_check_takes},
    [NXR_NET_HELLO_ATTACHED] = {sizeof(struct nxr_net_hello_attached), sizeof(struct nxr_full_card),
                                NULL},
};

/* ---- messages and records -------------------------------------------------------------------- */

const char *nxr_net_check_head(const void *bytes, size_t nbytes, uint64_t token,
                               struct nxr_net_head *head_p)
{
    struct nxr_net_head head;

    if (nbytes < sizeof(head)) {
        return "a message that is too short";
    }
    memcpy(&head, bytes, sizeof(head));
    if (head.magic != NXR_NET_MAGIC || head.version != NXR_NET_VERSION) {
        return "no nixlrun message, or one of another version or byte order";
    }
    if (head.token != token) {
        return "a message without the secret of this rank's card";
    }
    *head_p = head;
    return NULL;
}

static const char *net_wire_check_body(const struct nxr_net_record *record)
{
    size_t fixed_nbytes = net_wire_formats[record->type].fixed_nbytes;
    const char *(*check)(const void *body) = net_wire_formats[record->type].check;

    if (record->nbytes < fixed_nbytes ||
        record->nbytes - fixed_nbytes > net_wire_formats[record->type].max_payload) {
        return "a record whose length does not fit its type";
    }
    return check != NULL ? check(nxr_net_body(record)) : NULL;
}

const struct nxr_net_record *nxr_net_next_record(const unsigned char *bytes, size_t nbytes,
                                                 size_t *at_p, const char **why_p)
{
    const struct nxr_net_record *record = (const void *)(bytes + *at_p);
    size_t left = nbytes - *at_p;

    *why_p = NULL;
    if (left == 0) {
        return NULL;
    }
    if (left < sizeof(*record)) {
        *why_p = "a record that is cut off";
    } else if (record->type == 0 || record->type >= NXR_NET_N_TYPES) {
        *why_p = "a record of an unknown type";
    } else if (record->nbytes > left - sizeof(*record) ||
               nxr_net_padded(record->nbytes) > left - sizeof(*record)) {
        *why_p = "a record that is longer than its message";
    } else {
        *why_p = net_wire_check_body(record);
    }
    if (*why_p != NULL) {
        return NULL;
    }
    *at_p += sizeof(*record) + nxr_net_padded(record->nbytes);
    return record;
}
