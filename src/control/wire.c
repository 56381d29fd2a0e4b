/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of received messages. One table holds the required size and descriptors of each type. No
 * state.
 */
#include "config.h"

#include "control/wire.h"
#include "memory/memory.h"
#include "core/job.h"

#include <stdio.h>
#include <string.h>

static const struct {
    size_t nbytes;
    int min_fds;
    int max_fds;
    bool is_local; /* only ranks of this host send it */
} wire_shapes[NXR_WIRE_N_TYPES] = {
    [NXR_WIRE_HELLO] = {sizeof(struct nxr_wire_hello), 1, 3, true},
    [NXR_WIRE_WELCOME] = {sizeof(struct nxr_wire_hello), 1, 3, true},
    [NXR_WIRE_RESOLVE] = {sizeof(struct nxr_wire_resolve), 0, 0, false},
    [NXR_WIRE_KEY] = {sizeof(struct nxr_wire_key), 0, 1, false},
    [NXR_WIRE_CLOSED] = {sizeof(struct nxr_wire_closed), 0, 0, false},
    [NXR_WIRE_DEATH] = {sizeof(struct nxr_wire_death), 0, 0, false},
    [NXR_WIRE_RING_FD] = {sizeof(struct nxr_wire_header), 0, 0, true},
    [NXR_WIRE_BOUNCE] = {sizeof(struct nxr_wire_bounce), 1, 1, true},
    [NXR_WIRE_WORK] = {sizeof(struct nxr_wire_header), 0, 0, true},
    [NXR_WIRE_LEAVING] = {sizeof(struct nxr_wire_leaving), 0, 0, false},
    [NXR_WIRE_PROBE] = {sizeof(struct nxr_wire_resolve), 0, 0, false},
    [NXR_WIRE_PROBED] = {sizeof(struct nxr_wire_probed), 0, 0, false},
    [NXR_WIRE_PROPOSE] = {sizeof(struct nxr_wire_verdict), 0, 0, false},
    [NXR_WIRE_DECIDED] = {sizeof(struct nxr_wire_verdict), 0, 0, false},
    [NXR_WIRE_DETACH] = {sizeof(struct nxr_wire_header), 0, 0, false},
    [NXR_WIRE_RENEW] = {sizeof(struct nxr_wire_renew), 0, 0, false},
    [NXR_WIRE_GRANT] = {sizeof(struct nxr_wire_grant), 0, 0, false},
    [NXR_WIRE_REFER] = {sizeof(struct nxr_wire_refer), 0, 0, false},
    [NXR_WIRE_REFERRED] = {sizeof(struct nxr_wire_referred), 0, 0, false},
    [NXR_WIRE_REFORM] = {sizeof(struct nxr_wire_reform), 0, 0, false},
    [NXR_WIRE_WHY] = {sizeof(struct nxr_wire_why), 0, 0, false},
    [NXR_WIRE_BECAUSE] = {sizeof(struct nxr_wire_because), 0, 0, false},
};

void nxr_wire_init(union nxr_wire_message *message, enum nxr_wire_type type)
{
    memset(message, 0, sizeof(*message));
    message->header.magic = NXR_WIRE_MAGIC;
    message->header.version = NXR_WIRE_VERSION;
    message->header.type = (uint16_t)type;
    message->header.nbytes = (uint32_t)wire_shapes[type].nbytes;
    message->header.from = nxr_job.self;
}

bool nxr_wire_is_for_attached(enum nxr_wire_type type)
{
    switch (type) {
    case NXR_WIRE_DEATH:
    case NXR_WIRE_LEAVING:
        return false;
    default:
        return true;
    }
}

uint32_t nxr_wire_card_flags(void)
{
    return (uint32_t)NXR_WIRE_VERSION << NXR_CARD_WIRE_SHIFT | (uint32_t)NXR_CONTROL_VERSION
                                                                   << NXR_CARD_CONTROL_SHIFT;
}

bool nxr_wire_is_common(const struct nxr_card *card, char *why, size_t why_nbytes)
{
    unsigned wire = nxr_card_version_at(card, NXR_CARD_WIRE_SHIFT);
    unsigned control = nxr_card_version_at(card, NXR_CARD_CONTROL_SHIFT);

    if (wire == NXR_WIRE_VERSION && control == NXR_CONTROL_VERSION) {
        return true;
    }
    snprintf(why, why_nbytes,
             "it runs another version of nixlrun (host protocol %u.%u, here %u.%u)", wire, control,
             NXR_WIRE_VERSION, NXR_CONTROL_VERSION);
    return false;
}

