/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a case: they are forked from one that has not loaded the module, are joined by
 * stream sockets, each pair one, and have a time in which they must end. What a module must never
 * do is looked for here: write to stdout, keep a handler of a signal.
 */
#include "config.h"

#include "network_test.h"
#include "util/env.h"
#include "util/module.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE_NS (240 * MPT_S) /* ends a hang; the processes have given up long before */

static const int caught[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT, SIGCHLD};

#define N_CAUGHT (sizeof(caught) / sizeof(caught[0]))

int nt_rank, nt_size;
bool nt_is_dead[NT_MAX_PROCESSES];
const struct nxr_network *nt_net;

static const char *module_folder, *module_name;
static int sockets[NT_MAX_PROCESSES][NT_MAX_PROCESSES]; /* [mine][peer] */

void nt_use(const char *folder, const char *name, const char *provider, const char *devices)
{
    module_folder = folder;
    module_name = name;
    nt_provider = provider;
    nt_devices = devices;
}

void nt_die(void)
{
    (void)kill(getpid(), SIGKILL);
    _exit(1);
}

/* ---- beside the network ---------------------------------------------------------------------- */

void nt_tell(int rank, const void *bytes, size_t nbytes)
{
    MPT_EQ(send(sockets[nt_rank][rank], bytes, nbytes, MSG_NOSIGNAL), nbytes);
}

void nt_hear(int rank, void *bytes, size_t nbytes)
{
    int64_t deadline = mpt_now_ns() + NT_WAIT_NS;
    size_t at = 0;

    while (at < nbytes) {
        ssize_t got = recv(sockets[nt_rank][rank], (char *)bytes + at, nbytes - at, MSG_DONTWAIT);

        if (got > 0) {
            at += got;
            continue;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            mpt_fail(__FILE__, __LINE__, "process %d has gone", rank);
        }
        if (mpt_now_ns() > deadline) {
            mpt_fail(__FILE__, __LINE__, "waited too long for process %d", rank);
        }
        nt_drive();
    }
}

void nt_doze(int rank)
{
    struct pollfd event = {.fd = sockets[nt_rank][rank], .events = POLLIN};
    char byte;

    MPT_EQ(poll(&event, 1, NT_WAIT_NS / MPT_MS), 1);
    MPT_EQ(recv(sockets[nt_rank][rank], &byte, 1, 0), 1);
}

void nt_exchange(const void *mine, size_t nbytes, void *theirs)
{
    for (int rank = 0; rank < nt_size; rank++) {
        if (rank != nt_rank && !nt_is_dead[rank]) {
            nt_tell(rank, mine, nbytes);
        }
    }
    for (int rank = 0; rank < nt_size; rank++) {
        char *place = (char *)theirs + rank * nbytes;

        if (rank == nt_rank) {
            memcpy(place, mine, nbytes);
        } else if (!nt_is_dead[rank]) {
            nt_hear(rank, place, nbytes);
        }
    }
}

void nt_barrier(void)
{
    char here = 1, all[NT_MAX_PROCESSES];

    nt_exchange(&here, 1, all);
}

/* ---- one process ----------------------------------------------------------------------------- */

/* How the signals that a library might catch are handled. */
static void get_handlers(struct sigaction *actions)
{
    for (size_t i = 0; i < N_CAUGHT; i++) {
        MPT_EQ(sigaction(caught[i], NULL, &actions[i]), 0);
    }
}

/* As the library does, which undoes what a foreign library does to signals while it is loaded. */
static void load(void)
{
    struct sigaction before[N_CAUGHT], after[N_CAUGHT];
    char symbol[64], why[256];
    void *module;

    get_handlers(before);
    nxr_env.module_dir = module_folder;
    snprintf(symbol, sizeof(symbol), "nxr_network_%s", module_name);
    nt_net = nxr_module_load(module_name, symbol, &module, why, sizeof(why));
    if (nt_net == NULL) {
        mpt_fail(__FILE__, __LINE__, "%s", why);
    }
    MPT_EQ(nt_net->abi, NXR_NETWORK_ABI);
    MPT_TEXT(nt_net->name, module_name);
    get_handlers(after);
    for (size_t i = 0; i < N_CAUGHT; i++) {
        if (before[i].sa_sigaction != after[i].sa_sigaction) {
            mpt_fail(__FILE__, __LINE__, "the module catches signal %d", caught[i]);
        }
    }
}

