/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that introduces itself wrongly, for test_attach.sh and test_port.sh. Usage: hostile
 * ATTACK WHERE NAME SCHEMA. It knows the secret, as a process of the same user does, or the token,
 * and prints "refused" where the publisher took none of it. With ATTACK "liar" it is a publisher
 * that does not know the secret; with "frozen", one that is stopped when it is to be connected.
 */
#include "attach/directory.h"
#include "attach/introduction.h"
#include "attach/token.h"
#include "attach/where.h"
#include "core/job.h"
#include "host/local_socket.h"
#include "test/mp/mptest.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_CROWD = 80 /* more than are let in at once */ };

static struct nxr_where where;
static const char *name, *schema;
static struct nxr_entry entry;
static unsigned char secret[NXR_PROOF_SECRET_NBYTES];
static struct nxr_proof_talk talk;

static int connect_to_port(void)
{
    char why[200];
    struct addrinfo *address = nxr_where_resolve(&where, false, why, sizeof(why));
    int fd;

    MPT_TRUE(address != NULL);
    fd = socket(address->ai_family, SOCK_STREAM, 0);
    MPT_GE(fd, 0);
    MPT_EQ(connect(fd, address->ai_addr, address->ai_addrlen), 0);
    freeaddrinfo(address);
    return fd;
}

static int connect_in_folder(void)
{
    int fd;

    MPT_OK(nxr_local_socket_connect(NXR_INTRO_SOCKET, entry.socket, &fd));
    MPT_EQ(fcntl(fd, F_SETFL, 0), 0); /* it blocks */
    return fd;
}

static int connect_to_publisher(void)
{
    struct timeval patience = {.tv_sec = MPT_PATIENCE / MPT_S};
    int fd = where.dir != NULL ? connect_in_folder() : connect_to_port();

    MPT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    return fd;
}

/* Receive so many bytes from a stream. False: it was closed. */
static bool hear_bytes(int fd, void *bytes, size_t nbytes)
{
    for (size_t at = 0; at < nbytes;) {
        ssize_t got = recv(fd, (char *)bytes + at, nbytes - at, 0);

        MPT_TRUE(got >= 0 || errno == ECONNRESET);
        if (got <= 0) {
            return false;
        }
        at += (size_t)got;
    }
    return true;
}

static int say(int fd, const union nxr_intro_message *message)
{
    const struct nxr_intro_link link = {.fd = fd};

    return nxr_intro_send(&link, message);
}

/* Receive a message; false: the connection was closed. */
static bool hear(int fd, union nxr_intro_message *message)
{
    _Alignas(8) char bytes[sizeof(*message)];
    struct nxr_intro_head *head = (void *)bytes;
    ssize_t nbytes;
    const char *why;

    if (where.dir == NULL) {
        if (!hear_bytes(fd, bytes, sizeof(*head)) ||
            !hear_bytes(fd, bytes + sizeof(*head), head->nbytes - sizeof(*head))) {
            return false;
        }
        nbytes = (ssize_t)head->nbytes;
    } else {
        nbytes = recv(fd, bytes, sizeof(bytes), 0);
        MPT_TRUE(nbytes >= 0 || errno == ECONNRESET);
    }
    if (nbytes <= 0) {
        return false;
    }
    MPT_OK(nxr_intro_parse(bytes, (size_t)nbytes, message, &why));
    return true;
}

/* Ask, and take the challenge. */
static void ask(int fd)
{
    union nxr_intro_message message;

    talk.attacher = nxr_job.self;
    memset(talk.asked, 7, sizeof(talk.asked)); /* the same each time */
    nxr_intro_init(&message, NXR_INTRO_ASK, &nxr_job.card.head);
    memcpy(message.ask.challenge, talk.asked, sizeof(talk.asked));
    snprintf(message.ask.name, sizeof(message.ask.name), "%s", name);
    memcpy(talk.name, message.ask.name, sizeof(talk.name));
    MPT_OK(say(fd, &message));
    MPT_TRUE(hear(fd, &message));
    MPT_EQ(message.head.type, NXR_INTRO_CHALLENGE);
    talk.publisher = message.head.from;
    memcpy(talk.answered, message.challenge.challenge, sizeof(talk.answered));
}

