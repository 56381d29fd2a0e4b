/* SPDX-License-Identifier: Apache-2.0 */
/* Which connections of a process are looked at, and what is said of healthy ones. */
#include "transports/tcp_health.h"

#include <arpa/inet.h>
#include "test/unit/unit.h"
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(tcp_health, .timeout = 120);

/* A connection of this process with itself, at that address. */
static void connect_at(const char *ip, int fds[2])
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t nbytes = sizeof(name);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert(eq(int, inet_pton(AF_INET, ip, &name.sin_addr), 1));
    cr_assert(eq(int, bind(listener, (struct sockaddr *)&name, nbytes), 0));
    cr_assert(eq(int, listen(listener, 1), 0));
    cr_assert(eq(int, getsockname(listener, (struct sockaddr *)&name, &nbytes), 0));
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(eq(int, connect(fds[0], (struct sockaddr *)&name, nbytes), 0));
    fds[1] = accept(listener, NULL, NULL);
    cr_assert(ge(int, fds[1], 0));
    close(listener);
}

static void expect_line(const char *ip, const char *expected)
{
    unsigned char bytes[32];
    char line[200];

    memset(bytes, 0x5a, sizeof(bytes));
    cr_assert(eq(int, inet_pton(AF_INET, ip, bytes + 13), 1));
    nxr_tcp_health_to(bytes, sizeof(bytes), line, sizeof(line));
    cr_expect(eq(str, line, (char *)expected), "%s", ip);
}

Test(tcp_health, a_connection_is_found_by_its_address)
{
    int fds[2];

    expect_line("127.0.0.7", "");
    connect_at("127.0.0.7", fds);
    expect_line("127.0.0.7", NXR_TCP_HEARD);
    expect_line("127.0.0.8", "");
    close(fds[0]);
    close(fds[1]);
    expect_line("127.0.0.7", "");
}

Test(tcp_health, a_connection_with_nothing_on_the_way_is_healthy)
{
    char line[200] = "x", byte = 1;
    int fds[2];

    connect_at("127.0.0.9", fds);
    cr_expect(nxr_tcp_health(fds[0], line, sizeof(line)));
    cr_expect_str_eq(line, "");
    cr_assert(eq(int, (int)send(fds[0], &byte, 1, 0), 1));
    cr_assert(eq(int, (int)recv(fds[1], &byte, 1, MSG_WAITALL), 1));
    cr_expect(nxr_tcp_health(fds[1], line, sizeof(line)));
    close(fds[0]);
    close(fds[1]);
    cr_expect(not(nxr_tcp_health(fds[0], line, sizeof(line))), "no socket any more");
    cr_expect_str_eq(line, "");
}
