/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between the libraries of two ranks, which carriers frame: on one host a Unix socket that
 * keeps message boundaries, where no other message is accepted before a valid HELLO; to other hosts
 * a record of a network. Layouts are fixed, and every message received passes nxr_wire_parse().
 */
#ifndef NXR_CONTROL_WIRE_H
#define NXR_CONTROL_WIRE_H

#include "core/card.h"
#include "memory/memory.h"
#include "transports/network.h"
#include "transports/transport.h"

#define NXR_WIRE_MAGIC   0x5752584eu /* "NXRW" */
#define NXR_WIRE_VERSION 20u
#define NXR_WIRE_MAX_FDS 3
#define NXR_WIRE_REMOTE  (-1) /* in place of a number of descriptors: it came over a network */

#define NXR_WIRE_LEAVING_RANKS 256 /* covered by one message */

enum nxr_wire_type {
    /*
     * The sender and the secret. Descriptors: control page, event fd; of an attached process the
     * page of rings for the receiver comes between them.
     */
    NXR_WIRE_HELLO = 1,
    NXR_WIRE_WELCOME,  /* the answer; the same descriptors */
    NXR_WIRE_RESOLVE,  /* tell me the key of your region of this name, once there is one */
    NXR_WIRE_KEY,      /* the answer; on one host with a descriptor for allocated memory */
    NXR_WIRE_CLOSED,   /* a region whose key you have is closed */
    NXR_WIRE_DEATH,    /* a rank has died, or left before the others */
    NXR_WIRE_RING_FD,  /* signal your own event fd: I keep no descriptor of it */
    NXR_WIRE_BOUNCE,   /* serve this bounce buffer; its descriptor */
    NXR_WIRE_WORK,     /* check the bounce buffer again, and the words asked for */
    NXR_WIRE_LEAVING,  /* these ranks have reached their last nixl_finalize() */
    NXR_WIRE_PROBE,    /* do you have a region of this name now? Layout of RESOLVE */
    NXR_WIRE_PROBED,   /* the answer */
    NXR_WIRE_PROPOSE,  /* propose a verdict on a team call for your register */
    NXR_WIRE_DECIDED,  /* the answer: the verdict that the register has */
    NXR_WIRE_DETACH,   /* the sender ends the attachment; the answer is the same message */
    NXR_WIRE_RENEW,    /* renew a grant, or only tell about it */
    NXR_WIRE_GRANT,    /* the answer */
    NXR_WIRE_REFER,    /* make a process known to a rank of another job (attach/referral.h) */
    NXR_WIRE_REFERRED, /* the answer */
    NXR_WIRE_REFORM,   /* a step of agreeing on the members of a team */
    NXR_WIRE_WHY,      /* why has your storage failed? */
    NXR_WIRE_BECAUSE,  /* the answer */
    NXR_WIRE_N_TYPES
};

struct nxr_wire_header {
    uint32_t magic;
    uint16_t version;
    uint16_t type;   /* enum nxr_wire_type */
    uint32_t nbytes; /* of the whole message */
    uint32_t unused;
    struct nxr_identity from; /* the sender */
};

struct nxr_wire_hello {
    struct nxr_wire_header header;
    unsigned char secret[NXR_SECRET_NBYTES]; /* from the receiver's card; zeros in WELCOME */
    struct nxr_card card;                    /* the sender's, to connect back to it */
    int32_t number; /* by which the sender names the receiver, which echoes it (peer->place) */
    uint32_t unused;
};

/* The head of all questions that are answered at once, and of their answers (question.h). */
struct nxr_wire_question {
    struct nxr_wire_header header;
    uint64_t ask; /* comes back in the answer */
};

struct nxr_wire_resolve {
    struct nxr_wire_header header;
    uint64_t ask;        /* comes back in the answer */
    uint64_t generation; /* of the region whose extent is asked for; 0: the region itself */
    uint32_t extent;
    uint32_t unused;
    char name[NIXL_NAME_MAX + 1];
};

struct nxr_wire_key {
    struct nxr_wire_header header;
    uint64_t ask;
    struct nxr_key key;
    struct nxr_export export;     /* between ranks of one host; else zeros */
    struct nxr_remote_key remote; /* between hosts; else zeros */
};

struct nxr_wire_closed {
    struct nxr_wire_header header;
    uint64_t generation;
    uint32_t id;
    uint32_t unused;
};

struct nxr_wire_death {
    struct nxr_wire_header header;
    struct nxr_identity dead;
    struct nxr_identity by; /* who found it first; other ranks pass it on unchanged */
    uint32_t has_left;      /* 1: it left by nixl_finalize(); 0: it is lost */
    uint32_t silent_ms;     /* it was silent for so long, and may live; 0: its end is certain */
};

