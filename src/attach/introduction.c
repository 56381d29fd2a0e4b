/* SPDX-License-Identifier: Apache-2.0 */
/* Making, checking, sending and receiving the messages of an introduction. No state, no lock. */
#include "config.h"

#include "attach/introduction.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const size_t intro_nbytes[NXR_INTRO_N_TYPES] = {
    [NXR_INTRO_ASK] = sizeof(struct nxr_intro_ask),
    [NXR_INTRO_CHALLENGE] = sizeof(struct nxr_intro_challenge),
    [NXR_INTRO_PROVE] = sizeof(struct nxr_intro_prove),
    [NXR_INTRO_TAKEN] = sizeof(struct nxr_intro_taken),
    [NXR_INTRO_REFUSED] = sizeof(struct nxr_intro_refused),
};

void nxr_intro_init(union nxr_intro_message *message, enum nxr_intro_type type,
                    const struct nxr_card *card)
{
    memset(message, 0, sizeof(*message));
    message->head.magic = NXR_INTRO_MAGIC;
    message->head.version = NXR_INTRO_VERSION;
    message->head.type = (uint16_t)type;
    message->head.nbytes = (uint32_t)intro_nbytes[type];
    message->head.flags = card->flags;
    message->head.from = card->identity;
}

/* What is wrong with the type's own fields, or NULL. */
static const char *intro_check_body(const union nxr_intro_message *message)
{
    switch ((enum nxr_intro_type)message->head.type) {
    case NXR_INTRO_ASK:
        return memchr(message->ask.name, '\0', sizeof(message->ask.name)) != NULL &&
                       nxr_entry_is_name(message->ask.name)
                   ? NULL
                   : "an impossible name";
    case NXR_INTRO_PROVE:
        return message->prove.schema_nbytes <= NIXL_SCHEMA_MAX ? NULL : "an impossible schema";
    case NXR_INTRO_REFUSED:
        return message->refused.schema_nbytes <= NIXL_SCHEMA_MAX && message->refused.refusal > 0 &&
                       message->refused.refusal < NXR_INTRO_N_REFUSALS
                   ? NULL
                   : "an impossible refusal";
    default:
        return NULL;
    }
}

int nxr_intro_parse(const void *bytes, size_t nbytes, union nxr_intro_message *message_p,
                    const char **why_p)
{
    union nxr_intro_message message;

    memset(&message, 0, sizeof(message));
    *why_p = NULL;
    if (nbytes < sizeof(message.head) || nbytes > sizeof(message)) {
        *why_p = "an introduction of the wrong size";
        return NIXL_E_TRANSPORT;
    }
    memcpy(&message, bytes, nbytes);
    if (message.head.magic != NXR_INTRO_MAGIC) {
        *why_p = "no introduction";
    } else if (message.head.version != NXR_INTRO_VERSION) {
        *why_p = "an introduction of another version of nixlrun";
    } else if (message.head.type == 0 || message.head.type >= NXR_INTRO_N_TYPES) {
        *why_p = "an introduction of an unknown type";
    } else if (message.head.nbytes != nbytes || intro_nbytes[message.head.type] != nbytes) {
        *why_p = "an introduction whose length does not fit its type";
    } else if (message.head.from.rank < 0) {
        *why_p = "an introduction of an impossible rank";
    } else {
        *why_p = intro_check_body(&message);
    }
    if (*why_p != NULL) {
        return NIXL_E_TRANSPORT;
    }
    *message_p = message;
    return NIXL_OK;
}

socklen_t nxr_intro_address(const unsigned char nonce[NXR_NONCE_NBYTES], struct sockaddr_un *name)
{
    int used;

    memset(name, 0, sizeof(*name));
    name->sun_family = AF_UNIX;
    used = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "nixlrun-attach-");
    for (int i = 0; i < NXR_NONCE_NBYTES; i++) {
        used += snprintf(name->sun_path + 1 + used, sizeof(name->sun_path) - 1 - (size_t)used,
                         "%02x", nonce[i]);
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)used);
}

int nxr_intro_send(int fd, const union nxr_intro_message *message)
{
    ssize_t sent = send(fd, message, message->head.nbytes, MSG_NOSIGNAL | MSG_DONTWAIT);

    return sent == (ssize_t)message->head.nbytes ? NIXL_OK : NIXL_E_PEER_LOST;
}

int nxr_intro_receive(int fd, union nxr_intro_message *message_p, const char **why_p)
{
    char bytes[sizeof(union nxr_intro_message) + 1]; /* a longer one is noticed */
    ssize_t nbytes = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (nbytes <= 0) {
        return nbytes < 0 && (errno == EAGAIN || errno == EINTR) ? NIXL_E_AGAIN : NIXL_E_PEER_LOST;
    }
    return nxr_intro_parse(bytes, (size_t)nbytes, message_p, why_p);
}
