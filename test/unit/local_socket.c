/* SPDX-License-Identifier: Apache-2.0 */
/* Local sockets: both addresses, files that killed processes have left, folders that do not do. */
#include "config.h"

#include "host/local_socket.h"
#include "nixlrun.h"
#include "test/unit/unit.h"
#include "util/env.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/nixlrun-local-XXXXXX";
static unsigned char nonce[NXR_NONCE_NBYTES] = {1}, other[NXR_NONCE_NBYTES] = {2};
static struct nxr_local_socket here = NXR_LOCAL_SOCKET_NONE;

static void use_dir(const char *path)
{
    char why[160];

    setenv("NIXLRUN_SHARED_DIR", path, 1);
    cr_assert_eq(nxr_env_parse(&nxr_env, why, sizeof(why)), NIXL_OK, "%s", why);
}

static void start(void)
{
    const pid_t pid = getpid(); /* tests run beside each other */

    memcpy(nonce + 1, &pid, sizeof(pid));
    memcpy(other + 1, &pid, sizeof(pid));
    cr_assert(mkdtemp(dir) != NULL);
    use_dir(dir);
}

/* The folder must be empty. */
static void stop(void)
{
    nxr_local_socket_close(&here);
    cr_expect_eq(rmdir(dir), 0, "%s: %s", dir, strerror(errno));
}

static void listen_here(void)
{
    cr_assert_eq(nxr_local_socket_listen("test", nonce, &here), NIXL_OK);
}

/* Which of its two addresses has a connection; -1: none. */
static int connected(void)
{
    for (int i = 0; i < NXR_LOCAL_ADDRESSES; i++) {
        struct pollfd entry = {.fd = here.fds[i], .events = POLLIN};

        if (poll(&entry, 1, 0) > 0) {
            close(accept(here.fds[i], NULL, NULL));
            return i;
        }
    }
    return -1;
}

static int connect_and_close(const unsigned char *to)
{
    int fd, status = nxr_local_socket_connect("test", to, &fd);

    if (status == NIXL_OK) {
        close(fd);
    }
    return status;
}

Test(local_socket, the_abstract_address_comes_first, .init = start, .fini = stop)
{
    listen_here();
    cr_expect_eq(connect_and_close(nonce), NIXL_OK);
    cr_expect_eq(connected(), 0);
    cr_expect_eq(connect_and_close(other), NIXL_E_PEER_LOST);
}

Test(local_socket, the_path_is_used_where_the_abstract_name_is_not_seen, .init = start,
     .fini = stop)
{
    listen_here();
    close(here.fds[0]); /* as in another network namespace */
    here.fds[0] = -1;
    cr_expect_eq(connect_and_close(nonce), NIXL_OK);
    cr_expect_eq(connected(), 1);
}

Test(local_socket, whether_it_is_there_is_asked_without_a_connection, .init = start, .fini = stop)
{
    cr_expect(not(nxr_local_socket_is_there("test", nonce)));
    listen_here();
    cr_expect(nxr_local_socket_is_there("test", nonce));
    cr_expect(not(nxr_local_socket_is_there("test", other)));
    close(here.fds[0]);
    here.fds[0] = -1;
    cr_expect(nxr_local_socket_is_there("test", nonce));
    cr_expect_eq(connected(), -1);
}

Test(local_socket, without_a_folder_there_is_no_file, .init = start, .fini = stop)
{
    use_dir("");
    listen_here();
    cr_expect_lt(here.fds[1], 0);
    cr_expect_null(here.path);
    cr_expect_eq(connect_and_close(nonce), NIXL_OK);
    close(here.fds[0]);
    here.fds[0] = -1;
    cr_expect_eq(connect_and_close(nonce), NIXL_E_PEER_LOST);
}

Test(local_socket, others_cannot_connect_to_the_file, .init = start, .fini = stop)
{
    struct stat info;

    listen_here();
    cr_assert_eq(stat(here.path, &info), 0);
    cr_expect_eq(info.st_mode & 0777, 0600);
}

Test(local_socket, a_long_path_does, .init = start, .fini = stop)
{
    char deep[200];

    snprintf(deep, sizeof(deep), "%s/%0120d", dir, 7);
    cr_assert_eq(mkdir(deep, 0700), 0);
    use_dir(deep);
    listen_here();
    close(here.fds[0]);
    here.fds[0] = -1;
    cr_expect_eq(connect_and_close(nonce), NIXL_OK);
    nxr_local_socket_close(&here);
    cr_expect_eq(rmdir(deep), 0, "the file was left");
}

/* A child listens and is killed; its path stays. */
static void leave_one(void)
{
    int ready[2];
    char byte;
    pid_t pid;

    cr_assert_eq(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        struct nxr_local_socket socket;

        (void)!write(ready[1], nxr_local_socket_listen("test", other, &socket) == 0 ? "1" : "0", 1);
        for (;;) {
            pause();
        }
    }
    cr_assert_gt(pid, 0);
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    cr_assert_eq(byte, '1');
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

Test(local_socket, what_a_killed_process_left_is_removed_by_the_next, .init = start, .fini = stop)
{
    char foreign[64];

    snprintf(foreign, sizeof(foreign), "%s/other.socket", dir);
    fclose(fopen(foreign, "w"));
    leave_one();
    cr_expect_eq(connect_and_close(other), NIXL_E_PEER_LOST);
    listen_here();
    cr_expect_eq(access(foreign, F_OK), 0, "it was not ours");
    unlink(foreign);
}

Test(local_socket, what_lives_is_left_alone, .init = start, .fini = stop)
{
    struct nxr_local_socket next;

    listen_here();
    cr_assert_eq(nxr_local_socket_listen("test", other, &next), NIXL_OK);
    cr_expect_eq(access(here.path, F_OK), 0);
    nxr_local_socket_close(&next);
}

Test(local_socket, a_folder_that_does_not_do_is_an_error, .init = start, .fini = stop)
{
    char file[64];

    snprintf(file, sizeof(file), "%s/missing", dir);
    use_dir(file);
    cr_expect_neq(nxr_local_socket_listen("test", nonce, &here), NIXL_OK);
    cr_expect_lt(here.fds[0], 0);
    use_dir("/dev/null");
    cr_expect_neq(nxr_local_socket_listen("test", nonce, &here), NIXL_OK);
    use_dir("/proc");
    cr_expect_neq(nxr_local_socket_listen("test", nonce, &here), NIXL_OK);
}