static void make_proof(union nxr_intro_message *message)
{
    nxr_intro_init(message, NXR_INTRO_PROVE, &nxr_job.card.head);
    message->prove.job_size = nxr_job.size;
    message->prove.card = nxr_job.card;
    message->prove.number = nixl_size();
    message->prove.schema_nbytes = (uint32_t)strlen(schema);
    memcpy(message->prove.schema, schema, strlen(schema));
    nxr_intro_make_proof(message, secret, &talk, message->prove.proof);
}

/* Send it; the answer must be that this process does not know the secret. */
static void is_refused(int fd, const union nxr_intro_message *message)
{
    union nxr_intro_message answer;

    MPT_OK(say(fd, message));
    MPT_TRUE(hear(fd, &answer));
    MPT_EQ(answer.head.type, NXR_INTRO_REFUSED);
    MPT_EQ(answer.refused.refusal, NXR_INTRO_PROOF);
    MPT_EQ(answer.refused.schema_nbytes, 0);
    MPT_TRUE(!hear(fd, &answer));
}

static void replay(void)
{
    union nxr_intro_message proof, answer;
    int fd = connect_to_publisher();

    ask(fd);
    make_proof(&proof);
    MPT_OK(say(fd, &proof));
    MPT_TRUE(hear(fd, &answer));
    MPT_EQ(answer.head.type, NXR_INTRO_TAKEN);
    close(fd); /* without connecting: the publisher gives the number up */
    fd = connect_to_publisher();
    ask(fd);
    is_refused(fd, &proof);
}

static void wrong_proof(void)
{
    union nxr_intro_message proof;
    int fd = connect_to_publisher();

    ask(fd);
    make_proof(&proof);
    proof.prove.proof[31] ^= 1;
    is_refused(fd, &proof);
    fd = connect_to_publisher();
    ask(fd);
    make_proof(&proof);
    nxr_proof_of_talk(secret, NXR_PROOF_PUBLISHER, &talk, NULL, 0,
                      proof.prove.proof); /* the publisher's own */
    is_refused(fd, &proof);
}

static void wrong_card(void)
{
    union nxr_intro_message proof;
    int fd = connect_to_publisher();

    ask(fd);
    make_proof(&proof);
    proof.prove.card.head.identity.incarnation++; /* as if somebody on the way had changed it */
    is_refused(fd, &proof);
    fd = connect_to_publisher();
    ask(fd);
    make_proof(&proof);
    proof.prove.card.head.identity.incarnation++;
    nxr_intro_make_proof(&proof, secret, &talk, proof.prove.proof); /* as if it were another's */
    is_refused(fd, &proof);
}

static void is_dropped(int fd)
{
    union nxr_intro_message answer;

    MPT_TRUE(!hear(fd, &answer));
    close(fd);
}

static void out_of_turn(void)
{
    union nxr_intro_message message;
    int fd = connect_to_publisher();

    make_proof(&message);
    MPT_OK(say(fd, &message));
    is_dropped(fd);
    fd = connect_to_publisher();
    nxr_intro_init(&message, NXR_INTRO_TAKEN, &nxr_job.card.head);
    MPT_OK(say(fd, &message));
    is_dropped(fd);
}

static void garbage(void)
{
    char bytes[8192];
    uint64_t state = 5;

    for (size_t nbytes = sizeof(struct nxr_intro_head); nbytes <= sizeof(bytes); nbytes *= 2) {
        int fd = connect_to_publisher();

        for (size_t i = 0; i < nbytes; i++) {
            bytes[i] = (char)mpt_random(&state);
        }
        MPT_EQ(send(fd, bytes, nbytes, MSG_NOSIGNAL), (ssize_t)nbytes);
        is_dropped(fd);
    }
}

