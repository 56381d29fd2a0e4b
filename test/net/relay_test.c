/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay by itself: in a network namespace of its own this program starts it, sends numbered
 * frames into one device and looks at what comes out of the other. Prints TAP.
 */
#include "config.h"

#include "test/mp/mptest.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_FRAMES = 1000, ETHERTYPE = 0x88b5, FRAME_NBYTES = 200, BURST = 32 };

/* What the test sends and receives; the kernel's own frames have other types. */
struct frame {
    unsigned char to[6], from[6];
    uint16_t type;
    uint16_t number;
    int64_t sent_ns;
    unsigned char rest[FRAME_NBYTES - 24];
};

static char relay_path[4096];
static const char *current = "start";
static pid_t relay;
static int orders_fd, answers_fd, sockets[2];

/* What came out: the numbers in their order, and the shortest and longest time on the way. */
static struct {
    uint16_t numbers[N_FRAMES];
    int n;
    int64_t least_ns, most_ns;
} came;

static void tell_failure(const char *file, int line, const char *text)
{
    printf("not ok %s - %s:%d: %s\n", current, file, line, text);
    if (relay > 0) {
        kill(relay, SIGKILL);
    }
}

/* ---- the relay ------------------------------------------------------------------------------- */

/* It lies beside this program. */
static void find_relay(void)
{
    ssize_t n = readlink("/proc/self/exe", relay_path, sizeof(relay_path) - sizeof("relay"));

    MPT_GE(n, 1);
    strcpy(strrchr(relay_path, '/') + 1, "relay");
}

static void read_answer(char *text, size_t nbytes)
{
    struct pollfd polled = {.fd = answers_fd, .events = POLLIN};
    size_t used = 0;

    do {
        MPT_EQ(poll(&polled, 1, (int)(MPT_PATIENCE / MPT_MS)), 1);
        MPT_EQ(read(answers_fd, text + used, 1), 1);
        used++;
    } while (text[used - 1] != '\n' && used < nbytes);
    text[used - 1] = '\0';
}

/* Give the relay an order; its answer must begin so. */
static const char *order(const char *text, const char *expected)
{
    static char answer[512];

    MPT_EQ(write(orders_fd, text, strlen(text)), (ssize_t)strlen(text));
    MPT_EQ(write(orders_fd, "\n", 1), 1);
    read_answer(answer, sizeof(answer));
    if (strncmp(answer, expected, strlen(expected)) != 0) {
        mpt_fail(__FILE__, __LINE__, "'%s' is answered by '%s', not '%s'", text, answer, expected);
    }
    return answer;
}

/* A number of the relay's answer. */
static long counted(const char *name)
{
    const char *found = strstr(order("count", "ok "), name);

    MPT_TRUE(found != NULL);
    return atol(found + strlen(name));
}

static void start_relay(void)
{
    int orders[2], answers[2];
    char answer[512];

    MPT_EQ(pipe2(orders, O_CLOEXEC), 0);
    MPT_EQ(pipe2(answers, O_CLOEXEC), 0);
    relay = fork();
    if (relay == 0) {
        dup2(orders[0], STDIN_FILENO);
        dup2(answers[1], STDOUT_FILENO);
        execl(relay_path, "relay", "end0", "end1", "seed=1", (char *)NULL);
        _exit(127);
    }
    close(orders[0]);
    close(answers[1]);
    orders_fd = orders[1];
    answers_fd = answers[0];
    read_answer(answer, sizeof(answer));
    MPT_TEXT(answer, "ok seed=1 forwarded=0 dropped=0 reordered=0");
}

/* A network namespace in which the kernel sends no frames of its own. */
static void enter_namespace(void)
{
    int fd;

    if (unshare(CLONE_NEWNET) != 0) {
        mpt_skip("no network namespace here: %s", strerror(errno));
    }
    fd = open("/proc/sys/net/ipv6/conf/default/disable_ipv6", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        MPT_EQ(write(fd, "1", 1), 1);
        close(fd);
    }
}

