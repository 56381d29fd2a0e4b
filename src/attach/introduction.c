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
    case NXR_INTRO_CHALLENGE:
        return memchr(message->challenge.host, '\0', sizeof(message->challenge.host)) != NULL &&
                       memchr(message->challenge.boot_id, '\0',
                              sizeof(message->challenge.boot_id)) != NULL
                   ? NULL
                   : "an impossible host";
    case NXR_INTRO_PROVE:
        if (message->prove.job_size <= 0) {
            return "an impossible size of a job";
        }
        return message->prove.schema_nbytes <= NIXL_SCHEMA_MAX ? NULL : "an impossible schema";
    case NXR_INTRO_TAKEN:
        return message->taken.job_size > 0 ? NULL : "an impossible size of a job";
    case NXR_INTRO_REFUSED:
        return message->refused.schema_nbytes <= NIXL_SCHEMA_MAX && message->refused.refusal > 0 &&
                       message->refused.refusal < NXR_INTRO_N_REFUSALS
                   ? NULL
                   : "an impossible refusal";
    default:
        return NULL;
    }
}

void nxr_intro_make_proof(const union nxr_intro_message *message,
                          const unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                          const struct nxr_proof_talk *talk, unsigned char proof[NXR_PROOF_NBYTES])
{
    bool is_prove = message->head.type == NXR_INTRO_PROVE;
    const char *bytes = (const char *)message;
    size_t at = is_prove ? offsetof(struct nxr_intro_prove, number)
                         : offsetof(struct nxr_intro_taken, number);

    nxr_proof_of_talk(secret, is_prove ? NXR_PROOF_ATTACHER : NXR_PROOF_TAKEN, talk, bytes + at,
                      message->head.nbytes - at, proof);
}

/* NIXL_OK, or what is wrong with a head. */
static int intro_check_head(const struct nxr_intro_head *head, const char **why_p)
{
    *why_p = NULL;
    if (head->magic != NXR_INTRO_MAGIC) {
        *why_p = "no introduction";
    } else if (head->version != NXR_INTRO_VERSION) {
        *why_p = "an introduction of another version of nixlrun";
        return NIXL_E_UNSUPPORTED;
    } else if (head->type == 0 || head->type >= NXR_INTRO_N_TYPES) {
        *why_p = "an introduction of an unknown type";
    } else if (head->nbytes != intro_nbytes[head->type]) {
        *why_p = "an introduction whose length does not fit its type";
    } else if (head->from.rank < 0) {
        *why_p = "an introduction of an impossible rank";
    }
    return *why_p == NULL ? NIXL_OK : NIXL_E_TRANSPORT;
}

int nxr_intro_parse(const void *bytes, size_t nbytes, union nxr_intro_message *message_p,
                    const char **why_p)
{
    union nxr_intro_message message;
    int status;

    memset(&message, 0, sizeof(message));
    if (nbytes < sizeof(message.head) || nbytes > sizeof(message)) {
        *why_p = "an introduction of the wrong size";
        return NIXL_E_TRANSPORT;
    }
    memcpy(&message, bytes, nbytes);
    status = intro_check_head(&message.head, why_p);
    if (status == NIXL_OK && message.head.nbytes != nbytes) {
        *why_p = "an introduction whose length does not fit its type";
    } else if (status == NIXL_OK) {
        *why_p = intro_check_body(&message);
    }
    if (*why_p != NULL) {
        return status != NIXL_OK ? status : NIXL_E_TRANSPORT;
    }
    *message_p = message;
    return NIXL_OK;
}

int nxr_intro_send(const struct nxr_intro_link *link, const union nxr_intro_message *message)
{
    ssize_t sent = send(link->fd, message, message->head.nbytes, MSG_NOSIGNAL | MSG_DONTWAIT);

    return sent == (ssize_t)message->head.nbytes ? NIXL_OK : NIXL_E_PEER_LOST;
}

/* What a receive that brought nothing means. */
static int intro_nothing(ssize_t nbytes)
{
    return nbytes < 0 && (errno == EAGAIN || errno == EINTR) ? NIXL_E_AGAIN : NIXL_E_PEER_LOST;
}

static int intro_receive_packet(int fd, union nxr_intro_message *message_p, const char **why_p)
{
    char bytes[sizeof(union nxr_intro_message) + 1]; /* a longer one is noticed */
    ssize_t nbytes = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    return nbytes > 0 ? nxr_intro_parse(bytes, (size_t)nbytes, message_p, why_p)
                      : intro_nothing(nbytes);
}

/* Read up to so many bytes of a message. NIXL_OK: they are there; or why not. */
static int intro_hold(struct nxr_intro_link *link, size_t n_wanted)
{
    while (link->n_held < n_wanted) {
        ssize_t nbytes =
            recv(link->fd, link->held + link->n_held, n_wanted - link->n_held, MSG_DONTWAIT);

        if (nbytes <= 0) {
            return intro_nothing(nbytes);
        }
        link->n_held += (size_t)nbytes;
    }
    return NIXL_OK;
}

int nxr_intro_receive(struct nxr_intro_link *link, union nxr_intro_message *message_p,
                      const char **why_p)
{
    struct nxr_intro_head head;
    int status;

    if (!link->is_stream) {
        return intro_receive_packet(link->fd, message_p, why_p);
    }
    status = intro_hold(link, sizeof(head));
    if (status != NIXL_OK) {
        return status;
    }
    memcpy(&head, link->held, sizeof(head));
    status = intro_check_head(&head, why_p);
    if (status == NIXL_OK) {
        status = intro_hold(link, head.nbytes);
    }
    if (status != NIXL_OK) {
        return status;
    }
    link->n_held = 0;
    return nxr_intro_parse(link->held, head.nbytes, message_p, why_p);
}
