/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bad wire: carries Ethernet frames between two TAP devices, late, out of order, or not at all.
 *
 *     relay A B [SETTING]...
 *
 * Makes the devices A and B in its network namespace. What is sent to one comes out of the other:
 *
 *   delay=TIME       so much later (0s; at most 10s)
 *   reorder=PERCENT  that share another `hold` later, so that younger frames overtake it (0)
 *   hold=TIME        (5ms; at most 10s)
 *   drop=PERCENT     that share is dropped (0)
 *   seed=NUMBER      of what is drawn by lot; each direction draws by itself
 *   stall            all is dropped, what is on its way too, until
 *   resume
 *   count            changes nothing
 *
 * Standard input takes the same, one a line. Each line, and the start, is answered by one line:
 * "ok seed=N forwarded=N dropped=N reordered=N" or "error WHY". At the end of standard input the
 * relay ends, and the devices with it: a test that dies leaves nothing. One thread, no lock.
 */
#include "config.h"

#include "test/net/relay_queue.h"

#include "test/mp/mptest.h"
#include "util/clock.h"
#include "util/env.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_NBYTES = 256, EXIT_USAGE = 2, BATCH = 64 };

#define TIME_MOST (10 * NXR_S)

static struct {
    double drop, reorder; /* percent */
    int64_t delay_ns, hold_ns;
    uint64_t seed;
    bool is_stalled;
} setting = {.hold_ns = 5 * NXR_MS};

static struct {
    uint64_t n_forwarded, n_dropped, n_reordered;
} count;

static int device_fds[2];
static uint64_t draws[2]; /* the state of each direction's lot */
static struct relay_queue queue;

/* ---- settings -------------------------------------------------------------------------------- */

/* Each parser returns NULL, or what is allowed. */
static const char *parse_percent(const char *text, double *value_p)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= 0 && value <= 100)) {
        return "a number from 0 to 100";
    }
    *value_p = value;
    return NULL;
}

static const char *parse_time(const char *text, int64_t *value_p)
{
    int64_t ns;

    if (nxr_env_parse_time(text, &ns) != 0 || ns < 0 || ns > TIME_MOST) {
        return "a time from 0s to 10s";
    }
    *value_p = ns;
    return NULL;
}

static void set_seed(uint64_t seed)
{
    setting.seed = seed;
    for (int i = 0; i < 2; i++) {
        draws[i] = seed + (uint64_t)i;
        mpt_random(&draws[i]);
    }
}

static const char *parse_seed(const char *text)
{
    char *end;
    uint64_t seed;

    errno = 0;
    seed = strtoull(text, &end, 10);
    if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0') {
        return "a whole number";
    }
    set_seed(seed);
    return NULL;
}

static void stall(void)
{
    setting.is_stalled = true;
    count.n_dropped += relay_queue_clear(&queue);
}

/* Apply one setting, or write why it is none. */
static bool apply(const char *text, char *why, size_t why_nbytes)
{
    const char *value = strchr(text, '=');
    size_t name_nbytes = value != NULL ? (size_t)(value++ - text) : strlen(text);
    const char *allowed = NULL;

#define IS(_name) (name_nbytes == sizeof(_name) - 1 && memcmp(text, _name, name_nbytes) == 0)
    if (value != NULL && IS("delay")) {
        allowed = parse_time(value, &setting.delay_ns);
    } else if (value != NULL && IS("hold")) {
        allowed = parse_time(value, &setting.hold_ns);
    } else if (value != NULL && IS("drop")) {
        allowed = parse_percent(value, &setting.drop);
    } else if (value != NULL && IS("reorder")) {
        allowed = parse_percent(value, &setting.reorder);
    } else if (value != NULL && IS("seed")) {
        allowed = parse_seed(value);
    } else if (value == NULL && IS("stall")) {
        stall();
    } else if (value == NULL && IS("resume")) {
        setting.is_stalled = false;
    } else if (value != NULL || !IS("count")) {
        snprintf(why, why_nbytes,
                 "'%s' is no setting; allowed: delay=, reorder=, hold=, drop=, seed=, stall, "
                 "resume and count",
                 text);
        return false;
    }
#undef IS
    if (allowed != NULL) {
        snprintf(why, why_nbytes, "'%s': allowed: %s", text, allowed);
    }
    return allowed == NULL;
}

static void answer(void)
{
    printf("ok seed=%" PRIu64 " forwarded=%" PRIu64 " dropped=%" PRIu64 " reordered=%" PRIu64 "\n",
           setting.seed, count.n_forwarded, count.n_dropped, count.n_reordered);
    fflush(stdout);
}