/* A packet socket on a device, which is brought up. */
static int open_end(const char *name)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETHERTYPE));
    int nbytes = 4 << 20;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETHERTYPE)};
    struct ifreq request = {0};

    MPT_GE(fd, 0);
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    MPT_EQ(ioctl(fd, SIOCGIFFLAGS, &request), 0);
    request.ifr_flags |= IFF_UP;
    MPT_EQ(ioctl(fd, SIOCSIFFLAGS, &request), 0);
    address.sll_ifindex = (int)if_nametoindex(name);
    MPT_EQ(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    MPT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &nbytes, sizeof(nbytes)), 0);
    return fd;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void receive(int fd)
{
    struct frame frame;
    int64_t took_ns;

    MPT_EQ(recv(fd, &frame, sizeof(frame), 0), (ssize_t)sizeof(frame));
    MPT_LT(came.n, N_FRAMES);
    MPT_CHECK(frame.rest, sizeof(frame.rest), frame.number);
    took_ns = mpt_now_ns() - frame.sent_ns;
    came.least_ns = took_ns < came.least_ns ? took_ns : came.least_ns;
    came.most_ns = took_ns > came.most_ns ? took_ns : came.most_ns;
    came.numbers[came.n++] = frame.number;
}

/*
 * The device has room for a few hundred frames. Between the answers to two orders the relay takes
 * what has come, a burst at least.
 */
static void let_it_take_all(void)
{
    order("count", "ok ");
    order("count", "ok ");
}

/* Send n frames into one end; take what comes out of the other until each is there or dropped. */
static void send_and_receive(int from, int n)
{
    struct pollfd polled = {.fd = sockets[!from], .events = POLLIN};
    struct frame frame = {.type = htons(ETHERTYPE)};
    long forwarded = counted("forwarded="), dropped = counted("dropped=");
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;

    memset(frame.to, 0xff, sizeof(frame.to));
    came.n = 0;
    came.least_ns = INT64_MAX;
    came.most_ns = 0;
    for (int i = 0; i < n; i++) {
        frame.number = (uint16_t)i;
        mpt_fill(frame.rest, sizeof(frame.rest), frame.number);
        frame.sent_ns = mpt_now_ns();
        MPT_EQ(send(sockets[from], &frame, sizeof(frame), 0), (ssize_t)sizeof(frame));
        while (poll(&polled, 1, 0) == 1) {
            receive(polled.fd);
        }
        if (i % BURST == BURST - 1) {
            let_it_take_all();
        }
    }
    while (counted("forwarded=") - forwarded + counted("dropped=") - dropped < n) {
        MPT_LT(mpt_now_ns(), end_ns);
    }
    while (came.n < n - (counted("dropped=") - dropped)) {
        MPT_EQ(poll(&polled, 1, (int)(MPT_PATIENCE / MPT_MS)), 1);
        receive(polled.fd);
    }
}

/* How many frames came later than one with a higher number. */
static int n_overtaken(void)
{
    int n = 0, highest = -1;

    for (int i = 0; i < came.n; i++) {
        n += came.numbers[i] < highest;
        highest = came.numbers[i] > highest ? came.numbers[i] : highest;
    }
    return n;
}

/* ---- what must hold -------------------------------------------------------------------------- */

static void a_good_wire_loses_and_reorders_nothing(void)
{
    for (int from = 0; from < 2; from++) {
        send_and_receive(from, N_FRAMES);
        MPT_EQ(came.n, N_FRAMES);
        MPT_EQ(n_overtaken(), 0);
    }
    MPT_GE(counted("forwarded="), 2 * N_FRAMES);
    MPT_EQ(counted("dropped="), 0);
}

static void a_share_is_dropped(void)
{
    order("drop=20", "ok ");
    send_and_receive(0, N_FRAMES);
    MPT_GE(came.n, N_FRAMES * 7 / 10); /* eight standard deviations either way */
    MPT_LT(came.n, N_FRAMES * 9 / 10);
    MPT_EQ(n_overtaken(), 0);
    order("drop=100", "ok ");
    send_and_receive(0, 10);
    MPT_EQ(came.n, 0);
    order("drop=0", "ok ");
}

/* The same seed drops the same frames. */
static void a_seed_decides_which(void)
{
    static uint16_t first[N_FRAMES];
    int n_first;

    order("drop=30", "ok ");
    order("seed=42", "ok seed=42 ");
    send_and_receive(0, N_FRAMES);
    n_first = came.n;
    memcpy(first, came.numbers, sizeof(first));
    order("seed=42", "ok seed=42 ");
    send_and_receive(0, N_FRAMES);
    MPT_EQ(came.n, n_first);
    MPT_EQ(memcmp(first, came.numbers, (size_t)n_first * 2), 0);
    order("seed=43", "ok seed=43 ");
    send_and_receive(0, N_FRAMES);
    MPT_TRUE(came.n != n_first || memcmp(first, came.numbers, (size_t)n_first * 2) != 0);
    order("drop=0", "ok ");
}