/* Is it the key of a region of extents, which itself has no memory? */
static bool wire_is_whole(const struct nxr_key *key)
{
    return key->kind == NIXL_MEM_HOST && (key->marks & NXR_KEY_REGISTERED) != 0 && key->addr > 0 &&
           key->addr <= NIXL_EXTENTS_MAX;
}

bool nxr_key_is_sound(const struct nxr_key *key)
{
    return key->generation != 0 && key->nbytes != 0 && key->nbytes <= INT64_MAX &&
           key->id < NXR_N_REGION_IDS && nxr_memory_kind((enum nixl_mem_kind)key->kind) != NULL &&
           (key->flags & ~NXR_MEM_FLAGS) == 0 && (key->marks & ~NXR_KEY_MARKS) == 0 &&
           ((key->marks & NXR_KEY_STORAGE) == 0 ||
            nxr_memory_kind((enum nixl_mem_kind)key->kind)->is_storage) &&
           (key->access & ~NXR_ACCESS_ALL) == 0 && key->addr <= UINT64_MAX - key->nbytes &&
           ((key->marks & NXR_KEY_EXTENTS) == 0 || wire_is_whole(key));
}

const char *nxr_wire_check_atomic(const struct nxr_wire_atomic *asked)
{
    return asked->id < NXR_N_REGION_IDS && asked->generation != 0 &&
                   nxr_atomic_is_asked(&asked->atomic)
               ? NULL
               : "an impossible atomic operation";
}

int nxr_wire_atomic_outcome(const struct nxr_wire_atomic_done *done)
{
    switch (done->status) {
    case NIXL_OK:
    case NIXL_E_STALE:
    case NIXL_E_RANGE:
    case NIXL_E_INVALID_ARG:
    case NIXL_E_LIMIT:
    case NIXL_E_NO_MEMORY:
    case NIXL_E_CANCELED:
    case NIXL_E_ACCESS:
    case NIXL_E_STORAGE:
        return done->status;
    default:
        return NIXL_E_TRANSPORT;
    }
}

static bool wire_is_zero(const void *bytes, size_t nbytes)
{
    static const unsigned char zeros[sizeof(struct nxr_remote_key)];

    return memcmp(bytes, zeros, nbytes) == 0;
}

/* Is it what an owner on another host adds to its key? */
static bool wire_is_remote_key(const struct nxr_wire_key *message)
{
    const struct nxr_remote_key *remote = &message->remote;

    return wire_is_zero(&message->export, sizeof(message->export)) &&
           memchr(remote->network, '\0', sizeof(remote->network)) != NULL &&
           remote->takes_bulk <= 1 && remote->nbytes <= sizeof(remote->bytes) &&
           (remote->nbytes != 0) == (remote->network[0] != '\0') &&
           wire_is_zero(remote->bytes + remote->nbytes, sizeof(remote->bytes) - remote->nbytes);
}

/*
 * Is the key sound? Between ranks of one host, host memory has a descriptor if it was allocated;
 * for device memory its export decides.
 */
static bool wire_is_key(const struct nxr_wire_key *message, int n_fds)
{
    const struct nxr_key *key = &message->key;

    if (!nxr_key_is_sound(key) || n_fds == NXR_WIRE_REMOTE) {
        return nxr_key_is_sound(key) && wire_is_remote_key(message);
    }
    if (!wire_is_zero(&message->remote, sizeof(message->remote)) ||
        !nxr_export_is_sound(&message->export, (enum nixl_mem_kind)key->kind, key->nbytes)) {
        return false;
    }
    return key->kind == NIXL_MEM_HOST ? (n_fds == 1) == ((key->marks & NXR_KEY_REGISTERED) == 0)
                                      : (n_fds == 1) == nxr_export_has_fd(&message->export);
}

/* Is a rank of the job lost, or has left, as a rank of the job says? Who left was not silent. */
static bool wire_is_death(const struct nxr_wire_death *death, int size)
{
    return death->dead.rank >= 0 && death->dead.rank < size && death->by.rank >= 0 &&
           death->by.rank < size && death->has_left <= 1 &&
           (death->has_left == 0 || death->silent_ms == 0);
}