struct nxr_wire_bounce {
    struct nxr_wire_header header;
    uint64_t nbytes; /* of the buffer behind the descriptor */
    uint32_t n_chunks;
    uint32_t unused;
};

struct nxr_wire_leaving {
    struct nxr_wire_header header;
    int32_t first;                               /* a multiple of NXR_WIRE_LEAVING_RANKS */
    uint32_t incarnation;                        /* of all of them */
    uint64_t ranks[NXR_WIRE_LEAVING_RANKS / 64]; /* bit i: rank first + i */
};

/* What the owner says about a name instead of a key, or to a probe. */
enum nxr_wire_found {
    NXR_FOUND_NEVER = 0, /* to a probe: not now */
    NXR_FOUND = 1,
    NXR_FOUND_NO_MEMORY = 2, /* the owner has none to answer, or to wait for the region */
};

struct nxr_wire_probed {
    struct nxr_wire_header header;
    uint64_t ask;
    uint32_t found; /* enum nxr_wire_found */
    uint32_t unused;
};

/* How a team call has ended, or shall end, for all members (collective/agreement.h). */
struct nxr_verdict {
    int32_t status;    /* NIXL_OK or an error */
    int32_t member;    /* the team rank of who is lost or has failed; -1: none */
    uint32_t has_left; /* 1: the lost rank left by nixl_finalize(); 0: it has died, or no loss */
    uint32_t cause;    /* enum nxr_verdict_cause */
};

/* What all members say of a failure, if its status alone does not tell. */
enum nxr_verdict_cause {
    NXR_VERDICT_STATUS,
    NXR_VERDICT_TABLES, /* INVALID_ARG: `member` has other limits than the first member */
    NXR_VERDICT_LEAVES, /* PEER_LOST: `member` is not lost yet, but in its last nixl_finalize() */
};

struct nxr_wire_verdict { /* PROPOSE, DECIDED */
    struct nxr_wire_header header;
    uint64_t ask;
    uint64_t call; /* the call's number; 0 in DECIDED */
    struct nxr_verdict verdict;
};

/* The steps of agreeing on who is in a team (collective/reform.h). */
enum nxr_reform_step {
    NXR_REFORM_JOIN = 1, /* to the coordinator: this process has called, with this list */
    NXR_REFORM_PROPOSE,  /* from the coordinator, also to tell who has not called yet */
    NXR_REFORM_ACCEPT,
    NXR_REFORM_REFUSE, /* this process has called with another list, which the fields describe */
    NXR_REFORM_COMMIT, /* all have accepted */
    NXR_REFORM_ABORT,  /* the sender gives up */
    NXR_REFORM_N_STEPS
};

/* Why an attempt has failed, if its status alone does not tell. */
enum nxr_reform_cause {
    NXR_REFORM_STATUS,
    NXR_REFORM_MISSING,   /* TIMEOUT: those of `missing` have not called */
    NXR_REFORM_DISAGREES, /* INVALID_ARG: `member` has another list */
    NXR_REFORM_N_CAUSES
};

#define NXR_REFORM_NAMED 256 /* members of which a message tells whether they are missing */

struct nxr_wire_reform {
    struct nxr_wire_header header;
    uint64_t context;  /* calls in other contexts have nothing to do with it */
    uint64_t epoch;    /* of the coordinator's attempt; 0: none */
    uint64_t list;     /* a hash of the identities of all members, in order */
    uint64_t set;      /* ... in any order */
    int32_t size;      /* how many they are */
    uint32_t step;     /* enum nxr_reform_step */
    int32_t status;    /* of ABORT: an error; else NIXL_OK */
    int32_t member;    /* of ABORT: the team rank of who is lost or disagrees; -1: none */
    uint32_t has_left; /* the lost one left by nixl_finalize() */
    uint32_t cause;    /* enum nxr_reform_cause */
    uint64_t missing[NXR_REFORM_NAMED / 64]; /* of PROPOSE and ABORT: bit i: team rank i */
};

#define NXR_WIRE_NONCE_NBYTES 16 /* of a token */

struct nxr_wire_renew {
    struct nxr_wire_header header;
    uint64_t ask;
    uint32_t slot;
    uint32_t turn;
    unsigned char nonce[NXR_WIRE_NONCE_NBYTES];
    int64_t lifetime_ns; /* 0: leave it as it is */
};

/* What the owner tells of a grant; nixl_grant_info has the same fields. */
struct nxr_wire_grant {
    struct nxr_wire_header header;
    uint64_t ask;
    int32_t state; /* enum nixl_grant_state; 0: it is not known, or not any more */
    uint32_t rights;
    uint32_t uses_left;
    uint32_t n_users;
    int64_t left_ns;
    uint64_t nbytes;
};

