/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A damaged environment. Runs without a launcher, but for the last case: `bad_env CASE` sets the
 * variables itself.
 *
 *     namespace   PMIX_NAMESPACE only
 *     rank        a PMIX_RANK that is no number
 *     dead        a server address where no process listens
 *     silent      a server that takes the connection and never answers
 *     variable    NIXLRUN_* variables with bad values
 *     tables N    limits of collectives that differ on rank N
 */
#include "mptest.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void set_server(const char *rank, unsigned port)
{
    static const char *const names[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                                        "PMIX_SERVER_URI2", "PMIX_SERVER_URI21"};
    char uri[64];

    snprintf(uri, sizeof(uri), "srv.0;tcp4://127.0.0.1:%u", port);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        setenv(names[i], uri, 1);
    }
    setenv("PMIX_NAMESPACE", "nowhere", 1);
    setenv("PMIX_RANK", rank, 1);
}

/* A socket on this host that listens; its connections are never read. */
static unsigned listen_silently(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t nbytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    MPT_GE(fd, 0);
    MPT_EQ(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    MPT_EQ(listen(fd, 8), 0);
    MPT_EQ(getsockname(fd, (struct sockaddr *)&address, &nbytes), 0);
    return ntohs(address.sin_port);
}

/* nixl_init fails with one of two statuses and its detail has the word. */
static void expect_failure(int status, int other_status, const char *word)
{
    int64_t start_ns = mpt_now_ns();
    int got = nixl_init(NULL);

    if (got != status && got != other_status) {
        mpt_fail(__FILE__, __LINE__, "nixl_init: %d '%s' (%s), expected %d or %d", got,
                 nixl_strerror(got), nixl_last_error()->text, status, other_status);
    }
    MPT_EQ(nixl_rank(), NIXL_E_NOT_INIT); /* and what follows is still about nixl_init */
    MPT_EQ(nixl_size(), NIXL_E_NOT_INIT);
    printf("%s: %s\n", nixl_strerror(got), nixl_last_error()->text);
    MPT_LT(mpt_now_ns() - start_ns, MPT_PATIENCE);
    MPT_TEXT(nixl_last_error()->operation, "nixl_init");
    if (strstr(nixl_last_error()->text, word) == NULL) {
        mpt_fail(__FILE__, __LINE__, "'%s' does not name %s", nixl_last_error()->text, word);
    }
    mpt_every_call(NULL, NIXL_E_NOT_INIT);
}

static void bad_variables(void)
{
    static const char *const cases[][2] = {
        {"NIXLRUN_OP_TIMEOUT", "soon"},
        {"NIXLRUN_SPIN_TIME", "-1us"},
        {"NIXLRUN_NOTE_QUEUE", "1"},
        {"NIXLRUN_PROCESS_VM", "perhaps"},
        {"NIXLRUN_LOG", "shm:loud"},
        {"NIXLRUN_TRANSPORTS", "carrier-pigeon"},
        {"NIXLRUN_LOG_FILE", "/nowhere/at/all"},
        {"NIXLRUN_COLL_TABLE", "flat_up_to=0"},
        {"NIXLRUN_COLL_TABLE_FILE", "/nowhere/at/all"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        setenv(cases[i][0], cases[i][1], 1);
        expect_failure(NIXL_E_INVALID_ARG, NIXL_E_INVALID_ARG, cases[i][0]);
        unsetenv(cases[i][0]);
        MPT_OK(nixl_init(NULL));
        MPT_EQ(nixl_size(), 1);
        MPT_OK(nixl_finalize());
    }
}

/*
 * Every rank says that this one differs, in each try, whether it has found that or learnt it
 * from the one that found it first. No rank waits for another.
 */
static void different_tables(const char *other)
{
    const char *rank = getenv("PMIX_RANK");
    struct nixl_team *team = NULL;

    MPT_TRUE(rank != NULL);
    if (strcmp(rank, other) == 0) {
        setenv("NIXLRUN_COLL_TABLE", "flat_up_to=3", 1);
    }
    MPT_OK(nixl_init(NULL));
    for (int i = 0; i < 40; i++) {
        MPT_EQ(nixl_team_world(MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
        MPT_EQ(nixl_last_error()->rank, atoi(other));
        MPT_TRUE(strstr(nixl_last_error()->text, "NIXLRUN_COLL_TABLE") != NULL);
        MPT_TRUE(team == NULL);
    }
    MPT_OK(nixl_finalize());
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    mpt_start();
    if (strcmp(what, "tables") == 0) {
        MPT_EQ(argc, 3);
        different_tables(argv[2]);
        return mpt_passed();
    }
    unsetenv("NIXLRUN_TRANSPORTS");
    if (strcmp(what, "namespace") == 0) {
        setenv("PMIX_NAMESPACE", "nowhere", 1);
        expect_failure(NIXL_E_TRANSPORT, NIXL_E_TRANSPORT, "PMIX_NAMESPACE");
    } else if (strcmp(what, "rank") == 0) {
        setenv("NIXLRUN_INIT_TIMEOUT", "2s", 1);
        set_server("banana", listen_silently());
        expect_failure(NIXL_E_TRANSPORT, NIXL_E_TIMEOUT, "PMIX_");
    } else if (strcmp(what, "dead") == 0) {
        set_server("0", 1);
        expect_failure(NIXL_E_TRANSPORT, NIXL_E_TRANSPORT, "PMIX_NAMESPACE");
    } else if (strcmp(what, "silent") == 0) {
        setenv("NIXLRUN_INIT_TIMEOUT", "2s", 1);
        set_server("0", listen_silently());
        expect_failure(NIXL_E_TIMEOUT, NIXL_E_TIMEOUT, "NIXLRUN_INIT_TIMEOUT");
    } else {
        bad_variables();
    }
    return mpt_passed();
}