/* Are all of these ranks of the job, in an aligned window? */
static bool wire_is_leaving(const struct nxr_wire_leaving *leaving, int size)
{
    if (leaving->first < 0 || leaving->first >= size || leaving->incarnation > INT32_MAX ||
        leaving->first % NXR_WIRE_LEAVING_RANKS != 0) {
        return false;
    }
    for (int i = size - leaving->first; i < NXR_WIRE_LEAVING_RANKS; i++) {
        if ((leaving->ranks[i / 64] >> (i % 64) & 1) != 0) {
            return false;
        }
    }
    return true;
}

/* Is it NIXL_OK or an error of nixlrun.h? */
static bool is_outcome(int status)
{
#define IS_STATUS(_name, _value, _text) || status == (_value)
    return status <= NIXL_OK && (false NIXL_STATUS_LIST(IS_STATUS));
#undef IS_STATUS
}

/*
 * Is this an outcome that a team call can have? A loss must name the lost member; how many there
 * are only a member knows.
 */
static bool is_verdict(const struct nxr_verdict *verdict)
{
    bool is_loss = verdict->status == NIXL_E_PEER_LOST;

    return is_outcome(verdict->status) && verdict->member >= (is_loss ? 0 : -1) &&
           verdict->has_left <= (is_loss ? 1u : 0u) &&
           (verdict->cause == NXR_VERDICT_STATUS ||
            (verdict->cause == NXR_VERDICT_LEAVES && is_loss && verdict->has_left == 0) ||
            (verdict->cause == NXR_VERDICT_TABLES && verdict->status == NIXL_E_INVALID_ARG &&
             verdict->member >= 0));
}

/* Is it a step that agreeing on a team can have? */
static bool wire_is_reform(const struct nxr_wire_reform *reform)
{
    bool is_abort = reform->step == NXR_REFORM_ABORT;

    return reform->step >= NXR_REFORM_JOIN && reform->step < NXR_REFORM_N_STEPS &&
           reform->size > 0 && reform->cause < NXR_REFORM_N_CAUSES && reform->has_left <= 1 &&
           is_outcome(reform->status) && (reform->status != NIXL_OK) == is_abort &&
           reform->member >= -1 && (is_abort || reform->member == -1);
}

/* What is wrong with a question about a region, or one of its extents; or NULL. */
static const char *wire_check_resolve(const struct nxr_wire_resolve *resolve)
{
    if (resolve->extent >= NIXL_EXTENTS_MAX || resolve->unused != 0 ||
        (resolve->generation == 0 && resolve->extent != 0)) {
        return "an impossible extent";
    }
    return resolve->name[0] == '\0' || memchr(resolve->name, '\0', sizeof(resolve->name)) == NULL
               ? "an unterminated region name"
               : NULL;
}

/* Is it a grant that is not known, or one that can be? */
static bool wire_is_grant(const struct nxr_wire_grant *grant)
{
    return grant->state == 0 ||
           (grant->state >= NIXL_GRANT_OPEN && grant->state <= NIXL_GRANT_CLOSED &&
            grant->rights > 0 && grant->rights <= (NIXL_GRANT_READ | NIXL_GRANT_WRITE) &&
            grant->left_ns >= 0);
}

/* What is wrong with a message about a grant; NULL also for all others. */
static const char *wire_check_lent(const union nxr_wire_message *message)
{
    if (message->header.type == NXR_WIRE_RENEW && message->renew.lifetime_ns < 0) {
        return "an impossible lifetime";
    }
    return message->header.type == NXR_WIRE_GRANT && !wire_is_grant(&message->grant)
               ? "an impossible grant"
               : NULL;
}

static bool wire_is_refer(const struct nxr_wire_refer *refer)
{
    return refer->rank >= 0 && refer->number >= 0 && refer->job_size > 0 &&
           refer->has_networks <= 1 && memchr(refer->name, '\0', sizeof(refer->name)) != NULL;
}

static bool wire_is_referred(const struct nxr_wire_referred *referred)
{
    return is_outcome(referred->status) && referred->number >= 0 &&
           (referred->status != NIXL_OK || referred->job_size > 0) &&
           memchr(referred->name, '\0', sizeof(referred->name)) != NULL &&
           memchr(referred->why, '\0', sizeof(referred->why)) != NULL;
}

/* What is wrong with a message about a referral; NULL also for all others. */
static const char *wire_check_referral(const union nxr_wire_message *message)
{
    if (message->header.type == NXR_WIRE_REFER && !wire_is_refer(&message->refer)) {
        return "an impossible referral";
    }
    return message->header.type == NXR_WIRE_REFERRED && !wire_is_referred(&message->referred)
               ? "an impossible answer to a referral"
               : NULL;
}