struct nxr_wire_why {
    struct nxr_wire_header header;
    uint64_t ask;
    uint64_t generation; /* of the region; 0: whichever of your storage failed last */
    uint32_t id;
    uint32_t unused;
};

struct nxr_wire_because {
    struct nxr_wire_header header;
    uint64_t ask;
    int32_t error; /* errno; 0: nothing has failed */
    uint32_t unused;
    char text[NXR_STORAGE_WHY_NBYTES];
};

/*
 * A question to change a word in a region of the receiver, and its answer. They are no messages of
 * their own: networks carry them in records, in the order of puts, and a host in the slots of a
 * ring.
 */
struct nxr_wire_atomic {
    uint64_t generation;
    uint32_t id;
    uint32_t is_own; /* a word of the library, see struct nxr_key */
    struct nxr_atomic atomic;
};
_Static_assert(sizeof(struct nxr_wire_atomic) == 48, "fixed on the wire");

struct nxr_wire_atomic_done {
    uint64_t fetched;
    int32_t status;
    uint32_t unused;
};

/* A process wants to be attached to that rank of that job. */
struct nxr_wire_refer {
    struct nxr_wire_header header;
    uint64_t ask;
    uint64_t job;
    int32_t rank;
    int32_t number;        /* the process has no living attachment to it with a lower number */
    int32_t job_size;      /* of the process */
    uint32_t has_networks; /* 1: it has opened its networks; their addresses are in the card */
    char name[NIXL_PUBLISH_NAME_MAX + 1]; /* under which the two jobs have met */
    struct nxr_full_card card;            /* of the process */
};

#define NXR_WIRE_WHY_NBYTES 160

struct nxr_wire_referred {
    struct nxr_wire_header header;
    uint64_t ask;
    int32_t status;   /* NIXL_OK; NIXL_E_AGAIN: ask with has_networks; or a failure and `why` */
    int32_t number;   /* by which that rank names the process */
    int32_t job_size; /* of its job */
    uint32_t unused;
    char name[NIXL_PUBLISH_NAME_MAX + 1];
    char why[NXR_WIRE_WHY_NBYTES];
    struct nxr_full_card card; /* of that rank, also with NIXL_E_AGAIN; else zeros */
};

union nxr_wire_message {
    struct nxr_wire_header header;
    struct nxr_wire_question
        question; /* the head of PROBE, PROPOSE, RENEW, REFER, WHY and their answers */
    struct nxr_wire_hello hello;     /* and WELCOME */
    struct nxr_wire_resolve resolve; /* and PROBE */
    struct nxr_wire_key key;
    struct nxr_wire_closed closed;
    struct nxr_wire_death death;
    struct nxr_wire_bounce bounce;
    struct nxr_wire_leaving leaving;
    struct nxr_wire_probed probed;
    struct nxr_wire_verdict verdict;
    struct nxr_wire_reform reform;
    struct nxr_wire_renew renew;
    struct nxr_wire_grant grant;
    struct nxr_wire_refer refer;
    struct nxr_wire_referred referred;
    struct nxr_wire_why why;
    struct nxr_wire_because because;
};

/* Make `message` an empty one of this type, with the header filled in. */
void nxr_wire_init(union nxr_wire_message *message, enum nxr_wire_type type);

/* May a process of another job, which is attached, send it? The others are about ranks of a job. */
bool nxr_wire_is_for_attached(enum nxr_wire_type type);

/* The card flags that state the versions which ranks of one host must share. */
uint32_t nxr_wire_card_flags(void);

/*
 * Does the rank of that card use the same versions between ranks of one host as this library? If
 * not, one line in `why`.
 */
bool nxr_wire_is_common(const struct nxr_card *card, char *why, size_t why_nbytes);

/*
 * Check received bytes of a rank of a job of `size` ranks. n_fds: how many descriptors came with
 * them, or NXR_WIRE_REMOTE. NIXL_OK and the message, or NIXL_E_TRANSPORT and one line in *why_p.
 */
int nxr_wire_parse(const void *bytes, size_t nbytes, int n_fds, int size,
                   union nxr_wire_message *message_p, const char **why_p);

/* What is wrong with a question that was received, whatever regions there are; NULL: nothing. */
const char *nxr_wire_check_atomic(const struct nxr_wire_atomic *asked);

/* The outcome in an answer; one that no correct owner sends counts as NIXL_E_TRANSPORT. */
int nxr_wire_atomic_outcome(const struct nxr_wire_atomic_done *done);

/* Is this a key that may be used? Sizes and numbers within their limits. */
bool nxr_key_is_sound(const struct nxr_key *key);

#endif