/* The head of a message, and then nothing, or a message whose length is not that of its type. */
static void half(void)
{
    union nxr_intro_message message;
    int fd = connect_to_publisher();

    nxr_intro_init(&message, NXR_INTRO_ASK, &nxr_job.card.head);
    MPT_EQ(send(fd, &message, sizeof(message.head), MSG_NOSIGNAL), (ssize_t)sizeof(message.head));
    is_dropped(fd);
    message.head.nbytes = UINT32_MAX;
    fd = connect_to_publisher();
    MPT_EQ(send(fd, &message, sizeof(message.head), MSG_NOSIGNAL), (ssize_t)sizeof(message.head));
    is_dropped(fd);
}

/* Whoever asks for a name that is not there learns that only after its proof. */
static void other_name(void)
{
    union nxr_intro_message message;
    const char *right = name;
    int fd = connect_to_publisher();

    name = "unknown";
    ask(fd);
    make_proof(&message);
    MPT_OK(say(fd, &message));
    MPT_TRUE(hear(fd, &message));
    MPT_EQ(message.head.type, NXR_INTRO_REFUSED);
    MPT_EQ(message.refused.refusal, NXR_INTRO_NAME);
    close(fd);
    fd = connect_to_publisher();
    ask(fd);
    make_proof(&message);
    message.prove.proof[0] ^= 1;
    is_refused(fd, &message);
    name = right;
}

/* Another version of introductions is told so, with this process's own. */
static void other_version(void)
{
    union nxr_intro_message message;
    int fd = connect_to_publisher();

    nxr_intro_init(&message, NXR_INTRO_ASK, &nxr_job.card.head);
    message.head.version++;
    MPT_OK(say(fd, &message));
    MPT_TRUE(hear(fd, &message));
    MPT_EQ(message.head.type, NXR_INTRO_REFUSED);
    MPT_EQ(message.refused.refusal, NXR_INTRO_VERSIONS);
    is_dropped(fd);
}

static void silence(void)
{
    int fd = connect_to_publisher();

    is_dropped(fd);
    fd = connect_to_publisher();
    ask(fd);
    is_dropped(fd);
}

static void crowd(void)
{
    int fds[N_CROWD];

    for (int i = 0; i < N_CROWD; i++) {
        fds[i] = connect_to_publisher();
    }
    for (int i = 0; i < N_CROWD; i++) {
        is_dropped(fds[i]);
    }
}

/* ---- publishers ------------------------------------------------------------------------------ */

static struct nxr_local_socket stand;

/* Publish by hand, and take the question of the first who attaches. Returns the connection. */
static int stand_in(union nxr_intro_message *message)
{
    struct timeval patience = {.tv_sec = MPT_PATIENCE / MPT_S};
    char why[NXR_DIRECTORY_WHY_NBYTES];
    unsigned char nonce[NXR_NONCE_NBYTES] = {1, 2, 3};
    struct nxr_folder folder;
    int lock, fd;

    MPT_OK(nxr_local_socket_listen(NXR_INTRO_SOCKET, nonce, &stand));
    MPT_EQ(fcntl(stand.fds[0], F_SETFL, 0), 0); /* it blocks */
    MPT_OK(nxr_folder_open(where.dir, &folder, why));
    MPT_OK(nxr_directory_claim(&folder, name, secret, &lock, why));
    nxr_entry_make(&nxr_job.card.head, name, schema, nonce, &entry);
    nxr_entry_prove(&entry, secret);
    MPT_OK(nxr_directory_write(&folder, &entry, why));
    puts("published");
    fflush(stdout);
    fd = accept(stand.fds[0], NULL, NULL);
    MPT_GE(fd, 0);
    MPT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    MPT_TRUE(hear(fd, message));
    MPT_EQ(message->head.type, NXR_INTRO_ASK);
    return fd;
}