/* What is wrong with a message about failed storage, or NULL. */
static const char *wire_check_why(const union nxr_wire_message *message)
{
    if (message->header.type == NXR_WIRE_WHY) {
        return message->why.id < NXR_N_REGION_IDS ? NULL : "an impossible region";
    }
    return memchr(message->because.text, '\0', sizeof(message->because.text)) != NULL
               ? NULL
               : "an unterminated reason";
}

/* What is wrong with a message about making a team, or NULL. */
static const char *wire_check_team(const union nxr_wire_message *message)
{
    if (message->header.type == NXR_WIRE_REFORM) {
        return wire_is_reform(&message->reform) ? NULL : "an impossible step to a team";
    }
    return is_verdict(&message->verdict.verdict) ? NULL : "an impossible verdict";
}

/* The same for what several folders have added. */
static const char *wire_check_more(const union nxr_wire_message *message)
{
    switch (message->header.type) {
    case NXR_WIRE_REFER:
    case NXR_WIRE_REFERRED:
        return wire_check_referral(message);
    case NXR_WIRE_PROPOSE:
    case NXR_WIRE_DECIDED:
    case NXR_WIRE_REFORM:
        return wire_check_team(message);
    case NXR_WIRE_WHY:
    case NXR_WIRE_BECAUSE:
        return wire_check_why(message);
    default:
        return wire_check_lent(message);
    }
}

/* What is wrong with the type's own fields, or NULL. */
static const char *wire_check_body(const union nxr_wire_message *message, int n_fds, int size)
{
    switch (message->header.type) {
    case NXR_WIRE_HELLO:
    case NXR_WIRE_WELCOME:
        return message->hello.number >= 0 ? NULL : "an impossible number in a greeting";
    case NXR_WIRE_RESOLVE:
    case NXR_WIRE_PROBE:
        return wire_check_resolve(&message->resolve);
    case NXR_WIRE_KEY:
        return wire_is_key(&message->key, n_fds) ? NULL : "an impossible key";
    case NXR_WIRE_CLOSED:
        return message->closed.id < NXR_N_REGION_IDS && message->closed.generation != 0
                   ? NULL
                   : "an impossible closed region";
    case NXR_WIRE_DEATH:
        return wire_is_death(&message->death, size) ? NULL : "an impossible end of a rank";
    case NXR_WIRE_LEAVING:
        return wire_is_leaving(&message->leaving, size) ? NULL
                                                        : "an impossible list of leaving ranks";
    default:
        return wire_check_more(message);
    }
}

int nxr_wire_parse(const void *bytes, size_t nbytes, int n_fds, int size,
                   union nxr_wire_message *message_p, const char **why_p)
{
    union nxr_wire_message message;

    memset(&message, 0, sizeof(message));
    *why_p = NULL;
    if (nbytes < sizeof(message.header) || nbytes > sizeof(message)) {
        *why_p = "a message of the wrong size";
        return NIXL_E_TRANSPORT;
    }
    memcpy(&message, bytes, nbytes);
    if (message.header.magic != NXR_WIRE_MAGIC) {
        *why_p = "no nixlrun message";
    } else if (message.header.version != NXR_WIRE_VERSION) {
        *why_p = "a message of another version of nixlrun";
    } else if (message.header.type == 0 || message.header.type >= NXR_WIRE_N_TYPES) {
        *why_p = "a message of an unknown type";
    } else if (message.header.nbytes != nbytes ||
               wire_shapes[message.header.type].nbytes != nbytes) {
        *why_p = "a message whose length does not fit its type";
    } else if (n_fds == NXR_WIRE_REMOTE && wire_shapes[message.header.type].is_local) {
        *why_p = "a message that only ranks of one host send";
    } else if (n_fds != NXR_WIRE_REMOTE && (n_fds < wire_shapes[message.header.type].min_fds ||
                                            n_fds > wire_shapes[message.header.type].max_fds)) {
        *why_p = "a message with too few or too many descriptors";
    } else if (message.header.from.rank < 0 || message.header.from.rank >= size) {
        *why_p = "a sender that is not in the job";
    } else {
        *why_p = wire_check_body(&message, n_fds, size);
    }
    if (*why_p != NULL) {
        return NIXL_E_TRANSPORT;
    }
    *message_p = message;
    return NIXL_OK;
}