static void all_come_so_much_later(void)
{
    order("delay=30ms", "ok ");
    send_and_receive(1, 100);
    MPT_EQ(came.n, 100);
    MPT_EQ(n_overtaken(), 0);
    MPT_GE(came.least_ns, 30 * MPT_MS);
    order("delay=0s", "ok ");
}

static void a_share_is_overtaken(void)
{
    long n_before = counted("reordered=");
    int n_held;

    order("hold=20ms", "ok ");
    order("reorder=10", "ok ");
    send_and_receive(0, N_FRAMES);
    MPT_EQ(came.n, N_FRAMES);
    n_held = (int)(counted("reordered=") - n_before);
    MPT_GE(n_held, 20);
    MPT_LT(n_held, 200);
    MPT_GE(n_overtaken(), 1);
    MPT_GE(n_held, n_overtaken());
    MPT_GE(came.most_ns, 20 * MPT_MS);
    order("reorder=0", "ok ");
}

static void a_stall_lasts_until_it_is_ended(void)
{
    order("stall", "ok ");
    send_and_receive(0, 50);
    MPT_EQ(came.n, 0);
    order("resume", "ok ");
    send_and_receive(0, 50);
    MPT_EQ(came.n, 50);
}

static void bad_orders_are_refused(void)
{
    order("drop=101", "error 'drop=101': allowed: a number from 0 to 100");
    order("drop=", "error 'drop=': allowed:");
    order("drop=nan", "error 'drop=nan': allowed:");
    order("delay=11s", "error 'delay=11s': allowed: a time from 0s to 10s");
    order("seed=-1", "error 'seed=-1': allowed: a whole number");
    order("stall=1", "error 'stall=1' is no setting; allowed: delay=, ");
    order("", "error '' is no setting");
    send_and_receive(0, 10);
    MPT_EQ(came.n, 10);
}

static void bad_command_lines_are_refused(void)
{
    static const char *const bad[][3] = {
        {"x"}, {"x", "y", "drop=2x"}, {"", "y"}, {"a-name-that-is-too-long", "y"}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pid_t child = fork();
        int state = 0;

        if (child == 0) {
            freopen("/dev/null", "w", stderr);
            execl(relay_path, "relay", bad[i][0], bad[i][1], bad[i][2], (char *)NULL);
            _exit(127);
        }
        MPT_EQ(waitpid(child, &state, 0), child);
        MPT_TRUE(WIFEXITED(state));
        MPT_EQ(WEXITSTATUS(state), 2);
    }
}

static void it_ends_when_nobody_orders(void)
{
    int state = 0;

    close(orders_fd);
    MPT_EQ(waitpid(relay, &state, 0), relay);
    relay = 0;
    MPT_EQ(state, 0);
    MPT_EQ(if_nametoindex("end0"), 0);
    MPT_EQ(if_nametoindex("end1"), 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"a_good_wire_loses_and_reorders_nothing", a_good_wire_loses_and_reorders_nothing},
    {"a_share_is_dropped", a_share_is_dropped},
    {"a_seed_decides_which", a_seed_decides_which},
    {"all_come_so_much_later", all_come_so_much_later},
    {"a_share_is_overtaken", a_share_is_overtaken},
    {"a_stall_lasts_until_it_is_ended", a_stall_lasts_until_it_is_ended},
    {"bad_orders_are_refused", bad_orders_are_refused},
    {"bad_command_lines_are_refused", bad_command_lines_are_refused},
    {"it_ends_when_nobody_orders", it_ends_when_nobody_orders},
};
#define N_CASES (sizeof(cases) / sizeof(cases[0]))

int main(void)
{
    mpt_start();
    mpt_on_fail = tell_failure;
    find_relay();
    if (access("/dev/net/tun", R_OK | W_OK) != 0) {
        mpt_skip("/dev/net/tun: %s", strerror(errno));
    }
    enter_namespace();
    printf("1..%zu\n", N_CASES);
    start_relay();
    sockets[0] = open_end("end0");
    sockets[1] = open_end("end1");
    for (size_t i = 0; i < N_CASES; i++) {
        current = cases[i].name;
        cases[i].run();
        printf("ok %s\n", current);
    }
    close(sockets[0]);
    close(sockets[1]);
    return mpt_passed();
}