/* Read orders and answer them; false at the end of standard input. */
static bool take_orders(void)
{
    static char text[LINE_NBYTES];
    static size_t used;
    ssize_t n = read(STDIN_FILENO, text + used, sizeof(text) - 1 - used);
    char *end, why[LINE_NBYTES * 2];

    if (n <= 0) {
        return n < 0 && errno == EINTR;
    }
    used += (size_t)n;
    text[used] = '\0';
    while ((end = strchr(text, '\n')) != NULL) {
        *end = '\0';
        if (apply(text, why, sizeof(why))) {
            answer();
        } else {
            printf("error %s\n", why);
            fflush(stdout);
        }
        used -= (size_t)(end + 1 - text);
        memmove(text, end + 1, used + 1);
    }
    if (used == sizeof(text) - 1) {
        fprintf(stderr, "relay: a line of standard input is longer than %zu bytes\n", used);
        return false;
    }
    return true;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static bool draw(int direction, double percent)
{
    return (double)(mpt_random(&draws[direction]) >> 11) * 0x1p-53 * 100 < percent;
}

/* Take what has come from one device. Each frame draws twice, whatever the settings are. */
static void take_frames(int direction)
{
    struct relay_frame *frame;

    for (int i = 0; i < BATCH && (frame = relay_frame_read(device_fds[direction])) != NULL; i++) {
        bool is_dropped = draw(direction, setting.drop);
        bool is_held = draw(direction, setting.reorder);

        frame->to = !direction;
        frame->due_ns = nxr_now_ns() + setting.delay_ns + (is_held ? setting.hold_ns : 0);
        if (setting.is_stalled || is_dropped || !relay_queue_add(&queue, frame)) {
            count.n_dropped++;
            free(frame);
        } else {
            count.n_reordered += is_held;
        }
    }
}

/* Send what is due. A device that is down, or whose queue is full, takes nothing: a drop. */
static void send_frames(void)
{
    struct relay_frame *frame;

    while ((frame = relay_queue_take(&queue, nxr_now_ns())) != NULL) {
        if (write(device_fds[frame->to], frame->bytes, frame->nbytes) == (ssize_t)frame->nbytes) {
            count.n_forwarded++;
        } else {
            count.n_dropped++;
        }
        free(frame);
    }
}

static void serve(void)
{
    struct pollfd polled[] = {{.fd = device_fds[0], .events = POLLIN},
                              {.fd = device_fds[1], .events = POLLIN},
                              {.fd = STDIN_FILENO, .events = POLLIN}};

    for (;;) {
        int64_t due_ns = relay_queue_due_ns(&queue), now_ns = nxr_now_ns();
        struct timespec wait = nxr_timespec(due_ns > now_ns ? due_ns - now_ns : 0);

        if (ppoll(polled, 3, due_ns == INT64_MAX ? NULL : &wait, NULL) < 0 && errno != EINTR) {
            perror("relay: ppoll");
            return;
        }
        if ((polled[2].revents != 0 && !take_orders()) ||
            ((polled[0].revents | polled[1].revents) & POLLERR)) {
            return; /* no more orders come, or a device was removed */
        }
        take_frames(0);
        take_frames(1);
        send_frames();
    }
}

/* A TAP device of that name in this network namespace. It lives as long as the descriptor. */
static int make_device(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd;

    if (name[0] == '\0' || strlen(name) >= sizeof(request.ifr_name)) {
        fprintf(stderr, "relay: device '%s'; allowed: 1 to %zu bytes\n", name,
                sizeof(request.ifr_name) - 1);
        exit(EXIT_USAGE);
    }
    memcpy(request.ifr_name, name, strlen(name));
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) {
        fprintf(stderr, "relay: cannot make the TAP device '%s': %s\n", name, strerror(errno));
        exit(EXIT_FAILURE);
    }
    return fd;
}

int main(int argc, char **argv)
{
    char why[LINE_NBYTES * 2];

    if (argc < 3) {
        fputs("Usage: relay A B [delay=TIME] [reorder=PERCENT] [hold=TIME] [drop=PERCENT]\n"
              "             [seed=NUMBER] [stall]\n",
              stderr);
        return EXIT_USAGE;
    }
    set_seed((uint64_t)nxr_now_ns());
    for (int i = 3; i < argc; i++) {
        if (!apply(argv[i], why, sizeof(why))) {
            fprintf(stderr, "relay: %s\n", why);
            return EXIT_USAGE;
        }
    }
    device_fds[0] = make_device(argv[1]);
    device_fds[1] = make_device(argv[2]);
    answer();
    serve();
    relay_queue_clear(&queue);
    free(queue.frames);
    return 0;
}