/* Has all that an attacher can see of a publisher, and answers with a proof that is none. */
static void liar(void)
{
    union nxr_intro_message message;
    int fd = stand_in(&message);

    nxr_intro_init(&message, NXR_INTRO_CHALLENGE, &nxr_job.card.head);
    MPT_OK(say(fd, &message));
    MPT_TRUE(!hear(fd, &message)); /* neither a proof nor a card */
    nxr_local_socket_close(&stand);
}

/* Challenge the attacher, and take its proof. */
static void challenge(int fd, union nxr_intro_message *message)
{
    talk.attacher = message->head.from;
    talk.publisher = nxr_job.self;
    memcpy(talk.asked, message->ask.challenge, sizeof(talk.asked));
    memset(talk.answered, 9, sizeof(talk.answered));
    memcpy(talk.name, message->ask.name, sizeof(talk.name));
    nxr_intro_init(message, NXR_INTRO_CHALLENGE, &nxr_job.card.head);
    memcpy(message->challenge.challenge, talk.answered, sizeof(talk.answered));
    nxr_proof_of_talk(secret, NXR_PROOF_PUBLISHER, &talk, NULL, 0, message->challenge.proof);
    MPT_OK(say(fd, message));
    MPT_TRUE(hear(fd, message));
    MPT_EQ(message->head.type, NXR_INTRO_PROVE);
}

/*
 * Is stopped before its card is out, so that nothing connects to it, until the attacher gives up. A
 * child, which makes no call of the library, says the card.
 */
static void frozen(void)
{
    union nxr_intro_message message;
    int fd = stand_in(&message), status = -1;
    pid_t self = getpid(), child;

    challenge(fd, &message);
    nxr_intro_init(&message, NXR_INTRO_TAKEN, &nxr_job.card.head);
    message.taken.number = 1;
    message.taken.job_size = 1;
    message.taken.card = nxr_job.card;
    nxr_intro_make_proof(&message, secret, &talk, message.taken.proof);
    child = fork();
    MPT_GE(child, 0);
    if (child == 0) {
        mpt_bring(self, SIGSTOP, "T");
        MPT_OK(say(fd, &message));
        MPT_TRUE(!hear(fd, &message));
        _exit(kill(self, SIGCONT) == 0 ? 0 : 1);
    }
    MPT_EQ(waitpid(child, &status, 0), child);
    MPT_EQ(status, 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} attacks[] = {
    {"replay", replay},         {"wrong_proof", wrong_proof},
    {"wrong_card", wrong_card}, {"out_of_turn", out_of_turn},
    {"garbage", garbage},       {"silence", silence},
    {"crowd", crowd},           {"half", half},
    {"other_name", other_name}, {"other_version", other_version},
};

int main(int argc, char **argv)
{
    char why[NXR_DIRECTORY_WHY_NBYTES];
    bool is_known = false;

    mpt_start();
    MPT_EQ(argc, 5);
    MPT_OK(nixl_init(NULL));
    MPT_TRUE(nxr_where_parse(argv[2], &where));
    name = argv[3];
    schema = argv[4];
    if (strcmp(argv[1], "liar") == 0) {
        liar();
        return mpt_passed(); /* without nixl_finalize(): it is no good process */
    }
    if (strcmp(argv[1], "frozen") == 0) {
        frozen();
        return mpt_passed();
    }
    if (where.dir != NULL) {
        MPT_OK(nxr_directory_read(where.dir, name, &entry, why));
        MPT_OK(nxr_directory_read_secret(where.dir, name, secret, why));
    } else {
        MPT_OK(nxr_attach_token_read(secret, why));
    }
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
        if (strcmp(argv[1], attacks[i].name) == 0) {
            attacks[i].run();
            is_known = true;
        }
    }
    MPT_TRUE(is_known);
    puts("refused");
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
