/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sender without a free descriptor for the copy of a message that must wait. `offer`: rank 1
 * offers a bounce buffer when it has no descriptor left to connect again; the put goes on when
 * there is one. `keys`: rank 0 sends more keys than the socket to a stopped rank holds; the rank
 * gets all of them once it goes on. Before that, such a message was lost, and the put hung.
 */
#include "mptest.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define TAG_PID 0x57a2

enum { NBYTES = 4 << 20, MAX_FDS = 1024, N_KEYS = 400, KEY_NBYTES = 4096, N_SPARE = 12 };

static unsigned char memory[NBYTES];
static atomic_int n_starved;
static int fds[MAX_FDS], n_fds;

static void hear_log(enum nixl_log_level level, const char *subsystem, const char *text, void *arg)
{
    (void)level;
    (void)subsystem;
    (void)arg;
    n_starved += strstr(text, "to queue a message") != NULL;
}

static void set_limit(int n)
{
    struct rlimit limit;

    MPT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)n;
    MPT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* ---- offer ----------------------------------------------------------------------------------- */

static void take_all(void)
{
    while (n_fds < MAX_FDS && (fds[n_fds] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        n_fds++;
    }
    MPT_LT(n_fds, MAX_FDS);
}

/* Is there a connection to the other rank's service thread? */
static bool is_connected(void)
{
    bool is_found = false;

    for (int fd = 0; fd < MAX_FDS && !is_found; fd++) {
        int type = 0, is_listener = 0;
        socklen_t nbytes = sizeof(type);

        is_found =
            getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &nbytes) == 0 && type == SOCK_SEQPACKET &&
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listener, &nbytes) == 0 && !is_listener;
    }
    return is_found;
}

/* Does the buffer that is to be offered exist? */
static bool is_buffer_there(void)
{
    bool is_found = false;

    for (int fd = 0; fd < MAX_FDS && !is_found; fd++) {
        char link[64], target[64] = "";

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        is_found = readlink(link, target, sizeof(target) - 1) > 0 &&
                   strstr(target, "nixlrun-bounce") != NULL;
    }
    return is_found;
}

static void put_starved(struct nixl_region *region)
{
    int64_t until_ns = mpt_now_ns() + MPT_PATIENCE;
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *req = NULL;

    set_limit(MAX_FDS / 4);
    mpt_fill(memory, NBYTES, 5);
    while (is_connected()) { /* it is idle, and will be closed */
        MPT_LT(mpt_now_ns(), until_ns);
        MPT_EQ(sched_yield(), 0);
    }
    take_all();
    MPT_EQ(close(fds[--n_fds]), 0); /* for the buffer alone */
    MPT_EQ(nixl_put_x(0, region, 0, memory, NBYTES, &op, &req), NIXL_INPROGRESS);
    while (n_starved == 0 && !is_buffer_there()) {
        MPT_LT(mpt_now_ns(), until_ns);
        MPT_EQ(nixl_req_test(&req), NIXL_INPROGRESS);
    }
    while (n_fds > 0) {
        MPT_EQ(close(fds[--n_fds]), 0);
    }
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
}

/* A wait in a call would ask the other rank something, and keep the connection open. */
static void await_bytes(void)
{
    int64_t until_ns = mpt_now_ns() + MPT_PATIENCE;

    while (*(volatile unsigned char *)&memory[NBYTES - 1] == 0) {
        MPT_LT(mpt_now_ns(), until_ns);
        MPT_EQ(sched_yield(), 0);
    }
}

static void test_offer(void)
{
    struct nixl_region *region = NULL;
    uint64_t one = 1, before;

    if (nixl_rank() == 0) {
        MPT_OK(nixl_region_register("starved", memory, NBYTES, NULL, &region));
    } else {
        MPT_OK(nixl_region_open("starved", &region));
        MPT_OK(nixl_atomic(0, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &before));
    }
    mpt_barrier();
    if (nixl_rank() == 1) {
        put_starved(region);
    } else {
        await_bytes();
    }
    mpt_barrier();
    if (nixl_rank() == 0) {
        MPT_CHECK(memory, NBYTES, 5);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* ---- keys ------------------------------------------------------------------------------------ */

static struct nixl_region *regions[N_KEYS];

static const char *key_name(int i)
{
    static char name[16];

    snprintf(name, sizeof(name), "key%d", i);
    return name;
}

static bool is_stopped(pid_t pid)
{
    char path[32], text[256] = "";
    const char *after_name;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    MPT_TRUE(file != NULL && fgets(text, sizeof(text), file) != NULL);
    MPT_EQ(fclose(file), 0);
    after_name = strrchr(text, ')');
    return after_name != NULL && after_name[2] == 'T';
}

static void ask_for_keys(void)
{
    static struct nixl_req *reqs[N_KEYS];
    struct nixl_op op = NIXL_OP_INIT;
    pid_t pid = getpid();
    int value = 7;

    /* First: what follows a put is sent when the put has ended. */
    MPT_OK(nixl_notify(0, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
    for (int i = 0; i < N_KEYS; i++) {
        MPT_OK(nixl_region_open(key_name(i), &regions[i]));
        MPT_EQ(nixl_put_x(0, regions[i], 0, &value, sizeof(value), &op, &reqs[i]), NIXL_INPROGRESS);
    }
    /* Rank 0 has all these questions when it has answered a later one. */
    MPT_EQ(nixl_region_is_published(0, regions[N_KEYS - 1], MPT_PATIENCE), NIXL_E_NOT_FOUND);
    MPT_EQ(raise(SIGSTOP), 0);
    for (int i = 0; i < N_KEYS; i++) {
        MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
    }
}

static int first_free(void)
{
    int fd;

    set_limit(MAX_FDS);
    fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    MPT_EQ(close(fd), 0);
    return fd;
}

/* Answer all questions of the stopped rank, with no descriptor for an answer that waits. */
static void answer_starved(void)
{
    int64_t until_ns = mpt_now_ns() + MPT_PATIENCE;
    struct nixl_note note;
    pid_t pid;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(1, TAG_PID, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_EQ(note.nbytes, sizeof(pid));
    memcpy(&pid, note.payload, sizeof(pid));
    while (!is_stopped(pid)) {
        MPT_LT(mpt_now_ns(), until_ns);
    }
    for (int i = 0; i < N_KEYS; i++) {
        set_limit(first_free() + 1); /* for its memory, not for its key */
        MPT_OK(nixl_region_alloc(key_name(i), KEY_NBYTES, NULL, &regions[i]));
    }
    set_limit(first_free() + N_SPARE);
    while (n_starved == 0) {
        MPT_LT(mpt_now_ns(), until_ns);
    }
    MPT_EQ(kill(pid, SIGCONT), 0);
}

static void test_keys(void)
{
    if (nixl_rank() == 0) {
        answer_starved();
    } else {
        ask_for_keys();
    }
    mpt_barrier();
    for (int i = 0; i < N_KEYS; i++) {
        if (nixl_rank() == 0) {
            MPT_EQ(*(int *)nixl_region_addr(regions[i]), 7);
        }
        MPT_OK(nixl_region_close(regions[i], MPT_PATIENCE));
    }
    mpt_barrier();
}

int main(int argc, char **argv)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    MPT_EQ(argc, 2);
    nixl_log_set_fn(hear_log, NULL);
    if (strcmp(argv[1], "offer") == 0) {
        test_offer();
    } else {
        test_keys();
    }
    nixl_log_set_fn(NULL, NULL);
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
