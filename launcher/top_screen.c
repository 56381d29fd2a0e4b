/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal of nixlrun top, by the sequences that all terminals of today have. State: what the
 * terminal was before. Single-threaded.
 */
#include "config.h"

#include "launcher/top_screen.h"
#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l\033[2J"
#define LEAVE "\033[?25h\033[?1049l"

static struct termios screen_before;
static bool screen_is_open;
static int screen_signals = -1;

static void screen_write(const char *text, size_t nbytes)
{
    while (nbytes > 0) {
        ssize_t n = write(STDOUT_FILENO, text, nbytes);

        if (n <= 0 && errno != EINTR) {
            return;
        }
        text += n > 0 ? n : 0;
        nbytes -= n > 0 ? (size_t)n : 0;
    }
}

static void screen_measure(struct top_screen *screen)
{
    struct winsize size = {.ws_col = 0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
        size.ws_col = 80;
        size.ws_row = 24;
    }
    screen->columns = size.ws_col;
    screen->rows = size.ws_row;
}

/* Signals that would end the program are read instead, so that the terminal is put in order. */
static bool screen_take_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGTSTP);
    sigaddset(&set, SIGWINCH);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0) {
        return false;
    }
    screen_signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return screen_signals >= 0;
}

/* Take the terminal, as it is now. */
static bool screen_enter(struct top_screen *screen)
{
    struct termios raw;

    if (tcgetattr(STDIN_FILENO, &screen_before) != 0) {
        return false;
    }
    raw = screen_before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) != 0) {
        return false;
    }
    screen_is_open = true;
    screen_measure(screen);
    screen_write(ENTER, strlen(ENTER));
    return true;
}

/* Give the terminal back, as it was. */
static void screen_leave(void)
{
    if (screen_is_open) {
        screen_write(LEAVE, strlen(LEAVE));
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &screen_before);
        screen_is_open = false;
    }
}

bool top_screen_open(struct top_screen *screen)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || term == NULL ||
        strcmp(term, "dumb") == 0 || !screen_take_signals()) {
        return false;
    }
    screen->has_color = no_color == NULL || no_color[0] == '\0';
    return screen_enter(screen);
}

void top_screen_close(void)
{
    screen_leave();
    if (screen_signals >= 0) {
        close(screen_signals);
        screen_signals = -1;
    }
}

void top_screen_show(const char *text)
{
    screen_write("\033[H", 3);
    while (*text != '\0') {
        const char *end = strchrnul(text, '\n');

        screen_write(text, (size_t)(end - text));
        screen_write("\033[K", 3);
        if (*end == '\0') {
            break;
        }
        text = end + 1;
        if (*text != '\0') {
            screen_write("\r\n", 2);
        }
    }
    screen_write("\033[J", 3);
}

/* "q", Ctrl-C and Ctrl-D quit; arrows, j and k scroll; v shows something else. */
static enum top_key screen_key(void)
{
    char keys[16];
    ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));

    if (n <= 0) {
        return n == 0 || errno == EINTR ? TOP_KEY_NONE : TOP_KEY_QUIT;
    }
    if (keys[0] == 'q' || keys[0] == 'Q' || keys[0] == 4) {
        return TOP_KEY_QUIT;
    }
    if (keys[0] == 'j' || (n >= 3 && memcmp(keys, "\033[B", 3) == 0)) {
        return TOP_KEY_DOWN;
    }
    if (keys[0] == 'k' || (n >= 3 && memcmp(keys, "\033[A", 3) == 0)) {
        return TOP_KEY_UP;
    }
    return keys[0] == 'v' || keys[0] == '\t' ? TOP_KEY_VIEW : TOP_KEY_NONE;
}

/* Ctrl-Z: stop as other programs do, with the terminal in order. */
static enum top_key screen_stop(struct top_screen *screen)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    screen_leave();
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* here it stops, unless nobody could continue it */
    sigprocmask(SIG_BLOCK, &set, NULL);
    return screen_enter(screen) ? TOP_KEY_SIZE : TOP_KEY_QUIT;
}

static enum top_key screen_signal(struct top_screen *screen)
{
    struct signalfd_siginfo info;

    if (read(screen_signals, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
        return TOP_KEY_NONE;
    }
    if (info.ssi_signo == SIGTSTP) {
        return screen_stop(screen);
    }
    if (info.ssi_signo != SIGWINCH) {
        return TOP_KEY_QUIT;
    }
    screen_measure(screen);
    return TOP_KEY_SIZE;
}

enum top_key top_screen_wait(struct top_screen *screen, int64_t until_ns)
{
    struct pollfd polled[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                              {.fd = screen_signals, .events = POLLIN}};
    enum top_key key = TOP_KEY_NONE;

    while (key == TOP_KEY_NONE) {
        int64_t left_ns = until_ns - nxr_now_ns();

        if (left_ns <= 0 || poll(polled, 2, (int)(left_ns / NXR_MS) + 1) <= 0) {
            if (left_ns <= 0) {
                return TOP_KEY_NONE;
            }
            continue;
        }
        if (polled[1].revents != 0) {
            key = screen_signal(screen);
        } else if ((polled[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
            key = TOP_KEY_QUIT; /* the terminal is gone */
        } else if (polled[0].revents != 0) {
            key = screen_key();
        }
    }
    return key;
}