static void process(const struct nt_case *test)
{
    load();
    if (!test->starts_closed) {
        nt_open(test->prefers_rma);
        nt_connect();
    }
    test->run();
    if (nt_is_open) {
        nt_close();
    }
    exit(0);
}

static bool make_sockets(int n)
{
    for (int a = 0; a < n; a++) {
        for (int b = 0; b < a; b++) {
            int pair[2];

            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
                return false;
            }
            sockets[a][b] = pair[0];
            sockets[b][a] = pair[1];
        }
    }
    return true;
}

/* Close the sockets of a process, or (-1) all. */
static void close_sockets(int n, int owner)
{
    for (int a = 0; a < n; a++) {
        for (int b = 0; b < n; b++) {
            if (a != b && (owner < 0 || a == owner)) {
                close(sockets[a][b]);
            }
        }
    }
}

static pid_t start(const struct nt_case *test, int rank, int out)
{
    pid_t pid = fork();

    if (pid != 0) {
        return pid;
    }
    for (int other = 0; other < test->n_processes; other++) {
        if (other != rank) {
            close_sockets(test->n_processes, other);
        }
    }
    nt_rank = rank;
    nt_size = test->n_processes;
    if (dup2(out, STDOUT_FILENO) < 0) {
        _exit(1);
    }
    process(test);
    _exit(1);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Wait for one; true if it ended as it should. */
static bool wait_for(pid_t pid, bool is_to_die, int64_t deadline, char *why, size_t why_nbytes)
{
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    int64_t left_ms = (deadline - mpt_now_ns()) / MPT_MS;
    int status = 0;
    bool has_hung;

    has_hung = end.fd < 0 || poll(&end, 1, left_ms > 0 ? (int)left_ms : 0) != 1;
    if (has_hung) {
        (void)kill(pid, SIGKILL);
    }
    if (end.fd >= 0) {
        close(end.fd);
    }
    (void)waitpid(pid, &status, 0);
    if (has_hung) {
        snprintf(why, why_nbytes, "hung");
        return false;
    }
    if (is_to_die ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                  : WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return true;
    }
    snprintf(why, why_nbytes, WIFSIGNALED(status) ? "was ended by signal %d" : "exit code %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return false;
}

/* What the process has written to stdout: nothing, or the text of the check that failed. */
static bool is_silent(int out, char *text, size_t text_nbytes)
{
    ssize_t nbytes = pread(out, text, text_nbytes - 1, 0);

    text[nbytes > 0 ? nbytes : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return nbytes == 0;
}

bool nt_run(const struct nt_case *test, char *why, size_t why_nbytes)
{
    int outs[NT_MAX_PROCESSES];
    pid_t pids[NT_MAX_PROCESSES];
    int64_t deadline = mpt_now_ns() + CASE_NS;
    bool is_well = true;

    if (!make_sockets(test->n_processes)) {
        snprintf(why, why_nbytes, "no sockets: %s", strerror(errno));
        return false;
    }
    for (int rank = 0; rank < test->n_processes; rank++) {
        outs[rank] = memfd_create("stdout", MFD_CLOEXEC);
        pids[rank] = outs[rank] < 0 ? -1 : start(test, rank, outs[rank]);
    }
    close_sockets(test->n_processes, -1);
    for (int rank = 0; rank < test->n_processes; rank++) {
        char how[64] = "was not started", text[512] = "";
        bool ended = pids[rank] > 0 && wait_for(pids[rank], rank > 0 && rank == test->killed,
                                                deadline, how, sizeof(how));
        bool silent = outs[rank] < 0 || is_silent(outs[rank], text, sizeof(text));

        if (!ended || !silent) {
            size_t at = strlen(why);

            snprintf(why + at, why_nbytes - at, "%sprocess %d %s: %s", at > 0 ? "\n# " : "", rank,
                     ended ? "wrote to stdout" : how, text);
            is_well = false;
        }
        if (outs[rank] >= 0) {
            close(outs[rank]);
        }
    }
    return is_well;
}
